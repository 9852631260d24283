"""Node accounting: the columns of `model.columns` and every transition between them.

Each transition is a method of `Ledger`; nothing else writes those columns. Formulas: reference/neon-scheduler.md section 2.
"""
