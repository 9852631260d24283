"""The ConfigMap that tells how the autoscaler is doing: made, changed, and no trouble where it cannot be written."""
