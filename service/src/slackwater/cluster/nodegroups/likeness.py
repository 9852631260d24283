"""What the nodes of a group have alike: a new node that has more taints, or fewer devices, has not started yet.

A driver's taint may be anything, and its device appears minutes after the node is ready. What the group's other nodes have is
known, so no list of names is needed. Where nobody knows what a node of the group has, none is told from another.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TypeVar

from slackwater.cluster.nodegroups.status import Marks
from slackwater.model.nodegroups import NodeGroup
from slackwater.model.nodetaints import TaintRules, repels, taint_id
from slackwater.model.objects import Node

T = TypeVar("T")

#: In the names of devices, which drivers make.
_DEVICE_MARK = "/"


def marks_of(node: Node, rules: TaintRules) -> Marks:
    """Of one node: its taints, but for those of start and status, and its devices."""
    taints = frozenset(taint_id(taint) for taint in node.taints if repels(taint) and not rules.is_own(taint.key))
    return Marks(taints, frozenset(name for name, amount in node.scalars if amount and _DEVICE_MARK in name))


def said_marks(group: NodeGroup, rules: TaintRules) -> Marks | None:
    """What the provider or the configuration says of a new node; None where nobody says anything."""
    return None if group.template is None else marks_of(group.template, rules)


def expected_of(usual: Marks | None, said: Marks | None) -> Marks | None:
    """What a new node may have of taints, and must have of devices."""
    if usual is None or said is None:
        return usual or said
    return Marks(usual.taints | said.taints, usual.devices)


def usual_of(started: Sequence[Marks], before: Marks | None) -> Marks | None:
    """What most of the nodes that have started have; as `before` where there are none."""
    if not started:
        return before
    half = len(started) / 2
    return Marks(_most((each.taints for each in started), half), _most((each.devices for each in started), half))


def _most(sets: Iterable[frozenset[T]], half: float) -> frozenset[T]:
    counts = Counter(each for some in sets for each in some)
    return frozenset(each for each, count in counts.items() if count > half)


def differs(marks: Marks, usual: Marks | None) -> bool:
    """Has a node taints that its like lack, or does it lack devices that these have?"""
    return usual is not None and not (marks.taints <= usual.taints and usual.devices <= marks.devices)
