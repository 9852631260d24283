"""Disagreements of kube-scheduler and us about where a pod fits: pods that it keeps refusing, and pods that it placed."""
