"""Simulated nodes: Node objects that KWOK's controller keeps alive.

For the demo, trials and tests: a group grows and shrinks as in a cloud, with delays and failures, at no cost.
"""
