"""Small clusters on purpose: every field that a plug-in reads, valid as an API server would accept it, odd where it may be."""

from tests.oracle.generator.cluster import SMALL, Size, generate

__all__ = ["SMALL", "Size", "generate"]
