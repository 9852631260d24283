"""The audit: holds the cluster state against the API server and against its own sums, and repairs it."""
