"""What-if on the running service: simulates the cluster as it is, or with other objects or another configuration."""
