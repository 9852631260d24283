"""The audit: compares the cluster state with the API server and with its own sums, and repairs it."""
