"""Node accounting: what is reserved on each node, and how it changes with the node's pods.

`ledger.Ledger` alone writes the columns of `model.columns`; each of its methods is one transition. `transitions` computes what
one pod counts for after an event. Formulas: neondatabase/autoscaling v0.36.1, pkg/plugin/trans.go.
"""
