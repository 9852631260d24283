"""Preemption: which pods have to leave so that a more important one fits, and on which node."""
