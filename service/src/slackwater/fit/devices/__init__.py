"""Allocation of devices to claims as kube-scheduler does it: pools, CEL selectors, and the search for a first solution."""
