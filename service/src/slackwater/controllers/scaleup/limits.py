"""Limits on growth: a group's own maximum, the cluster's, quotas, and the most nodes of one plan.

Each planning has one `Budget`; opening nodes in a trial takes from a copy of it. Every limit is a pot of integers, of which a
node of a group takes so many: nodes are counted, CPU is in milliCPU, memory in bytes, everything else in whole numbers. Amounts
are what nodes have allocatable. Deliberately absent: what is in creation at the moment; a plan is for the whole demand, and the
code that carries it out decides how many nodes to create at a time.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self

from slackwater.controllers.scaleup.groups import GrowableGroup, SkipReason
from slackwater.model.columns import Rows
from slackwater.model.objects import Node
from slackwater.model.selectors import EVERYTHING, Selector, selects

#: The resource name in quotas that counts nodes.
NODES: Final = "nodes"
_GROUP_FULL: Final = "max node group size reached"
#: The label of nodes that stand for other clusters, which count for no quota.
_VIRTUAL: Final = ("type", "virtual-kubelet")


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """A quota: the most that the nodes selected by `selector` may have together, by resource: nodes, cpu, memory, others."""

    name: str
    limits: Mapping[str, int]
    selector: Selector = EVERYTHING


@dataclass(slots=True, kw_only=True)
class _Pot:
    """One limit: what is `left`, and what a new node of each group takes of it."""

    text: str
    left: int
    takes: tuple[int, ...]


class Budget:
    """What may still be opened within all limits. Groups are given by position."""

    __slots__ = ("_most", "_pots", "sizes")

    def __init__(self, sizes: list[int], most: tuple[int, ...], pots: list[_Pot]) -> None:
        #: The size of each group, with the nodes opened so far.
        self.sizes = sizes
        self._most = most
        self._pots = pots

    @classmethod
    def of(
        cls, groups: Sequence[GrowableGroup], *, nodes: Sequence[Node], quotas: Iterable[Quota] = (), max_nodes: int = 0
    ) -> Self:
        """The budget of one planning. `nodes` exist or are upcoming. `max_nodes` bounds the whole plan; 0: no limit."""
        pots = [pot for quota in quotas for pot in _pots(quota, groups, nodes)]
        if max_nodes:
            text = f"one plan adds at most {max_nodes} nodes"
            pots.append(_Pot(text=text, left=max_nodes, takes=(1,) * len(groups)))
        return cls([group.group.target for group in groups], tuple(group.group.max_size for group in groups), pots)

    def room(self, group: int) -> int:
        """How many more nodes of the group may be opened, if no other group's are; >= 0."""
        room = self._most[group] - self.sizes[group]
        for pot in self._pots:
            if pot.takes[group]:
                room = min(room, pot.left // pot.takes[group])
        return max(room, 0)

    def take(self, group: int, count: int) -> None:
        self.sizes[group] += count
        for pot in self._pots:
            pot.left -= pot.takes[group] * count

    def take_all(self, groups: Rows) -> None:
        """Opens nodes of these groups, one for each entry."""
        for group, count in counted(groups):
            self.take(group, count)

    def skip_reason(self, group: int) -> SkipReason | None:
        """Why no more node of the group may be opened; None if one may."""
        if self.sizes[group] >= self._most[group]:
            return SkipReason(kind="limit", text=_GROUP_FULL)
        full = (pot.text for pot in self._pots if pot.takes[group] and pot.left < pot.takes[group])
        text = next(full, None)
        return None if text is None else SkipReason(kind="limit", text=text)

    def needs(self, groups: Rows) -> list[tuple[int, int]]:
        """The limits that opening nodes of these groups, one for each entry, takes from: their numbers, and how much of
        each."""
        found = counted(groups)
        of_groups = tuple(found)
        for number, pot in enumerate(self._pots, len(self.sizes)):
            amount = sum(pot.takes[group] * count for group, count in of_groups)
            if amount:
                found.append((number, amount))
        return found

    def left(self, limit: int) -> int:
        """How much is left of a limit: of a group's maximum, or of a pot."""
        n_groups = len(self.sizes)
        return self._most[limit] - self.sizes[limit] if limit < n_groups else self._pots[limit - n_groups].left

    def copy(self) -> "Budget":
        pots = [_Pot(text=pot.text, left=pot.left, takes=pot.takes) for pot in self._pots]
        return Budget(list(self.sizes), self._most, pots)


def counted(groups: Rows) -> list[tuple[int, int]]:
    """The number of entries for each group that has any, in order of groups."""
    if len(groups) and (groups == groups[0]).all():  # the usual case: an option with one group
        return [(int(groups[0]), len(groups))]
    return sorted(Counter(groups.tolist()).items())


def _pots(quota: Quota, groups: Sequence[GrowableGroup], nodes: Sequence[Node]) -> Iterable[_Pot]:
    counted = [node for node in nodes if counts_for(quota, node)]
    templates = [None if group.template is None else group.template.node for group in groups]
    for resource, limit in sorted(quota.limits.items()):
        yield _Pot(
            text=f'exceeded quota: "{quota.name}", resources: {resource}',
            left=limit - sum(amount_of(node, resource) for node in counted),
            takes=tuple(amount_of(node, resource) if node is not None and counts_for(quota, node) else 0 for node in templates),
        )


def counts_for(quota: Quota, node: Node) -> bool:
    """Does the quota apply to the node?"""
    key, value = _VIRTUAL
    return node.labels.get(key) != value and selects(quota.selector, node.labels)


def amount_of(node: Node, resource: str) -> int:
    """What a node has of a resource; for `nodes` it is 1."""
    match resource:
        case "nodes":
            return 1
        case "cpu":
            return node.allocatable.cpu
        case "memory":
            return node.allocatable.memory
        case _:
            return dict(node.scalars).get(resource, 0)
