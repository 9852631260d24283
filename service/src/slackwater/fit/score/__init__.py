"""The score plug-ins of kube-scheduler's default profile, one a file: 0..100 for each feasible row."""
