"""Texts for people that several parts write or read: a count with its noun, a list that is cut short, the reasons in
kube-scheduler's message about a pod that fits nowhere."""

import re
from collections.abc import Sequence
from typing import Final

_NUMBER: Final = re.compile(r"\d+")
#: Here kube-scheduler's message begins to say what preemption would do. That part changes with every victim that leaves.
_PREEMPTION: Final = " preemption: "
_AVAILABLE: Final = re.compile(r"0/(\d+) nodes are available: ")
_COUNTED: Final = re.compile(r"(?:^|, )(\d+) ")


def count_text(count: int, noun: str) -> str:
    """The count with its noun: "1 node", "2,000 nodes"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def first_few(names: Sequence[str], most: int, *, separator: str = ", ", total: int | None = None) -> str:
    """The first `most` names, and how many more there are: "a, b and 3 more". `total`: the number of all names, if `names` has
    only some of them."""
    more = (len(names) if total is None else total) - min(len(names), most)
    return separator.join(names[:most]) + (f" and {more} more" if more > 0 else "")


def refusal_reasons(message: str, *, cut: bool = False) -> frozenset[str]:
    """The reasons in kube-scheduler's message, without the numbers of nodes. A set, because kube-scheduler orders the reasons
    by these numbers. `cut`: the end of the message is missing, and with it a part of the last reason."""
    text = _AVAILABLE.sub("", message.partition(_PREEMPTION)[0]).rstrip(". ")
    parts = [part.strip() for part in _NUMBER.sub("", text).split(",")]
    return frozenset(parts[:-1] if cut and len(parts) > 1 else parts)


def counts_every_node(message: str) -> bool:
    """Do the numbers in kube-scheduler's message add up to all nodes? They do not if it has judged only a sample."""
    nodes = _AVAILABLE.match(message)
    counted = _COUNTED.findall(message.partition(_PREEMPTION)[0][nodes.end() :]) if nodes is not None else ()
    return nodes is not None and sum(map(int, counted)) >= int(nodes[1])
