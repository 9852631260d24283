"""Which nodes can go together, which of them go now, and whether what has begun still holds: pure, one loop at a time."""
