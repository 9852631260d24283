"""Comparison of a new node with its group: a node with more taints, or fewer devices, than the others has not started yet.

A driver's taint may have any key, and its device appears minutes after the node is ready. The group's other nodes show what is
usual, so no list of names is needed. Where neither nodes nor a template show it, no node counts as different.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TypeVar

from slackwater.cluster.nodegroups.status import Marks
from slackwater.model.nodegroups import NodeGroup
from slackwater.model.nodetaints import TaintRules, repels, taint_id
from slackwater.model.objects import Node

T = TypeVar("T")

#: Occurs in the names of devices, which drivers provide.
_DEVICE_MARK = "/"


def marks_of(node: Node, rules: TaintRules) -> Marks:
    """The marks of one node: its taints, without start-up and status taints, and its devices."""
    taints = frozenset(taint_id(taint) for taint in node.taints if repels(taint) and not rules.is_own(taint.key))
    return Marks(taints, frozenset(name for name, amount in node.scalars if amount and _DEVICE_MARK in name))


def said_marks(group: NodeGroup, rules: TaintRules) -> Marks | None:
    """The marks of the group's template, from the provider or the configuration; None without a template."""
    return None if group.template is None else marks_of(group.template, rules)


def expected_of(usual: Marks | None, said: Marks | None) -> Marks | None:
    """The taints that a new node may have, and the devices that it must have."""
    if usual is None or said is None:
        return usual or said
    return Marks(usual.taints | said.taints, usual.devices)


def usual_of(started: Sequence[Marks], before: Marks | None) -> Marks | None:
    """What more than half of the started nodes have; `before` where no node has started."""
    if not started:
        return before
    half = len(started) / 2
    return Marks(_most((each.taints for each in started), half), _most((each.devices for each in started), half))


def _most(sets: Iterable[frozenset[T]], half: float) -> frozenset[T]:
    counts = Counter(each for some in sets for each in some)
    return frozenset(each for each, count in counts.items() if count > half)


def differs(marks: Marks, usual: Marks | None) -> bool:
    """Whether a node has taints that the others lack, or lacks devices that they have."""
    return usual is not None and not (marks.taints <= usual.taints and usual.devices <= marks.devices)
