"""Benchmarks: `python -m tests.bench`. Every number that is compared is a ratio to something in the same run.

Deliberately absent: any assertion on an absolute time, and any number of another machine.
"""
