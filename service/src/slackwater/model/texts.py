"""Texts for people that several parts write or read: a count with its noun, a time, money, a list that is cut short, remarks on
pods that were added to a file, the reasons in kube-scheduler's message about a pod that fits nowhere."""

import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Final

_NUMBER: Final = re.compile(r"\d+")
#: Here kube-scheduler's message begins to say what preemption would do. That part changes with every victim that leaves.
_PREEMPTION: Final = " preemption: "
_AVAILABLE: Final = re.compile(r"0/(\d+) nodes are available: ")
_COUNTED: Final = re.compile(r"(?:^|, )(\d+) ")
#: A text of `added_pods_text`, and the most of them in a table.
_ADDED: Final = re.compile(r"[^:]+: (\d+) of its pods (?:is|are) not in the file, and (?:is|are) added: ")
_MOST_REMARKS: Final = 3


def count_text(count: int, noun: str) -> str:
    """The count with its noun: "1 node", "2,000 nodes"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def time_text(seconds: float) -> str:
    """A time in the two units that fit it: "3 h 12 min", "4 min 10 s", "0 s"."""
    hours, rest = divmod(round(seconds), 3600)
    minutes, left = divmod(rest, 60)
    parts = [(hours, "h"), (minutes, "min"), (left if not hours else 0, "s")]
    return " ".join(f"{amount} {unit}" for amount, unit in parts if amount) or "0 s"


def money_text(amount: str) -> str:
    """An amount of an answer for people: "1,234.50"."""
    return f"{Decimal(amount):,.2f}"


def first_few(names: Sequence[str], most: int, *, separator: str = ", ", total: int | None = None) -> str:
    """The first `most` names, and how many more there are: "a, b and 3 more". `total`: the number of all names, if `names` has
    only some of them."""
    more = (len(names) if total is None else total) - min(len(names), most)
    return separator.join(names[:most]) + (f" and {more} more" if more > 0 else "")


def added_pods_text(controller: str, count: int, names: str) -> str:
    """Says that pods of this controller were added to a file."""
    are = "is" if count == 1 else "are"
    return f"{controller}: {count} of its pods {are} not in the file, and {are} added: {names}"


def summed_up(remarks: Sequence[str]) -> list[str]:
    """The remarks for a table: more than `_MOST_REMARKS` on added pods become one line, in the place of the first of them."""
    added = [found for found in map(_ADDED.match, remarks) if found is not None]
    if len(added) <= _MOST_REMARKS:
        return list(remarks)
    pods = sum(int(found[1]) for found in added)
    sum_of_all = f"{len(added)} controllers: {pods:,} of their pods are not in the file, and are added; -o json names them"
    return list(dict.fromkeys(remark if _ADDED.match(remark) is None else sum_of_all for remark in remarks))


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
