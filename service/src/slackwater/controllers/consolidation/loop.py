"""Consolidation's part of the autoscaler's loop: begins the moves that were planned, requests their new nodes, and ends them.

    replacing = loop.sense(group_status, state)  # advances the moves; scale-down removes what is replaced
    inquiry = loop.inquiry(state)                # what is to be planned; None if nothing is
    infos = loop.wanted()                        # the nodes to request
    loop.requested(calls)                        # those that were requested
    loop.act(plan, group_status, ...)            # begins moves

Removals are scale-down's, so its budgets, limits, rollbacks and held destinations apply. Deliberately absent: anything that
waits.
"""

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field, replace
from math import ceil

from slackwater.cluster.nodegroups.status import Grow, NodeGroupStatus, ScaleUpInfo
from slackwater.controllers.consolidation.agreement import Agreement
from slackwater.controllers.consolidation.outcome import ConsolidationMove, ConsolidationPlan
from slackwater.controllers.consolidation.policy import ConsolidationPolicy
from slackwater.controllers.consolidation.running_moves import Batch, RunningMove, Seen, begun
from slackwater.controllers.scaledown.disruption_budgets import GroupDisruptions
from slackwater.controllers.scaledown.state import NOTHING_REPLACED, KeptNode, Replacing, ScaleDownState
from slackwater.model.authority import Withholds, withhold_nothing
from slackwater.model.auxiliary import ControllerKey
from slackwater.model.ids import Instant, NodeName, PodKey, UnixTime
from slackwater.model.nodegroups import GroupName
from slackwater.model.objects import Pod
from slackwater.model.reasons import UnremovableReason


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsolidationInquiry:
    """The input of a consolidation plan, beside that of scale-down. `moved`: controllers a pod of which was moved a short while
    ago, and since when; their younger pods rest. `moved_before`: pods that earlier processes moved, by their names, and when.
    `busy`: nodes with a hold, a migration or a preemption."""

    policy: ConsolidationPolicy
    moved: Mapping[ControllerKey, UnixTime] = field(default_factory=dict)
    moved_before: Mapping[PodKey, UnixTime] = field(default_factory=dict)
    busy: frozenset[NodeName] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsolidationRecord:
    """What consolidation did in one loop. `running`: the moves under way. `began`: how many moves began. `ended`: those that
    ended since the last record. `withheld`: moves that would have begun. `plan`: the plan, if one was made."""

    running: tuple[RunningMove, ...] = ()
    began: int = 0
    ended: tuple[RunningMove, ...] = ()
    withheld: tuple[ConsolidationMove, ...] = ()
    plan: ConsolidationPlan | None = None


def why_kept(kept: KeptNode, seconds: float | None = None) -> tuple[UnremovableReason, str]:
    """Why a plan keeps a node, as a reason with a text. `seconds`: how long ago that was planned."""
    by = "" if kept.blocked_by is None else f"pod {kept.blocked_by}"
    when = "" if seconds is None else f"planned {seconds:.0f} s ago"
    return kept.unremovable_reason, ": ".join(("consolidation", "; ".join(filter(None, (by, kept.detail, when)))))


