"""Permits for workloads that grow in place: the agents' requests, their limits, and what is persisted of them."""
