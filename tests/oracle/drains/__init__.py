"""The law of a scale-down plan, with kube-scheduler's own plug-ins as the judge: carried out in order, every pod fits."""
