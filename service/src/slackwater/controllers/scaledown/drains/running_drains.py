"""All removals under way: begins them in batches, advances and cancels them, and reports the end of each.

- `Drains`: the removals under way.
- `drains_to_give_up`: the removals to give up because pods need the room.

In: the ends of API calls (`apply`), time (`step`), and the autoscaler's commands. Out: effects, that is, API calls and reports
to the autoscaler (`DrainEnd`, `PodEvicted`). Invariant: if a taint fails, the removals of the whole batch are given up.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal

import numpy as np
from msgspec import structs

from slackwater.cluster.cluster_state import ClusterState
from slackwater.controllers.scaledown.drains.drain import Drain
from slackwater.controllers.scaledown.drains.pod_evictions import LeavingPods, Migrations, NodeView, keep_room, node_view
from slackwater.controllers.scaledown.planning_input import PlanningInput
from slackwater.controllers.scaledown.policy import DrainLimits
from slackwater.fit.binpacking import NOWHERE, place_pods
from slackwater.fit.drainability import DrainPolicy, RuleFacts
from slackwater.fit.remaining_pdb_tracker import Disruptions
from slackwater.model.columns import Rows
from slackwater.model.effects import DrainOrder, Effect
from slackwater.model.events import DrainEvent
from slackwater.model.ids import Instant, NodeName, UnixTime
from slackwater.model.objects import Node, Pod
from slackwater.model.reasons import UnremovableReason
from slackwater_protocol.names import TO_BE_DELETED_TAINT

#: The time between two steps of the removals, unless an event arrives.
_STEP_SECONDS: Final = 0.5

#: cancelled: the removal is being rolled back. too-late: the provider was asked already. none: no such removal is under way.
CancelAnswer = Literal["cancelled", "too-late", "none"]


class Drains:
    """All removals under way. `limits` are those of new removals. `rules` decide which pods block a removal."""

    def __init__(self, cluster_state: ClusterState, migrations: Migrations, *, limits: DrainLimits, rules: DrainPolicy) -> None:
        self.limits = limits
        self.rules = rules
        self._state = cluster_state
        self._destinations = cluster_state.holds.destinations
        self._migrations = migrations
        self._drains: dict[NodeName, Drain] = {}
        self._batches = 0
        self._next_step: Instant | None = None

    # --- commands ---------------------------------------------------------------------------------------------------------

    def begin(self, orders: Iterable[DrainOrder], now: Instant) -> list[Effect]:
        """Begins a batch. No pod of it is evicted before all its nodes are tainted. Nodes under removal are skipped, unless
        their machine stops."""
        self._batches += 1
        effects: list[Effect] = []
        for order in orders:
            if (known := self._drains.get(order.node)) is not None:
                effects += [] if order.stops_at is None else known.hasten(order, now)
                self._next_step = None
            else:
                drain = self._add(order, now)
                effects += drain.mark()
                # Room is kept where the plan placed the pods, as far as there still is room.
                destinations = dict(order.destinations)
                for pod in self._view(drain, now).movers if destinations else ():
                    if pod.key in destinations and not drain.pods.migrates(pod):
                        keep_room(self._state, pod, order.node, destinations[pod.key])
        return effects

    def _view(self, drain: Drain, now: Instant) -> NodeView:
        facts = RuleFacts(now=drain.unix(now), policy=self.rules)
        return node_view(self._state, drain.order.node, facts, stops=drain.order.stops_at is not None)

    def resume(self, orders: Iterable[DrainOrder], now: Instant, unix_now: UnixTime) -> None:
        """Continues removals that an earlier process began, as taints show. Their deadlines count from the times in the
        taints."""
        for order in orders:
            if order.node not in self._drains:
                self._batches += 1
                self._add(order, Instant(now - max(unix_now - order.stamp, 0.0))).resume(now)

    def _add(self, order: DrainOrder, began: Instant) -> Drain:
        pods = LeavingPods(order.node, self.limits, self._state, self._migrations)
        drain = self._drains[order.node] = Drain(order, pods, began, self._batches)
        return drain

    def cancel(
        self, node: NodeName, unremovable_reason: UnremovableReason, detail: str, now: Instant
    ) -> tuple[CancelAnswer, list[Effect]]:
        """Cancels a removal, because a person asks for it or the room is needed again. Returns whether it was still possible,
        and the effects to carry out."""
        drain = self._drains.get(node)
        if drain is None or drain.phase in {"unmarking", "ended"}:
            return "none", []
        if not drain.revocable:
            return "too-late", []
        return "cancelled", self._give_up(drain, unremovable_reason, detail, now)

    # --- what may be read -----------------------------------------------------------------------------------------------

    @property
    def nodes(self) -> dict[NodeName, UnixTime]:
        """The deleted set: nodes whose removal has begun, and when, including those that are being rolled back."""
        return {node: drain.order.stamp for node, drain in self._drains.items()}

    @property
    def active(self) -> Sequence[Drain]:
        """The removals under way, in the order in which they began."""
        return tuple(self._drains.values())

    def under_way(self) -> tuple[int, int]:
        """The number of removals under way, and how many of these are of nodes that may still have leaving pods."""
        drains = sum(not drain.order.empty and drain.phase not in {"removing", "leaving"} for drain in self._drains.values())
        return len(self._drains), drains

    # --- events and time --------------------------------------------------------------------------------------------------

    def apply(self, event: DrainEvent, now: Instant) -> list[Effect]:
        """Handles the end of an API call or of a provider's deletion. Returns the next effects."""
        name = getattr(event, "name", None) or getattr(event, "node", None)
        drain = self._drains.get(NodeName(str(name)))
        if drain is None or getattr(event, "taint_key", TO_BE_DELETED_TAINT) != TO_BE_DELETED_TAINT:
            return []
        before = drain.phase
        effects = drain.apply(event, now)
        if before != "unmarking" and drain.phase == "unmarking":
            self._stays(drain)
        if before == "marking" and drain.phase == "unmarking":
            effects += self._batch_failed(drain, now)
        self._next_step = None
        return effects + self._ended()

    def step(self, now: Instant) -> list[Effect]:
        """Advances every removal, and returns the effects. Does nothing within `_STEP_SECONDS` of the last time, unless an
        event has arrived."""
        if not self._drains or (self._next_step is not None and now < self._next_step):
            return []
        self._next_step = Instant(now + _STEP_SECONDS)
        disruptions = Disruptions(self._state.budgets)
        marked = {batch: self._marked_at(batch) for batch in {drain.batch for drain in self._drains.values()}}
        effects: list[Effect] = []
        for drain in list(self._drains.values()):
            before = drain.phase
            effects += drain.step(self._view(drain, now), disruptions, now, batch_marked_at=marked[drain.batch])
            if drain.phase == "unmarking" and before != "unmarking":
                self._stays(drain)
        return effects + self._ended()

    def _marked_at(self, batch: int) -> Instant | None:
        """When the last node of the batch was tainted; None while one is not tainted."""
        of_batch = [drain for drain in self._drains.values() if drain.batch == batch]
        if any(drain.phase == "marking" for drain in of_batch):
            return None
        return Instant(max((drain.marked_at for drain in of_batch if drain.marked_at is not None), default=0.0))

    def _batch_failed(self, failed: Drain, now: Instant) -> list[Effect]:
        """Gives up the other removals of the batch after a taint failed. No pod was evicted yet, because that waits for all
        taints of the batch."""
        detail = f"with {failed.order.node}: {failed.detail}"
        effects: list[Effect] = []
        for drain in self._drains.values():
            if drain.batch == failed.batch and drain is not failed and drain.phase in {"marking", "marked"}:
                effects += self._give_up(drain, UnremovableReason.TAINT_FAILED, detail, now)
        return effects

    def _give_up(self, drain: Drain, unremovable_reason: UnremovableReason, detail: str, now: Instant) -> list[Effect]:
        self._stays(drain)
        return drain.give_up(unremovable_reason, detail, now)

    def _stays(self, drain: Drain) -> None:
        """Withdraws what was requested and kept for the pods of a node that stays."""
        self._migrations.forget(drain.pods.evictions)
        self._destinations.end(drain.order.node)

    def _ended(self) -> list[Effect]:
        """Removes the drains that have ended, and returns their reports."""
        ended = [(node, drain.end) for node, drain in self._drains.items() if drain.end is not None]
        for node, _ in ended:
            self._destinations.end(node)
            del self._drains[node]
        return [end for _, end in ended]