class ConsolidationLoop:
    """Consolidation in the autoscaler's loop; one object for the life of the process. `policy` returns the present settings.
    `nodes` returns the names of all nodes, `busy` of those that must not be replaced now. `longest_growth`: within how many
    seconds new nodes have to start; `longest_removal`: within how many the replaced nodes have to go. `most_leaving`: how many
    nodes may be replaced at the same time, except that one move may have more. `moved_before`: the pods that earlier processes
    evicted, and when; empty as long as that is not known."""

    def __init__(
        self,
        *,
        policy: Callable[[], ConsolidationPolicy],
        nodes: Callable[[], Set[NodeName]],
        busy: Callable[[], frozenset[NodeName]],
        clock: Callable[[], Instant],
        steady: Callable[[], UnixTime],
        longest_growth: float,
        longest_removal: float,
        most_leaving: int,
        withholds: Withholds = withhold_nothing,
        moved_before: Callable[[], Mapping[PodKey, UnixTime]] = dict,
    ) -> None:
        self._withholds = withholds
        self._policy = policy
        self._nodes = nodes
        self._busy = busy
        self._clock = clock
        self._steady = steady
        self._longest_growth, self._longest_removal = longest_growth, longest_removal
        self._most_leaving = most_leaving
        self._batch = Batch()
        self._ended: tuple[RunningMove, ...] = ()
        self._moved: dict[ControllerKey, UnixTime] = {}
        self._read_before, self._moved_before = moved_before, dict[PodKey, UnixTime]()
        self._planned_at: Instant | None = None
        self._agreement = Agreement()
        #: The nodes that the last plan found due, and why it keeps each node that does not go.
        self._due: frozenset[NodeName] = frozenset()
        self._kept: Mapping[NodeName, KeptNode] = {}
        #: When each node that it has go may go, if later plans are like it.
        self._ripe_at: Mapping[NodeName, Instant] = {}

    # --- sense ------------------------------------------------------------------------------------------------------------

    def sense(self, group_status: Mapping[GroupName, NodeGroupStatus], state: ScaleDownState | None) -> Replacing:
        """Advances the moves by what has come and gone since the last loop, and ends those that are over. `state`: that of
        scale-down; None if it is off. Returns what scale-down has to know."""
        if state is None or not self._policy().enabled:
            self._cancel("consolidation or scale-down is off")
            self._due = frozenset()
            return NOTHING_REPLACED
        if not self._batch.running:
            return Replacing(shunned=self._due)
        failed = state.non_candidate_set.items()
        stuck = {node: (each.at, f"{each.kept.unremovable_reason} {each.kept.detail}".rstrip()) for node, each in failed}
        stuck |= {node: (each.at, f"its drain failed: {each.why}") for node, each in state.failed_drains.items()}
        seen = Seen(
            group_status=group_status,
            nodes=self._nodes(),
            stuck={node: each for node, each in stuck.items() if node not in state.deleted_set},
            instant=self._clock(),
            now=self._steady(),
            longest_growth=self._longest_growth,
            longest_removal=self._longest_removal,
        )
        self._take(self._batch.advanced(seen))
        return replace(self._batch.replacing(), shunned=self._due)

    def _cancel(self, why: str) -> None:
        self._take(self._batch.cancelled(why))

    def _take(self, batch: Batch) -> None:
        """Notes which moves have ended."""
        pairs = zip(self._batch.moves, batch.moves, strict=True)
        self._ended += tuple(after for before, after in pairs if before.end is None and after.end is not None)
        self._batch = batch if batch.running else Batch()

    def evicted(self, pod: Pod) -> None:
        """Notes a pod that was evicted from a node that goes: its successor rests for a while."""
        if (owner := pod.eviction_facts.owner) is not None:
            self._moved.setdefault((pod.key.namespace, owner), self._steady())

    def inquiry(self, state: ScaleDownState | None) -> ConsolidationInquiry | None:
        """What is to be planned; None while moves or removals run, before the interval is over, or if consolidation is off."""
        policy, early = self._policy(), self._clock() < self.next_plan_at()
        if not policy.enabled or self._batch.running or early or state is None or state.deleted_set:
            return None
        unix = self._steady()
        self._moved = {key: at for key, at in self._moved.items() if unix - at < policy.pod_rest}
        before = self._moved_before or self._read_before()
        self._moved_before = {key: at for key, at in before.items() if unix - at < policy.pod_rest}
        return ConsolidationInquiry(
            policy=policy, moved=dict(self._moved), moved_before=dict(self._moved_before), busy=self._busy()
        )

    def next_plan_at(self) -> Instant:
        """When the interval since the last plan is over."""
        return Instant(float("-inf") if self._planned_at is None else self._planned_at + self._policy().interval)

    def ripe_at(self) -> Instant | None:
        """When a plan may begin more, if plans stay like the last one, and one is made at each end of the interval; None if no
        node waits."""
        now, interval = self._clock(), self._policy().interval
        if self._planned_at is None or not (waiting := [at for at in self._ripe_at.values() if at > now]):
            return None
        plans = ceil((min(waiting) - self._planned_at) / interval) if interval else 1
        return Instant(max(min(waiting), self._planned_at + plans * interval))

    def words(self, node: NodeName) -> list[tuple[UnremovableReason, str]]:
        """What the last plans do with the node, or why the last one keeps it, as a reason with a text; empty if there is
        none."""
        policy = self._policy()
        of_it = [move for move in self._batch.running if any(each.name == node for each in move.move.leaving)]
        since = self._agreement.since.get(node)
        if of_it:
            text = "it is being replaced: its new nodes start" if of_it[0].ready_at is None else "it is being replaced"
        elif not policy.enabled or self._planned_at is None:
            return []
        elif since is None:
            return [] if node not in self._kept else [why_kept(self._kept[node], self._clock() - self._planned_at)]
        else:
            now, wait = self._clock(), policy.planned_time
            text = f"plans replace it since {now - since:.0f} s; that begins after {wait:.0f} s"
            text += " in which they do not come to save more" if self._agreement.is_growing(now, wait) else ""
        return [(UnremovableReason.LEFT_TO_CONSOLIDATION, text)]

    # --- requests to providers --------------------------------------------------------------------------------------------

    def wanted(self) -> list[ScaleUpInfo]:
        """The nodes that the moves still need."""
        return [ScaleUpInfo(group=group, nodes=count) for group, count in self._batch.missing().items()]

    def requested(self, calls: Iterable[Grow]) -> None:
        """Notes which nodes were requested."""
        self._batch = self._batch.requested({call.group: call.nodes for call in calls})

    # --- act --------------------------------------------------------------------------------------------------------------

    def act(
        self,
        plan: ConsolidationPlan | None,
        group_status: Mapping[GroupName, NodeGroupStatus],
        *,
        healthy: bool,
        disruptions: Mapping[GroupName, GroupDisruptions],
        removing: Set[NodeName] = frozenset(),
    ) -> ConsolidationRecord:
        """Begins the first moves of the plan that disruption budgets allow, as many as `most_leaving` allows, if plans have had
        their nodes go for long enough. None begins if the cluster is not `healthy`. `disruptions` of groups with budgets count
        the nodes that will go. `removing`: nodes under removal. The plan may be older than they are, so a move that needs one
        of them, or a node that is gone, does not begin."""
        if not healthy and self._batch.running:
            self._cancel("the cluster is unhealthy")
        began, withheld = 0, tuple[ConsolidationMove, ...]()
        if plan is not None:
            self._planned_at = now = self._clock()
            self._due, self._kept = frozenset(plan.due), {each.node: each for each in plan.kept}
            self._agreement.note(plan, now)
            self._ripe_at = self._agreement.ripe_at(plan, self._policy().planned_time)
            if healthy:
                batch = begun(
                    plan.moves,
                    group_status,
                    self._steady(),
                    disruptions,
                    young={node for node, at in self._ripe_at.items() if now < at},
                    there=self._nodes() - removing,
                    most=self._most_leaving,
                )
                moves = tuple(each.move for each in batch.moves)
                if self._is_withheld(moves):
                    withheld = moves
                else:
                    self._batch, began = batch, len(moves)
        ended, self._ended = self._ended, ()
        return ConsolidationRecord(running=self._batch.running, began=began, ended=ended, withheld=withheld, plan=plan)

    def _is_withheld(self, moves: Iterable[ConsolidationMove]) -> bool:
        """Is any of the moves withheld? They depend on one another, so then none begins."""
        groups = {group for move in moves for group in (*(e.group for e in move.leaving), *(e.owner for e in move.coming))}
        return any(self._withholds("consolidation", group) is not None for group in groups)
