"""Which nodes to add for which pending pods: pure, on a picture. See `plan`."""
