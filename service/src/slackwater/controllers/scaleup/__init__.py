"""Scale-up: which nodes to add for which pending pods. Pure, on a snapshot; see `plan`."""
