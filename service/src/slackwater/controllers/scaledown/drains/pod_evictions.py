"""Leaving pods: evicts the pods of one node, and remembers how far each has come.

- `NodeView`, `node_view`: the node and its pods, as the cluster state has them now.
- `DrainLimits`, `PriorityGroup`: how long each step may take, and what the removal may do.
- `LeavingPods`: the pods of one node that leave.

    effects, problem = pods.step(node_view, disruptions, now)   # the evictions to send now; why the removal must be given up

Priority groups leave one after another: a group begins when the groups before it have gone. A blocked eviction delays only its
own node. A virtual machine that may migrate is not evicted; its migration is requested once.

Invariant: right before each eviction is sent, the pod fits on another node, and the room there is kept for it; except where a
machine stops anyway (`leave_now`).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol

from slackwater.cluster.cluster_state import ClusterState
from slackwater.controllers.scaledown.policy import DrainLimits
from slackwater.fit.drainability import DrainabilityOutcome, RuleFacts, judge
from slackwater.fit.remaining_pdb_tracker import Disruptions
from slackwater.model.effects import Effect, Evict, FindDestinations, PodEvicted
from slackwater.model.events import DestinationsFound, EvictionEnded
from slackwater.model.ids import Instant, NodeName, PodKey, PodUid
from slackwater.model.objects import Node, Pod
from slackwater.model.reasons import UnremovableReason


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node under removal, with its pods by drainability. `node`: None if the node is gone.

    `movers`: pods that have to leave. `daemons`: DaemonSet pods. `awaited`: pods that have to complete. `blocked`: a pod that a
    rule keeps on the node, with the reason; None if there is none.
    """

    node: Node | None
    movers: tuple[Pod, ...] = ()
    daemons: tuple[Pod, ...] = ()
    awaited: tuple[Pod, ...] = ()
    blocked: tuple[Pod, UnremovableReason] | None = None

    @property
    def empty(self) -> bool:
        return not self.movers and not self.awaited and self.blocked is None


#: What becomes of pods of a machine that stops, if they would otherwise stay.
_LEAVES_ANYWAY: Final = {
    DrainabilityOutcome.WAIT: DrainabilityOutcome.MOVE,
    DrainabilityOutcome.BLOCK: DrainabilityOutcome.MOVE,
}


def node_view(cluster_state: ClusterState, name: NodeName, facts: RuleFacts, *, stops: bool = False) -> NodeView:
    """Makes the node's view by judging each pod. Budgets do not block a pod here, since the eviction API checks them. `stops`:
    the machine stops, so pods leave that would otherwise stay."""
    movers: list[Pod] = []
    daemons: list[Pod] = []
    awaited: list[Pod] = []
    blocked: tuple[Pod, UnremovableReason] | None = None
    node = cluster_state.nodes.get(name)
    for uid in cluster_state.reservations.on_node(name) if node is not None else ():
        pod = cluster_state.pods.get(uid)
        if pod is None:
            continue
        verdict = judge(pod, facts)
        match _LEAVES_ANYWAY.get(verdict.outcome, verdict.outcome) if stops else verdict.outcome:
            case DrainabilityOutcome.MOVE:
                movers.append(pod)
            case DrainabilityOutcome.DAEMON:
                daemons.append(pod)
            case DrainabilityOutcome.WAIT:
                awaited.append(pod)
            case DrainabilityOutcome.BLOCK:
                if pod.deleting:  # it leaves already, whatever the rules say
                    movers.append(pod)
                elif verdict.unremovable_reason is not None:
                    blocked = blocked or (pod, verdict.unremovable_reason)
            case DrainabilityOutcome.SKIP:
                pass
    return NodeView(node, tuple(movers), tuple(daemons), tuple(awaited), blocked)


def keep_room(cluster_state: ClusterState, pod: Pod, of: NodeName, to: NodeName) -> bool:
    """Keeps room on the node `to` for the pod of the draining node `of`. False if there is none."""
    row = cluster_state.nodes.row_of.get(to)
    admits = row is not None and bool(cluster_state.admitting.of(pod.renewed_kind)[row])
    return admits and cluster_state.holds.destinations.keep(pod, of, to)


class Migrations(Protocol):
    """The part of `controllers.migration.drain_migrations.DrainMigrations` that removals use."""

    def ask(self, uid: PodUid, node: NodeName) -> None:
        """Requests the migration of the virtual machine of this pod, away from the node. It comes before migrations for
        pressure."""
        ...

    def forget(self, uids: Iterable[PodUid]) -> None:
        """Withdraws the requests to migrate these pods: they need not leave any more."""
        ...


