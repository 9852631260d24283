"""`/explain/...` on the running service: a mirror that follows the world while somebody asks, and what is read beside it."""
