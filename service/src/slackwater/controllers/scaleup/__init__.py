"""Scale-up: plans which nodes to add for which pending pods. Pure functions on a snapshot; see `plan`."""
