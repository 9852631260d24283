"""Removals of nodes that have begun: a state machine for each, from its taint to its deletion or back."""
