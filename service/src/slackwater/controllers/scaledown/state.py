"""The state of scale-down from one loop to the next. The names are those of Cluster Autoscaler's parallel-drain proposal.

    state = restored(nodes, now=now)            # after a start: what the taints show
    plan = plan_scale_down(state, planning_input, policy, now=now)
    state = plan.state
    state = state.begun(["n1"], now)            # candidate set -> deleted set
    state = state.evicted(pod, at)
    state = state.ended("n1")

- `ScaleDownState`: the state; frozen, so each step returns a new value.
- `soft_taints`: the taints of candidates to write and to remove.
- `missing`: the evicted pods that still need room, because their controllers may not have created new pods yet.
- `ScaleDownPlan`: the result of a plan.

Times are Unix times of a clock that never jumps, since taints keep them over restarts.

An evicted pod without a controller needs room for as long as its eviction is remembered. If it is known how many replicas a
controller wants, the number of its present pods is subtracted; the present pods are counted here, since the controller's own
count may be older than the eviction. If it is not known, each pod that the controller has created since replaces an evicted
one. Pending pods count as present: they have room in the snapshot, or are demand already.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Final

from slackwater.controllers.scaledown.planning_input import PlanningInput
from slackwater.controllers.scaledown.removal_score import RemovalScore
from slackwater.model.auxiliary import ControllerKey, Targets, controller_key
from slackwater.model.disruption_budgets import DisruptionReason
from slackwater.model.effects import Effect, MarkNode, UnmarkNode
from slackwater.model.ids import NodeName, PodKey, PodUid, Row, UnixTime
from slackwater.model.nodegroups import GroupName
from slackwater.model.objects import Node, Pod, Taint, created_at_of
from slackwater.model.placeholders import is_placeholder
from slackwater.model.reasons import UnremovableReason
from slackwater_protocol.names import DELETION_CANDIDATE_TAINT, TO_BE_DELETED_TAINT

#: The value of a soft taint on a node that is to be replaced and is no candidate of scale-down.
_SHUNNED: Final = "to-be-replaced"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptNode:
    """Why a node stays. `detail`: numbers and names, as a text for people. `blocked_by`: the pod that prevents the removal;
    None if it is no pod."""

    node: NodeName
    unremovable_reason: UnremovableReason
    detail: str = ""
    blocked_by: PodKey | None = None


@dataclass(frozen=True, slots=True)
class FailedRemoval:
    """The last failed attempt to empty a node: its time and its reason."""

    at: UnixTime
    kept: KeptNode


@dataclass(frozen=True, slots=True)
class DrainFailure:
    """Failed drains of one node in a row: when the last one failed, why, and how many failed."""

    at: UnixTime
    why: str
    count: int = 1


@dataclass(frozen=True, slots=True)
class Eviction:
    """An eviction that the API server has accepted: the pod as it was before, and the time."""

    pod: Pod
    at: UnixTime


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacing:
    """What consolidation asks of scale-down. `replaced`: nodes whose replacements are ready, with the destinations planned for
    their pods. Thresholds and times do not apply to them, since they need not be unneeded. `reasons`: why each of them is.
    `replacements`: nodes that came for them; they stay. `shunned`: nodes that are to be replaced one day; schedulers are asked
    to prefer others."""

    replaced: Mapping[NodeName, Mapping[PodUid, NodeName]] = field(default_factory=dict)
    reasons: Mapping[NodeName, DisruptionReason] = field(default_factory=dict)
    replacements: frozenset[NodeName] = frozenset()
    shunned: frozenset[NodeName] = frozenset()


NOTHING_REPLACED: Final = Replacing()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleDownState:
    """What scale-down remembers. `candidate_set`: the nodes that can all be removed together, and since when each has been one.

    `unreached`: former candidates that the last plan did not try for lack of time. They keep their time as candidates, but no
    removal of them begins. `deleted_set`: nodes whose removal has begun, and when. `non_candidate_set`: nodes that could not be
    emptied. `pod_destination_hints`: for each node of the candidate set and the deleted set, the destination of each of its
    pods. `recent_evictions`: the oldest first. `failed_drains`: nodes that back off because their drain failed. `replacing`:
    what consolidation does meanwhile.
    """

    candidate_set: Mapping[NodeName, UnixTime] = field(default_factory=dict)
    unreached: Mapping[NodeName, UnixTime] = field(default_factory=dict)
    deleted_set: Mapping[NodeName, UnixTime] = field(default_factory=dict)
    non_candidate_set: Mapping[NodeName, FailedRemoval] = field(default_factory=dict)
    pod_destination_hints: Mapping[NodeName, Mapping[PodUid, NodeName]] = field(default_factory=dict)
    recent_evictions: tuple[Eviction, ...] = ()
    failed_drains: Mapping[NodeName, DrainFailure] = field(default_factory=dict)
    replacing: Replacing = NOTHING_REPLACED

    def since(self, node: NodeName) -> UnixTime | None:
        """Since when the node has been a candidate; None if it is none."""
        return self.candidate_set.get(node, self.unreached.get(node))

    def begun(self, nodes: Iterable[NodeName], now: UnixTime) -> "ScaleDownState":
        """Moves nodes whose removal has begun from the candidate set to the deleted set. Returns the new state."""
        leaving = frozenset(nodes)
        return replace(
            self,
            candidate_set=_without(self.candidate_set, leaving),
            unreached=_without(self.unreached, leaving),
            deleted_set={**self.deleted_set, **dict.fromkeys(sorted(leaving), now)},
        )

    def ended(self, node: NodeName) -> "ScaleDownState":
        """Forgets a removal that has ended. A node that still exists has to become a candidate again like any other."""
        gone = frozenset((node,))
        return replace(
            self,
            deleted_set=_without(self.deleted_set, gone),
            pod_destination_hints={of: hints for of, hints in self.pod_destination_hints.items() if of != node},
        )

    def drain_failed(self, node: NodeName, why: str, now: UnixTime) -> "ScaleDownState":
        """Counts a failed drain of the node, which may have disturbed pods in vain."""
        before = self.failed_drains.get(node)
        failure = DrainFailure(now, why, 1 if before is None else before.count + 1)
        return replace(self, failed_drains={**self.failed_drains, node: failure})

    def evicted(self, pod: Pod, at: UnixTime) -> "ScaleDownState":
        """Remembers a pod whose eviction the API server has accepted."""
        return replace(self, recent_evictions=(*self.recent_evictions, Eviction(pod, at)))


def restored(nodes: Iterable[Node], *, now: UnixTime, longest_seconds: float) -> ScaleDownState:
    """The state after a start, by the nodes' taints: the candidates with their times, and the removals that have begun.

    Candidates are `unreached` until a plan has tried them. A candidate's taint is ignored if its value is no time, is in the
    future, or is more than `longest_seconds` ago: then the clock was set meanwhile, or scale-down did not run for long. A
    node's time as a candidate begins at its creation at the earliest.
    """
    candidates: dict[NodeName, UnixTime] = {}
    leaving: dict[NodeName, UnixTime] = {}
    for node in nodes:
        begun, since = taint_time(node, TO_BE_DELETED_TAINT), taint_time(node, DELETION_CANDIDATE_TAINT)
        if begun is not None:
            leaving[node.name] = min(begun, now)
        elif since is not None and now - longest_seconds <= since <= now:
            candidates[node.name] = since if node.created_at is None else UnixTime(max(since, min(node.created_at, now)))
    return ScaleDownState(unreached=candidates, deleted_set=leaving)


def taint_time(node: Node, key: str) -> UnixTime | None:
    """The time in the value of the node's taint; None if it has no such taint, or the value is no time."""
    value = next((taint.value for taint in node.taints if taint.key == key), "")
    return UnixTime(float(value)) if value.isascii() and value.isdecimal() else None


