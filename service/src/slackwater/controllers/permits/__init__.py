"""Permits of workloads that grow in place: answers agents' requests, sets permit limits, and persists them."""
