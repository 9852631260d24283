"""Slackwater: one cluster state of the cluster, one definition of "fits"."""

__version__ = "0.1.0"
