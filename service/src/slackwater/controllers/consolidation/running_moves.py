"""Moves of a consolidation that have begun: the new nodes come first, then the nodes that they replace go.

    batch = begun(moves, group_status, now)
    batch = batch.advanced(...)                 # after each observation
    batch.missing()                             # nodes that are still to be requested
    batch.replacing()                           # what scale-down has to know

Nothing of this is kept outside the process. If it ends, the new nodes are ordinary nodes: the next plan uses their room, or
scale-down removes them. Removals that have begun go on, as the nodes' taints say.
"""

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Literal

from slackwater.cluster.nodegroups.status import NodeGroupStatus
from slackwater.controllers.consolidation.outcome import ConsolidationMove, is_new
from slackwater.controllers.scaledown.disruption_budgets import GroupDisruptions
from slackwater.controllers.scaledown.state import NOTHING_REPLACED, Replacing
from slackwater.model.disruption_budgets import DisruptionReason
from slackwater.model.ids import Instant, NodeName, UnixTime
from slackwater.model.nodegroups import GroupName

#: done: the replaced nodes are gone. nodes-did-not-come: new nodes failed, or were not ready in time. nodes-stayed: some of the
#: nodes to go could not be emptied in time. cancelled: consolidation or scale-down was switched off or paused, or the cluster
#: is unhealthy.
Outcome = Literal["done", "nodes-did-not-come", "nodes-stayed", "cancelled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveEnd:
    """How a move ended. `detail`: names and reasons, for people."""

    outcome: Outcome
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What advances moves. `nodes`: all nodes of the cluster. `stuck`: nodes that could not be emptied, since when and why.
    `instant` and `now`: the time, on the clock of the groups and on that of scale-down. The new nodes of a move have to start
    within `longest_growth` seconds, and the nodes that they replace have to go within `longest_removal` seconds from then."""

    group_status: Mapping[GroupName, NodeGroupStatus]
    nodes: Container[NodeName]
    stuck: Mapping[NodeName, tuple[UnixTime, str]]
    instant: Instant
    now: UnixTime
    longest_growth: float
    longest_removal: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningMove:
    """A move that has begun. `requested`: how many of its new nodes were requested, by the provider's group. `ready_at`: when
    all of them had started. `end`: how it ended; None while it runs."""

    move: ConsolidationMove
    began: UnixTime
    requested: Mapping[GroupName, int] = field(default_factory=dict)
    ready_at: UnixTime | None = None
    end: MoveEnd | None = None

    @property
    def new_nodes(self) -> Counter[GroupName]:
        """How many new nodes the move needs, by the provider's group."""
        return Counter(each.owner for each in self.move.coming)

    def missing(self) -> Counter[GroupName]:
        """How many of them are still to be requested."""
        return self.new_nodes - Counter(self.requested) if self.end is None and self.ready_at is None else Counter()

    def advanced(self, seen: Seen, came: Container[NodeName]) -> "RunningMove":
        """The move after what has come, gone or failed. `came`: the plan's names of the new nodes that have started."""
        if self.end is not None:
            return self
        ready = self.ready_at
        if ready is None and all(each.name in came for each in self.move.coming):
            ready = seen.now
        moved = replace(self, ready_at=ready)
        return replace(moved, end=moved._end_of_growth(seen, came) if ready is None else moved._end_of_removal(seen))

    def _end_of_growth(self, seen: Seen, came: Container[NodeName]) -> MoveEnd | None:
        """Why the new nodes will not come; None if they may."""
        for owner in dict.fromkeys(each.owner for each in self.move.coming if each.name not in came):
            status = seen.group_status.get(owner)
            if status is None or status.off or (status.backoff is not None and status.backoff.holds(seen.instant)):
                why = "the group is gone" if status is None else status.closed(seen.instant)
                return MoveEnd(outcome="nodes-did-not-come", detail=f"{owner}: {why}")
        if seen.now - self.began > seen.longest_growth:
            return MoveEnd(outcome="nodes-did-not-come", detail=f"not ready within {seen.longest_growth:.0f} s")
        return None

    def _end_of_removal(self, seen: Seen) -> MoveEnd | None:
        """How the removals ended; None while they go on."""
        assert self.ready_at is not None
        left = [each.name for each in self.move.leaving if each.name in seen.nodes]
        if not left:
            return MoveEnd(outcome="done")
        stuck = {node: why for node, (at, why) in seen.stuck.items() if at > self.ready_at}
        if all(node in stuck for node in left):
            return MoveEnd(outcome="nodes-stayed", detail=f"{left[0]}: {stuck[left[0]]}")
        if seen.now - self.ready_at > seen.longest_removal:
            return MoveEnd(outcome="nodes-stayed", detail=f"{left[0]}: not gone within {seen.longest_removal:.0f} s")
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Moves of one plan that run together. `before`: the nodes that each group had when they began; every later one is new.
    `came`: the new nodes that have started, by their names in the plan."""

    moves: tuple[RunningMove, ...] = ()
    before: Mapping[GroupName, frozenset[NodeName]] = field(default_factory=dict)
    came: Mapping[NodeName, NodeName] = field(default_factory=dict)

    @property
    def running(self) -> tuple[RunningMove, ...]:
        return tuple(move for move in self.moves if move.end is None)

    def missing(self) -> Counter[GroupName]:
        """How many new nodes are still to be requested, by group."""
        return sum((move.missing() for move in self.moves), Counter[GroupName]())

    def _with_arrivals(self, group_status: Mapping[GroupName, NodeGroupStatus]) -> dict[NodeName, NodeName]:
        """`came`, with the new nodes that have started since. Nodes of a group are alike, so any of them may take any name."""
        taken = set(self.came.values())
        new = {
            group: [name for name in sorted(group_status[group].ready, reverse=True) if name not in names | taken]
            for group, names in self.before.items()
            if group in group_status
        }
        found = dict(self.came)
        for each in (each for move in self.moves for each in move.move.coming):
            if each.name not in found and (names := new.get(each.owner)):
                found[each.name] = names.pop()
        return found

    def advanced(self, seen: Seen) -> "Batch":
        """The batch after what has come, gone or failed."""
        came = self._with_arrivals(seen.group_status)
        return replace(self, moves=tuple(move.advanced(seen, came) for move in self.moves), came=came)

    def requested(self, nodes: Mapping[GroupName, int]) -> "Batch":
        """The batch after so many nodes of the groups were requested."""
        left, moves = Counter(nodes), list[RunningMove]()
        for move in self.moves:
            taken = move.missing() & left
            left -= taken
            moves.append(replace(move, requested=Counter(move.requested) + taken))
        return replace(self, moves=tuple(moves))

    def cancelled(self, why: str) -> "Batch":
        end = MoveEnd(outcome="cancelled", detail=why)
        return replace(self, moves=tuple(replace(move, end=move.end or end) for move in self.moves))

    def replacing(self) -> Replacing:
        """What scale-down has to know: the nodes whose replacements are ready, with the destinations of their pods, and the
        new nodes of the moves that run."""
        if not self.running:
            return NOTHING_REPLACED
        came = self.came
        ready = [move.move for move in self.running if move.ready_at is not None]
        replaced = {
            leaving.name: {each.uid: came.get(each.to, each.to) for each in move.pods if each.of == leaving.name}
            for move in ready
            for leaving in move.leaving
        }
        new = (came.get(each.name) for move in self.running for each in move.move.coming)
        reasons = {each.name: move.reason for move in ready for each in move.leaving}
        replacements = frozenset(name for name in new if name is not None)
        return Replacing(replaced=replaced, reasons=reasons, replacements=replacements)


def begun(
    moves: Iterable[ConsolidationMove],
    group_status: Mapping[GroupName, NodeGroupStatus],
    now: UnixTime,
    disruptions: Mapping[GroupName, GroupDisruptions],
    *,
    young: Container[NodeName],
    there: Set[NodeName],
    most: int,
) -> Batch:
    """The first moves of a plan, begun now: the nodes that go are together at most `most`, unless the first move has more.
    Moves of `young` nodes, moves with present nodes that are not `there` any more, and moves that a disruption budget does not
    allow, are left out, and so are those that need their new nodes."""
    first, left_out, leaving = list[ConsolidationMove](), set[int](), 0
    for at, move in enumerate(moves):
        if first and leaving + len(move.leaving) > most:
            break
        waits = not left_out.isdisjoint(move.after) or any(each.name in young for each in move.leaving)
        if waits or not _names(move) <= there or not _allowed(move, disruptions):
            left_out.add(at)
            continue
        leaving += len(move.leaving)
        first.append(move)
    return Batch(moves=tuple(RunningMove(move=move, began=now) for move in first), before=_nodes_of(first, group_status))


def _names(move: ConsolidationMove) -> set[NodeName]:
    """The present nodes that the move needs: those that go, and destinations."""
    present = {each.to for each in move.pods if not is_new(each.to)}
    return present.union(each.name for each in move.leaving)


def _allowed(move: ConsolidationMove, disruptions: Mapping[GroupName, GroupDisruptions]) -> bool:
    """Do the disruption budgets of all groups allow that the move's nodes go now? If so, they are counted."""
    going: dict[GroupName, dict[NodeName, DisruptionReason]] = {}
    for each in move.leaving:
        if each.group in disruptions:
            going.setdefault(each.group, {})[each.name] = move.reason
    if any(disruptions[group].refusal(nodes) is not None for group, nodes in going.items()):
        return False
    for group, nodes in going.items():
        for node in nodes:
            disruptions[group].begin(node)
    return True


def _nodes_of(
    moves: Sequence[ConsolidationMove], group_status: Mapping[GroupName, NodeGroupStatus]
) -> dict[GroupName, frozenset[NodeName]]:
    owners = {each.owner for move in moves for each in move.coming} & group_status.keys()
    each = {owner: group_status[owner] for owner in sorted(owners)}
    return {owner: frozenset((*of.ready, *of.unready, *of.starting)) for owner, of in each.items()}
