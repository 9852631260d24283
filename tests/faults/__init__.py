"""Deterministic simulation: the unmodified service on virtual time against the embedded sandbox, with faults at every await.

`make faults`, or `python -m tests.faults --help`. docs/faults.md explains what is broken, what is checked, and how to replay.
"""
