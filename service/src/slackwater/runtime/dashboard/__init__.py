"""Prepares what the dashboard shows: problems, nodes, pending pods and series of figures, in memory of bounded size."""
