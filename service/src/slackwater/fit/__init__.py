"""Predicates, scores and placement on the columns of a snapshot. Everything here is pure and reserves nothing in the
cluster."""
