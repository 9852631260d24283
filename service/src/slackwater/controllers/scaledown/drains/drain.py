r"""The removal of one node: taints, empties and deletes it. If anything goes wrong, the removal is rolled back.

    marking -> marked -> evicting -> delaying -> removing -> leaving -> ended
        \__________\_________\___________\__________\___________\___-> unmarking -> ended

marking: the taint is being written. marked: the removal waits until the whole batch is tainted and schedulers have seen the
taints. evicting: pods are being evicted. delaying: the node is empty, and an annotation on it asks to wait. removing: the
provider was asked to delete the machine. leaving: the provider has accepted the deletion, and the node still exists. unmarking:
the removal was given up, and the removal of the taint is tried until the taint is gone. Time is an argument, effects are
results.
"""

from typing import Final, Literal

from msgspec import structs

from slackwater.controllers.scaledown.drains.pod_evictions import LeavingPods, NodeView, Problem
from slackwater.fit.remaining_pdb_tracker import Disruptions
from slackwater.model.effects import DrainEnd, DrainOrder, Effect, Evict, MarkNode, Phase, RemoveNode, UnmarkNode
from slackwater.model.events import DestinationsFound, DrainEvent, EvictionEnded, NodeMarked, NodeRemoved, NodeUnmarked
from slackwater.model.ids import Instant, UnixTime
from slackwater.model.objects import Taint
from slackwater.model.reasons import UnremovableReason
from slackwater_protocol.names import TO_BE_DELETED_TAINT

#: Phases in which a removal can still be given up, because the provider was not asked yet.
_REVOCABLE: Final = frozenset({"marking", "marked", "evicting", "delaying"})
#: So long before a machine stops, the provider is asked to end it, so that its group does not replace it.
_LAST_SECONDS: Final = 5.0
#: How often a provider that gave no answer is asked again.
_MOST_ATTEMPTS: Final = 3


