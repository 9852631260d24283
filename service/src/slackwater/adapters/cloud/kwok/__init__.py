"""Nodes without machines: Node objects that KWOK's controller, where it runs, brings to life.

For the demo, for trials and for tests: a group grows and shrinks as in a cloud, with its delays and its failures, at no cost.
"""
