"""Implementations of `ports.protocols.NodeProvider`, one package for each cloud provider."""
