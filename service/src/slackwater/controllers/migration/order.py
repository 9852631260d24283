"""The order of a node's migration queue: which machine leaves first."""

from typing import NamedTuple


class Rank(NamedTuple):
    """A machine's rank, the first to leave lowest. 1. machines with a load before those without  2. lower one-minute load,
    which disturbs least  3. joined first.

    The last makes the order total and stable: machines of equal load never change places.
    """

    without_load: bool
    load1_micro: int
    joined: int


def rank(load1_micro: int | None, joined: int) -> Rank:
    return Rank(load1_micro is None, load1_micro or 0, joined)
