"""Nominations in advance: chooses nodes for pending pods before kube-scheduler searches for them."""
