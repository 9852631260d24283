"""Loops that look at the whole now and then: the autoscaler's."""
