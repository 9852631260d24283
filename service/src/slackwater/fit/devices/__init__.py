"""Allocation of devices to claims as in kube-scheduler: pools, CEL selectors, and the search for the first solution."""
