"""Which nodes to add for which pending pods: pure, on a snapshot. See `plan`."""
