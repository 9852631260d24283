"""Where kube-scheduler should look first: nodes for pending pods, chosen ahead of its own search."""
