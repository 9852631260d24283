"""Preemption: decides which pods have to leave which node so that a more important pod fits, and carries this out."""
