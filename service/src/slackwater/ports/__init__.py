"""The Protocols between what decides and what waits, and the clock."""
