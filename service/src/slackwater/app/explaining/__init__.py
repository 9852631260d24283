"""`/explain/...` on the running service: a replica that follows the state machine while somebody asks, and what is read beside
it."""
