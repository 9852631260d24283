"""A node provider without machines: it creates Node objects, which KWOK's controller keeps alive if it runs.

For demos and tests: groups grow and shrink as in a cloud, with simulated delays and failures.
"""
