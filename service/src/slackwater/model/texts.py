"""Texts for people that several parts write: a count with its noun, and a list that is cut short."""

from collections.abc import Sequence


def count_text(count: int, noun: str) -> str:
    """The count with its noun: "1 node", "2,000 nodes"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def first_few(names: Sequence[str], most: int, *, separator: str = ", ", total: int | None = None) -> str:
    """The first `most` names, and how many more there are: "a, b and 3 more". `total`: the number of all names, if `names` has
    only some of them."""
    more = (len(names) if total is None else total) - min(len(names), most)
    return separator.join(names[:most]) + (f" and {more} more" if more > 0 else "")
