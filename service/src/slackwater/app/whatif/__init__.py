"""What if: questions about the cluster as it is, or as it would be with other objects or another configuration."""
