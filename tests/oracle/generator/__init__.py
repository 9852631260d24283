"""Small clusters on purpose: every field that a plug-in reads, valid as an API server would accept it, odd where it may be."""

from tests.oracle.generator.cluster import generate

__all__ = ["generate"]
