"""The result of planning a consolidation, as values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush
from math import inf
from typing import Final, NamedTuple

from slackwater.controllers.scaledown.state import KeptNode
from slackwater.fit.steps import CutBy
from slackwater.model.disruption_budgets import DisruptionReason
from slackwater.model.ids import NodeName, PodKey, PodUid
from slackwater.model.nodegroups import GroupName
from slackwater.model.placeholders import is_placeholder_uid


class LeavingNode(NamedTuple):
    """A node that a move removes. `group`: that of the provider. `price`: micros an hour."""

    name: NodeName
    group: GroupName
    price: int


class NewNode(NamedTuple):
    """A node that a move adds. `name` stands for it in the plan; it has no real one yet. `group`: the growable group, perhaps a
    variant of `owner`, the group that the provider knows. `price`: micros an hour."""

    name: NodeName
    group: GroupName
    owner: GroupName
    price: int


#: No name of a real node has a colon.
_NEW: Final = "new:"


def new_name(group: GroupName, number: int) -> NodeName:
    """The name in a plan of its new node with this number."""
    return NodeName(f"{_NEW}{group}:{number}")


def is_new(name: NodeName) -> bool:
    """Does the name stand for a new node?"""
    return name.startswith(_NEW)


class PodMove(NamedTuple):
    """A pod, by its names, and the nodes that it leaves and goes to; the latter perhaps the `name` of a `NewNode`."""

    uid: PodUid
    key: PodKey
    of: NodeName
    to: NodeName


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsolidationMove:
    """Nodes that go, in this order, and nodes that come before the first of them goes. `after`: the positions in the plan of
    the moves whose new nodes this one uses; it needs no others.

    `reason`: why; a move with another one than "Underutilized" need not save money. `saved`: micros an hour. `disruption`: what
    the move disturbs, by the removal score's measure, with 1 for each node. `ratio`: the share of all money that it saves,
    divided by its share of all disruption. `moving_cost`: micros, once. `risky`: a budget allows fewer disruptions now than it
    has pods on one of the nodes, so the move will have to wait."""

    leaving: tuple[LeavingNode, ...]
    coming: tuple[NewNode, ...]
    pods: tuple[PodMove, ...]
    after: tuple[int, ...]
    reason: DisruptionReason = "Underutilized"
    saved: int
    disruption: float
    ratio: float
    moving_cost: int
    risky: bool

    @property
    def evictions(self) -> int:
        """The number of pods that leave their node. Placeholders do not count, since they exist only in plans."""
        return sum(not is_placeholder_uid(each.uid) for each in self.pods)

    @property
    def new_nodes(self) -> Mapping[GroupName, int]:
        """How many nodes come, by growable group."""
        found: dict[GroupName, int] = {}
        for each in self.coming:
            found[each.group] = found.get(each.group, 0) + 1
        return found


def best_first(moves: Sequence[ConsolidationMove]) -> tuple[ConsolidationMove, ...]:
    """The moves: those of nodes that are due in their order, then those of the highest ratio, each after the moves whose new
    nodes it uses."""
    waits, used_by = [len(move.after) for move in moves], [list[int]() for _ in moves]
    for at, move in enumerate(moves):
        for before in move.after:
            used_by[before].append(at)
    ranks = [-move.ratio if move.reason == "Underutilized" else -inf for move in moves]
    ready = [(ranks[at], at) for at, move in enumerate(moves) if not move.after]
    heapify(ready)
    order: list[int] = []
    while ready:
        at = heappop(ready)[1]
        order.append(at)
        for later in used_by[at]:
            waits[later] -= 1
            if not waits[later]:
                heappush(ready, (ranks[later], later))
    place = {at: number for number, at in enumerate(order)}
    return tuple(replace(moves[at], after=tuple(sorted(place[each] for each in moves[at].after))) for at in order)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsolidationPlan:
    """The plan of a consolidation. `moves`: in the order in which they are made; a plan that stops after any of them is valid.
    `kept`: the nodes that stay and why, in the order of the node list. `due`: the nodes that are to be replaced for another
    reason than money, those that stay for now too.

    `cost`: micros an hour of all nodes that belong to groups, before. `bound`: no set of new nodes of the groups that holds the
    same pods costs less, if each group could grow without limit; 0 if it is not known. `steps`: the work of the plan; `cut_by`:
    the limit that ended it."""

    moves: tuple[ConsolidationMove, ...] = ()
    kept: tuple[KeptNode, ...] = ()
    due: tuple[NodeName, ...] = ()
    cost: int = 0
    bound: int = 0
    steps: int = 0
    cut_by: CutBy | None = None

    @property
    def saved(self) -> int:
        """Micros an hour."""
        return sum(move.saved for move in self.moves)

    @property
    def cost_after(self) -> int:
        """Micros an hour of all nodes that belong to groups, after the last move."""
        return self.cost - self.saved

    @property
    def evictions(self) -> int:
        return sum(move.evictions for move in self.moves)