def _without(times: Mapping[NodeName, UnixTime], gone: frozenset[NodeName]) -> dict[NodeName, UnixTime]:
    return {node: at for node, at in times.items() if node not in gone}


def soft_taints(nodes: Iterable[Node], state: ScaleDownState, *, most: int) -> list[Effect]:
    """The effects that remove and write soft taints, in the order of the nodes; at most `most` in all.

    A candidate's taint makes kube-scheduler prefer other nodes, and its value, the time since when the node has been a
    candidate in whole seconds, keeps this time over a restart. Removals of taints come first, so that no node is avoided for
    longer than necessary. A taint with another time than the state's is rewritten. A node under removal has another taint and
    is left alone. A node that is shunned and no candidate has the taint with a value that is no time.
    """
    clear: list[Effect] = []
    mark: list[Effect] = []
    for node in nodes:
        has = {taint.key: taint.value for taint in node.taints}
        since = state.since(node.name)
        if TO_BE_DELETED_TAINT in has or node.name in state.deleted_set:
            continue
        value = str(int(since)) if since is not None else _SHUNNED if node.name in state.replacing.shunned else None
        if value is None and DELETION_CANDIDATE_TAINT in has:
            clear.append(UnmarkNode(uid=node.uid, name=node.name, taint_key=DELETION_CANDIDATE_TAINT))
        elif value is not None and has.get(DELETION_CANDIDATE_TAINT) != value:
            taint = Taint(DELETION_CANDIDATE_TAINT, value, "PreferNoSchedule")
            mark.append(MarkNode(uid=node.uid, name=node.name, taint=taint))
    return [*clear, *mark][:most]


#: Times in API objects are whole seconds.
_RESOLUTION_SECONDS = 1.0


