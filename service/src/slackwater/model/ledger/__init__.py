"""Node accounting: the columns of `model.columns` and every transition between them.

Each transition is a method of `Ledger`; nothing else writes those columns. Formulas: neondatabase/autoscaling v0.36.1,
pkg/plugin/trans.go.
"""
