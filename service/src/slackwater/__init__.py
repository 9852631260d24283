"""Slackwater: one cluster state of the cluster, one definition of "fits"."""

# Both distributions have one version, and the service needs the protocol of its own.
from slackwater_protocol import __version__

__all__ = ["__version__"]
