"""Consolidation: replaces sets of nodes by cheaper sets."""