#: The taint that the node lifecycle controller adds to a cordoned node, and removes again.
_CORDON: Final = "node.kubernetes.io/unschedulable"


def drains_to_give_up(
    planning_input: PlanningInput, leaving: Mapping[NodeName, UnixTime], homeless: Sequence[Pod]
) -> tuple[NodeName, ...]:
    """Finds the nodes whose removal is to be given up for pods that fit nowhere else (`homeless`), the latest removal first.

        given_up = drains_to_give_up(planning_input, leaving, homeless)

    `leaving`: nodes whose removal can still be given up, and when it began. In a trial, each is opened again and pods are
    placed there. The latest removals come first, since the least work is lost with them. The snapshot is left as it was. This
    is done before new nodes are planned, because an existing node is ready sooner.
    """
    if not homeless or not leaving:
        return ()
    snapshot, found = planning_input.snapshot, list[NodeName]()
    pods = sorted(homeless, key=lambda pod: (-pod.priority, pod.key))
    kinds: Rows = np.array([snapshot.kind_id(pod.kind, pod.labels) for pod in pods], np.intp)
    with snapshot.fork():
        for name in sorted(leaving, key=lambda name: (-leaving[name], name)):
            row = snapshot.facts.row_of.get(name)
            if row is None or not snapshot.facts.live[row] or not len(kinds):
                continue
            with snapshot.fork() as trial:
                snapshot.put_node(row, without_removal_marks(snapshot.facts.nodes[row]))
                placed = place_pods(snapshot, kinds, rows=np.array([row], np.intp)).rows
                if (placed != NOWHERE).any():
                    trial.commit()
                    found.append(name)
                    kinds = kinds[placed == NOWHERE]
    return tuple(found)


def without_removal_marks(node: Node) -> Node:
    """The node as it will be when its removal has been given up: without our taint, and without the cordon if we set it."""
    ours = {TO_BE_DELETED_TAINT, _CORDON} if node.cordoned_by_us else {TO_BE_DELETED_TAINT}
    taints = tuple(taint for taint in node.taints if taint.key not in ours)
    return structs.replace(node, taints=taints, unschedulable=node.unschedulable and not node.cordoned_by_us)
