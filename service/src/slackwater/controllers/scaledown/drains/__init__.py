"""Removals of nodes that have begun: one state machine for each node, from its taint to its deletion or its rollback."""
