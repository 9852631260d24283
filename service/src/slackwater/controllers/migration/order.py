"""Who leaves first: the order of a node's migration queue."""

from typing import NamedTuple


class Rank(NamedTuple):
    """1. machines with a load before those without  2. lower one-minute load (least harm)  3. who joined first.

    The last makes the order total and stable: equal loads never change places.
    """

    without_load: bool
    load1_micro: int
    joined: int


def rank(load1_micro: int | None, joined: int) -> Rank:
    return Rank(load1_micro is None, load1_micro or 0, joined)