#: seeking: the pod's destination is being checked. homeless: it has none, or none is known, and is checked again. asked: the
#: eviction call is under way. taken: the API server accepted it, and the pod is terminating. waiting: the call is to be sent
#: again. refused: the API server refused it for good. migrating: a migration was requested instead.
_Step = Literal["seeking", "homeless", "asked", "taken", "waiting", "refused", "migrating"]
#: The shortest time between two evictions of one pod, however often its budget changes.
_SHORTEST_PAUSE_SECONDS: Final = 1.0
#: A check of destinations that takes longer than this is taken for lost, and made again.
_CHECK_SECONDS: Final = 60.0

#: Pods that are still on a machine so long before it stops are deleted.
FORCED_SECONDS: Final = 30.0

Problem = tuple[UnremovableReason, str]


@dataclass(slots=True)
class _PodEviction:
    """How far one leaving pod has come. `first_at`: when its eviction was first tried. `asked_at`: when the last call was sent
    or answered. `homeless_at`: since when the pod has had no destination; None if it has one, or was not checked. `forced`: the
    pod is deleted instead of evicted. `detail`: the text of the last answer."""

    pod: Pod
    step: _Step
    first_at: Instant
    asked_at: Instant
    homeless_at: Instant | None = None
    forced: bool = False
    detail: str = ""