class Drain:
    """The removal of one node, from its taint to its deletion or its rollback. `batch`: the number of the batch with which
    it began. `marked_at`: when the taint was written; None before. `end`: the report of the end; None before."""

    def __init__(self, order: DrainOrder, pods: LeavingPods, began: Instant, batch: int) -> None:
        self.order = order
        self.batch = batch
        self.phase: Phase = "marking"
        self.marked_at: Instant | None = None
        self.unremovable_reason: UnremovableReason | None = None
        self.detail = ""
        self.end: DrainEnd | None = None
        self.began = began
        self.pods = pods
        self.n_evicted = 0
        self._limits = pods.limits
        self._since = began
        self._attempts = 0
        self._asked_daemons = False

    # --- commands ---------------------------------------------------------------------------------------------------------

    def mark(self) -> list[Effect]:
        """Begins the removal. Returns the effect that writes the taint, with the time as its value, and the cordon."""
        taint = Taint(TO_BE_DELETED_TAINT, str(int(self.order.stamp)), "NoSchedule")
        return [MarkNode(uid=self.order.uid, name=self.order.node, taint=taint, cordon=self._limits.cordon)]

    def resume(self, now: Instant) -> None:
        """Continues a removal whose taint was found on the node after a start."""
        self.marked_at = now
        self._enter("marked", now)

    def unix(self, now: Instant) -> UnixTime:
        """The Unix time at `now`, computed from the taint's time."""
        return UnixTime(self.order.stamp + (now - self.began))

    def hasten(self, order: DrainOrder, now: Instant) -> list[Effect]:
        """Goes on with a machine that stops at a time which is known now. Returns the effect that writes the taint, if the
        removal was being rolled back."""
        self.order = structs.replace(self.order, empty=False, stops_at=order.stops_at)
        if self.phase != "unmarking":
            return []
        self._enter("marking", now)
        return self.mark()

    @property
    def revocable(self) -> bool:
        return self.phase in _REVOCABLE and self.order.stops_at is None

    def give_up(self, unremovable_reason: UnremovableReason, detail: str, now: Instant) -> list[Effect]:
        """Begins the rollback. Returns the effect that removes the taint and our cordon; none if the rollback has begun already
        or the removal has ended.
        """
        if self.phase in {"unmarking", "ended"}:
            return []
        self.unremovable_reason, self.detail = unremovable_reason, detail
        self._enter("unmarking", now)
        return self._unmark()

    # --- events -----------------------------------------------------------------------------------------------------------

    def apply(self, event: DrainEvent, now: Instant) -> list[Effect]:
        match event:
            case NodeMarked() if self.phase == "marking":
                if not event.done:
                    return self.give_up(UnremovableReason.TAINT_FAILED, event.detail, now)
                self.marked_at = now
                self._enter("marked", now)
            case NodeUnmarked() if self.phase == "unmarking":
                if event.done:
                    self._finish("rolled-back", now)
                else:
                    self._since = now  # tried again after `retry_interval`
            case EvictionEnded():
                evicted = self.pods.ended(event, now)
                self.n_evicted += len(evicted)
                return [*evicted]
            case DestinationsFound() if self.phase == "evicting":
                return self.pods.found(event, now)
            case NodeRemoved(outcome="deleted") if self.phase == "removing":
                self._enter("leaving", now)
            case NodeRemoved() if self.phase == "removing":
                return self._not_removed(event, now)
            case _:
                pass  # the end of a call that the removal no longer waits for
        return []

    def _not_removed(self, event: NodeRemoved, now: Instant) -> list[Effect]:
        if self.order.stops_at is not None:
            self._enter("leaving", now)  # it goes, whatever the provider says
            return []
        if event.outcome == "failed" or self._attempts >= _MOST_ATTEMPTS:
            return self.give_up(UnremovableReason.DELETION_FAILED, event.detail, now)
        return self._ask_provider(now)

    # --- time -------------------------------------------------------------------------------------------------------------

    def step(
        self, node_view: NodeView, disruptions: Disruptions, now: Instant, *, batch_marked_at: Instant | None
    ) -> list[Effect]:
        """Does what is due now, and returns its effects; not called after the end. `batch_marked_at`: when the last node of the
        batch was tainted; None while one is not tainted."""
        if node_view.node is None or node_view.node.uid != self.order.uid:
            self._finish("removed" if self.phase in {"removing", "leaving"} else "gone", now)
            return []
        if self.order.stops_at is not None and self.phase in {*_REVOCABLE, "leaving"}:
            return self._step_before(self.order.stops_at - self.unix(now), node_view, now)
        return self._step(node_view, disruptions, now, batch_marked_at=batch_marked_at)

    def _step(
        self, node_view: NodeView, disruptions: Disruptions, now: Instant, *, batch_marked_at: Instant | None
    ) -> list[Effect]:
        """The step of a removal that may be given up."""
        if self.revocable and now - self.began >= self._limits.deadline:
            return self.give_up(UnremovableReason.DRAIN_TIMEOUT, f"not done {now - self.began:.0f} s after it began", now)
        waited = now - self._since
        match self.phase:
            case "marked" if batch_marked_at is None or now - batch_marked_at < self._limits.settle_time:
                pass
            case "marked" | "evicting" | "delaying":
                return self._judge_node(node_view, disruptions, now)
            case "leaving" if waited >= self._limits.removal_seconds:
                return self.give_up(UnremovableReason.DELETION_FAILED, "the node is still there", now)
            case "unmarking" if waited >= self._limits.retry_interval:
                self._since = now
                return self._unmark()
        return []

    def _step_before(self, left: float, node_view: NodeView, now: Instant) -> list[Effect]:
        """The step of a machine that stops in `left` seconds. Nothing gives it up, unless it has not stopped long after."""
        if self.phase == "leaving":
            late = left <= -self._limits.removal_seconds
            return self.give_up(UnremovableReason.DELETION_FAILED, "the node is still there", now) if late else []
        if self.phase == "marking" and left > _LAST_SECONDS:
            return []
        if node_view.empty or left <= _LAST_SECONDS:
            return self._ask_provider(now)
        if self.phase != "evicting":
            self._enter("evicting", now)
        return self.pods.leave_now(node_view.movers, left, now)

    def _judge_node(self, node_view: NodeView, disruptions: Disruptions, now: Instant) -> list[Effect]:
        """Checks the node's present state, since the plan may be outdated, and does the next step: gives the removal up, evicts
        pods, or asks the provider."""
        problem = self._not_as_planned(node_view) or self.pods.never_leaves(node_view, disruptions)
        if problem is not None:
            return self.give_up(*problem, now)
        if not node_view.empty:
            if self.phase != "evicting":
                self._enter("evicting", now)
            effects, problem = self.pods.step(node_view, disruptions, now)
            return effects if problem is None else [*effects, *self.give_up(*problem, now)]
        effects = self._daemons(node_view)
        assert node_view.node is not None
        if self.phase != "delaying":
            self._enter("delaying", now)
        if not node_view.node.deletion_delayed or now - self._since >= self._limits.delay_deletion_timeout:
            effects += self._ask_provider(now)
        return effects

    def _not_as_planned(self, node_view: NodeView) -> Problem | None:
        if node_view.node is not None and node_view.node.keep:
            return UnremovableReason.DISABLED_ANNOTATION, node_view.node.keep
        if node_view.blocked is not None:
            pod, unremovable_reason = node_view.blocked
            return unremovable_reason, str(pod.key)
        if self.order.empty and not node_view.empty:
            return UnremovableReason.NO_LONGER_EMPTY, ", ".join(
                str(pod.key) for pod in (*node_view.movers, *node_view.awaited)[:3]
            )
        return None

    def _daemons(self, node_view: NodeView) -> list[Effect]:
        """The evictions of DaemonSet pods, sent once before the node is deleted. The removal does not wait for them."""
        if self._asked_daemons or self.order.empty or not self._limits.evict_daemon_sets:
            return []
        self._asked_daemons = True
        return [Evict(uid=pod.uid, key=pod.key, node=self.order.node) for pod in node_view.daemons if not pod.deleting]

    def _ask_provider(self, now: Instant) -> list[Effect]:
        self._attempts += 1
        self._enter("removing", now)
        return [RemoveNode(self.order.node, self.order.group)]

    def _unmark(self) -> list[Effect]:
        return [UnmarkNode(uid=self.order.uid, name=self.order.node, taint_key=TO_BE_DELETED_TAINT, uncordon=True)]

    def _enter(self, phase: Phase, now: Instant) -> None:
        self.phase, self._since = phase, now

    def _finish(self, outcome: Literal["removed", "gone", "rolled-back"], now: Instant) -> None:
        self._enter("ended", now)
        self.end = DrainEnd(
            order=self.order,
            outcome=outcome,
            unremovable_reason=self.unremovable_reason,
            detail=self.detail,
            seconds=now - self.began,
            evicted=self.n_evicted,
        )
