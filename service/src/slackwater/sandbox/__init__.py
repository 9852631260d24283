"""Clusters on one machine: an embedded one, a real control plane with its build recipe, and the demo."""