@dataclass(slots=True)
class LeavingPods:
    """The leaving pods of one node. `evictions`: the pods that were tried and are still there."""

    node: NodeName
    limits: DrainLimits
    cluster_state: ClusterState
    migrations: Migrations
    evictions: dict[PodUid, _PodEviction] = field(default_factory=dict)
    #: When each priority group began.
    begun: dict[int, Instant] = field(default_factory=dict)

    def step(self, node_view: NodeView, disruptions: Disruptions, now: Instant) -> tuple[list[Effect], Problem | None]:
        """Does what is due. Returns the question where pods fit; and the reason why the removal must be given up, if any."""
        there = {pod.uid: pod for pod in node_view.movers}
        for uid in [uid for uid in self.evictions if uid not in there]:
            del self.evictions[uid]
        waiting = [*node_view.movers, *node_view.awaited]
        if not waiting:
            return [], None
        group = min(self.limits.group_of(pod.priority) for pod in waiting)
        began = self.begun.setdefault(group, now)
        for pod in node_view.movers:
            if self.limits.group_of(pod.priority) == group:
                problem = self._step(pod, disruptions, now)
                if problem is not None:
                    return [], problem
        sought = tuple(uid for uid, each in self.evictions.items() if each.step == "seeking" and each.asked_at == now)
        if sought:
            return [FindDestinations(self.node, sought)], None
        return [], self._overdue(waiting, group, began, now)

    def leave_now(self, pods: Iterable[Pod], seconds_left: float, now: Instant) -> list[Effect]:
        """Sends the evictions of all these pods, wherever they go: their machine stops in `seconds_left`. Pods that are still
        there near the end are deleted, so that they end before their machine does."""
        effects: list[Effect] = []
        forced = seconds_left <= FORCED_SECONDS
        for pod in pods:
            known = self.evictions.get(pod.uid)
            eviction = self.evictions[pod.uid] = known or _PodEviction(pod, "waiting", now, now)
            waits = known is not None and now - eviction.asked_at < self.limits.retry_interval and eviction.forced == forced
            if pod.deleting or eviction.step in {"asked", "taken"} or (waits and eviction.step != "seeking"):
                continue
            eviction.step, eviction.asked_at, eviction.forced = "asked", now, forced
            grace = None if pod.grace_seconds <= seconds_left else max(int(seconds_left), 1)
            effects.append(Evict(uid=pod.uid, key=pod.key, node=self.node, grace_seconds=grace, force=forced))
        return effects

    def never_leaves(self, node_view: NodeView, disruptions: Disruptions) -> Problem | None:
        """Looks for a pod that the eviction API always refuses, before the first eviction is sent. Returns the reason and the
        pod's name; None if there is none, or with `force`, by which every pod can be removed."""
        if self.limits.force:
            return None
        stuck = next((pod for pod in node_view.movers if not self.migrates(pod) and disruptions.never_evicted(pod)), None)
        return None if stuck is None else (UnremovableReason.MULTIPLE_PDBS, str(stuck.key))

    def migrates(self, pod: Pod) -> bool:
        """Whether the pod's machine migrates, instead of being evicted."""
        return self.limits.migrate and pod.migratable

    def _step(self, pod: Pod, disruptions: Disruptions, now: Instant) -> Problem | None:
        eviction = self.evictions.get(pod.uid)
        if eviction is None:
            self._first(pod, now)
            return None
        if eviction.step in {"asked", "taken", "migrating"}:
            return None
        if eviction.homeless_at is not None and now - eviction.homeless_at >= self.limits.eviction_timeout:
            return UnremovableReason.NO_PLACE, f"{pod.key}: {eviction.detail}"
        if eviction.step == "refused" or (
            eviction.homeless_at is None and now - eviction.first_at >= self.limits.eviction_timeout
        ):
            return self._last(eviction, now)
        if now - eviction.asked_at >= self._pause(eviction, disruptions):
            eviction.step, eviction.asked_at = "seeking", now
        return None

    def _pause(self, eviction: _PodEviction, disruptions: Disruptions) -> float:
        if eviction.step == "seeking":
            return _CHECK_SECONDS
        allowed = eviction.step == "waiting" and eviction.detail and disruptions.allows(eviction.pod)
        return _SHORTEST_PAUSE_SECONDS if allowed else self.limits.retry_interval

    def _first(self, pod: Pod, now: Instant) -> None:
        eviction = self.evictions[pod.uid] = _PodEviction(pod, "seeking", now, now)
        if pod.deleting:
            eviction.step = "taken"
        elif self.migrates(pod):
            eviction.step = "migrating"
            self.migrations.ask(pod.uid, self.node)

    def found(self, event: DestinationsFound, now: Instant) -> list[Effect]:
        """Handles the end of a check: sends the evictions of the pods that have a destination, if there is still room."""
        effects: list[Effect] = []
        if event.problem:
            for eviction in self.evictions.values():
                if eviction.step == "seeking":
                    eviction.step, eviction.asked_at, eviction.detail = "homeless", now, event.problem
        for uid, to, why in event.found:
            known = self.evictions.get(uid)
            if known is None or known.step != "seeking":
                continue
            if to is not None and keep_room(self.cluster_state, known.pod, self.node, to):
                known.first_at = known.first_at if known.homeless_at is None else now
                known.homeless_at = None
                effects.append(self._evict(known, now))
            else:
                known.step, known.asked_at, known.detail = "homeless", now, why or f"{to} has no room any more"
                known.homeless_at = now if known.homeless_at is None else known.homeless_at
        return effects

    def _evict(self, eviction: _PodEviction, now: Instant) -> Evict:
        eviction.step, eviction.asked_at = "asked", now
        pod = eviction.pod
        seconds = self.limits.priority_groups[self.limits.group_of(pod.priority)].time
        grace = int(seconds) if pod.grace_seconds > seconds else None
        return Evict(uid=pod.uid, key=pod.key, node=self.node, grace_seconds=grace, force=eviction.forced)

    def _last(self, eviction: _PodEviction, now: Instant) -> Problem | None:
        """Handles an eviction that was refused or tried for too long. With `force` deletes the pod; else returns the reason why
        the removal must be given up."""
        if self.limits.force and not eviction.forced:
            eviction.forced, eviction.first_at = True, now
            eviction.step, eviction.asked_at = "seeking", now
            return None
        unremovable_reason = (
            UnremovableReason.EVICTION_REFUSED if eviction.step == "refused" else UnremovableReason.EVICTION_TIMEOUT
        )
        return unremovable_reason, f"{eviction.pod.key}: {eviction.detail}"

    def _overdue(self, waiting: list[Pod], group: int, began: Instant, now: Instant) -> Problem | None:
        seconds = self.limits.priority_groups[group].time + self.limits.headroom_seconds
        late = [pod for pod in waiting if self.limits.group_of(pod.priority) == group]
        if now - began < seconds + self.limits.eviction_timeout * self._blocked(late):
            return None
        named = ", ".join(str(pod.key) for pod in late[:3])
        return UnremovableReason.DRAIN_TIMEOUT, f"{named} still there {now - began:.0f} s after the group began"

    def _blocked(self, pods: list[Pod]) -> bool:
        """Is an eviction of these pods still being tried? The tries have a time limit of their own, before the pods' time to
        terminate begins."""
        return any(
            (eviction := self.evictions.get(pod.uid)) is not None and eviction.step not in {"taken", "migrating"}
            for pod in pods
        )

    def running_pods(self) -> list[tuple[PodKey, str, str]]:
        """The pods that were tried and are still there, each as (name, step, text of the last answer)."""
        return [(eviction.pod.key, eviction.step, eviction.detail) for eviction in self.evictions.values()]

    def ended(self, event: EvictionEnded, now: Instant) -> list[PodEvicted]:
        """Handles the end of an eviction call. Returns a report of the pod if it was evicted."""
        eviction = self.evictions.get(event.uid)
        if eviction is None or eviction.step != "asked":
            return []
        eviction.asked_at, eviction.detail = now, event.detail
        match event.outcome:
            case "accepted" | "gone":
                eviction.step = "taken"
                self.cluster_state.holds.destinations.left(event.uid)
                return [PodEvicted(eviction.pod)]
            case "refused":
                eviction.step = "refused"
            case "blocked" | "unreachable":
                eviction.step = "waiting"
        return []