def missing(evictions: Sequence[Eviction], planning_input: PlanningInput) -> list[Pod]:
    """The evicted pods that still need room, in the order of their eviction.

    A pod that the watch still shows on a node is not among them: it has room there.
    """
    if not evictions:
        return []
    alive = [pod for pod in _related(evictions, planning_input) if not pod.deleting]
    here = {pod.uid for pod in alive}
    gone = [eviction for eviction in evictions if eviction.pod.uid not in here]
    left = _missing_of(gone, alive, planning_input.replicas or {})
    found = []
    for eviction in gone:
        controller = controller_key(eviction.pod)
        if controller is not None:
            left[controller] -= 1
            if left[controller] < 0:
                continue
        found.append(eviction.pod)
    return found


def _related(evictions: Sequence[Eviction], planning_input: PlanningInput) -> Iterator[Pod]:
    """Yields the evicted pods that still exist, and all pods of controllers with the name of an evicted pod's controller.

    Comparing only names is fast: there may be 150,000 pods, few of them of these controllers.
    """
    uids = {eviction.pod.uid for eviction in evictions}
    names = {eviction.pod.eviction_facts.owner.name for eviction in evictions if eviction.pod.eviction_facts.owner is not None}
    rows = map(Row, range(planning_input.snapshot.n_rows))
    running = (running_pod.pod for row in rows for running_pod in planning_input.running_pods.on(row))
    for pod in chain(running, planning_input.pending):
        owner = pod.eviction_facts.owner
        if pod.uid in uids or (owner is not None and owner.name in names):
            yield pod


def _missing_of(gone: Sequence[Eviction], alive: Sequence[Pod], targets: Targets) -> Counter[ControllerKey]:
    """The number of pods that each evicted pod's controller still has to create."""
    evicted: dict[ControllerKey, list[float]] = defaultdict(list)
    for eviction in gone:
        controller = controller_key(eviction.pod)
        if controller is not None:
            evicted[controller].append(eviction.at)
    of_these = [(controller, pod) for pod in alive if (controller := controller_key(pod)) is not None and controller in evicted]
    current = Counter(controller for controller, _ in of_these)
    made = Counter(
        controller
        for controller, pod in of_these
        if created_at_of(pod.created_at) >= min(evicted[controller]) - _RESOLUTION_SECONDS
    )
    missing = Counter[ControllerKey]()
    for controller, times in evicted.items():
        target = targets.get(controller)
        missing[controller] = len(times) - made[controller] if target is None else target - current[controller]
    return missing


@dataclass(frozen=True, slots=True, kw_only=True)
class Removable:
    """A node that can be removed (the candidate set). `since`: since when it has been a candidate. `moves`: its pods and their
    destinations, in the order in which they were placed.

    `awaited`: pods that have to complete before the node is removed. `risky`: a budget now allows fewer disruptions than it has
    pods on the node, so the drain will have to wait. `ripe_after_seconds`: how long the node must have been a candidate before
    its removal begins; None: it need not have been one, because other nodes replace it. `replaced_for`: why they do, else None.
    """

    node: NodeName
    group: GroupName
    since: UnixTime
    ready: bool
    moves: tuple[tuple[Pod, NodeName], ...]
    awaited: tuple[PodKey, ...]
    risky: bool
    ripe_after_seconds: float | None
    replaced_for: DisruptionReason | None = None
    removal_score: RemovalScore

    @property
    def empty(self) -> bool:
        """Is the node without pods that have to leave or to complete? Placeholders do not count, since they exist only in
        plans."""
        return not self.awaited and all(is_placeholder(pod) for pod, _ in self.moves)

    @property
    def reason(self) -> DisruptionReason:
        """Why it goes, by the words of disruption budgets."""
        if self.replaced_for not in (None, "Underutilized"):
            return self.replaced_for
        return "Empty" if self.empty else "Underutilized"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleDownPlan:
    """The result of planning a scale-down: which nodes can be removed, and why the others stay.

    `removable`: in the order in which nodes were tried. `kept`: in the order of the node list. `homeless`: set if a pod that is
    leaving its node or has been evicted fits nowhere; then no node is removable. `evaluated`: the number of nodes that were
    tried. `cut`: time was over before all eligible nodes were tried.
    """

    state: ScaleDownState
    removable: tuple[Removable, ...] = ()
    kept: tuple[KeptNode, ...] = ()
    homeless: KeptNode | None = None
    evaluated: int = 0
    cut: bool = False

    @property
    def unneeded(self) -> Mapping[GroupName, int]:
        """The number of removable nodes of each group."""
        return Counter(found.group for found in self.removable)

    @property
    def reasons(self) -> Mapping[UnremovableReason, int]:
        """The number of nodes that stay, for each reason."""
        return Counter(kept.unremovable_reason for kept in self.kept)
