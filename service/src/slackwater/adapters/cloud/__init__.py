"""Providers of node groups, which implement `ports.protocols.NodeProvider`: one package for each."""
