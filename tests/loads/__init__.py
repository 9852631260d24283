"""Load shapes over hours of virtual time: what the autoscaler buys, removes and evicts meanwhile."""
