"""A state machine that tells every call of it, with its answer. Otherwise it is the state machine.

What is told is everything that may change it, and every question whose answer decides something. Reads are not told.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from slackwater import __version__
from slackwater.cluster.cluster_state import ClusterState
from slackwater.controllers.migration.state import Migrating
from slackwater.controllers.permits.state import Decided
from slackwater.controllers.placement.binding import BindAnswer
from slackwater.controllers.policy import Policy
from slackwater.controllers.preemption.extender_candidates import Kept
from slackwater.controllers.scaledown.drains.drain import DrainEnd, DrainOrder, RemoveNode
from slackwater.controllers.scaledown.drains.drains import CancelAnswer, Drains
from slackwater.controllers.scaledown.drains.limits import DrainLimits
from slackwater.controllers.scaledown.drains.node_view import NodeViews
from slackwater.fit.drainability import DrainPolicy
from slackwater.model.columns import Codes, Int64, Rows
from slackwater.model.effects import Effect
from slackwater.model.events import Event
from slackwater.model.ids import Instant, NodeName, PodKey, PodUid, Row, UnixTime
from slackwater.model.objects import Pod
from slackwater.model.permits import Caller, PermitAnswer, PermitAsk, PermitRefusal
from slackwater.model.unremovable_reasons import UnremovableReason
from slackwater.runtime.flows.drains import Removals
from slackwater.runtime.record.calls import FORMAT, START, Start, frame, named, raised, rows_to_bytes
from slackwater.runtime.state_machine import StateMachine

#: Takes one frame; it may be called hundreds of times a second, and must not wait.
Tell = Callable[[bytes], None]
#: Decisions on agents' questions are referred to for so long; answers wait for a write much less.
ANSWER_SECONDS = 300.0


class RecordedStateMachine(StateMachine):
    """A state machine that records each of its calls with the answer."""

    def __init__(self, policy: Policy, *, seed: int = 0, tell: Tell) -> None:
        self._tell = tell
        self._last_rows = b""
        self._asked = 0
        #: The number of each decision that may still be answered, the oldest first, and when it was made.
        self._decided: dict[int, tuple[int, Decided, Instant]] = {}
        tell(frame(START, 0.0, Start(format=FORMAT, version=__version__, seed=seed, policy=policy), None))
        super().__init__(
            policy, seed=seed, make_removals=lambda cluster_state, moves: RecordedRemovals(cluster_state, moves, tell=tell)
        )

    def apply(self, event: Event, now: Instant) -> list[Effect]:
        try:
            effects = super().apply(event, now)
        except Exception as error:
            self._tell(frame("apply", now, named(event), raised(error)))
            raise
        self._tell(frame("apply", now, named(event), named(effects)))
        return effects

    def adopt_policy(self, policy: Policy) -> None:
        super().adopt_policy(policy)
        self._tell(frame("adopt_policy", 0.0, policy, None))

    def filter(self, pod: Pod, rows: Rows, now: Instant) -> Codes:
        codes = super().filter(pod, rows, now)
        self._tell(frame("filter", now, (pod, self._rows(rows)), codes))
        return codes

    def choose(self, pod: Pod, row: Row, now: Instant) -> bool:
        chosen = super().choose(pod, row, now)
        self._tell(frame("choose", now, (pod, row), chosen))
        return chosen

    def prioritize(self, pod: Pod, rows: Rows) -> Int64:
        scores = super().prioritize(pod, rows)
        self._tell(frame("prioritize", 0.0, (pod, self._rows(rows)), scores))
        return scores

    def bind(self, uid: PodUid, key: PodKey, node: NodeName, now: Instant) -> BindAnswer:
        answer = super().bind(uid, key, node, now)
        self._tell(frame("bind", now, (uid, key, node), answer))
        return answer

    def preempt(self, pod: Pod, proposed: Mapping[NodeName, Sequence[PodUid]], now: Instant) -> Kept:
        kept = super().preempt(pod, proposed, now)
        self._tell(frame("preempt", now, (pod, proposed), kept))
        return kept

    def ask_permit(self, ask: PermitAsk, caller: Caller | None, now: Instant) -> Decided | PermitRefusal:
        self._asked += 1
        decided = super().ask_permit(ask, caller, now)
        self._tell(frame("ask_permit", now, (self._asked, ask, caller), named(decided)))
        if isinstance(decided, Decided):
            self._decided[id(decided)] = (self._asked, decided, now)
            while (first := next(iter(self._decided.values())))[2] < now - ANSWER_SECONDS:
                del self._decided[id(first[1])]
        return decided

    def permit_answer(self, decided: Decided) -> PermitAnswer | PermitRefusal:
        answer = super().permit_answer(decided)
        known = self._decided.get(id(decided))
        if known is not None:
            self._tell(frame("permit_answer", 0.0, known[0], named(answer)))
        return answer

    def _rows(self, rows: Rows) -> bytes | None:
        """None where they are those of the question before, as most are."""
        told = rows_to_bytes(rows)
        if told == self._last_rows:
            return None
        self._last_rows = told
        return told


class RecordedRemovals(Removals):
    """Removals that tell what the autoscaler does with them."""

    def __init__(self, cluster_state: ClusterState, migrating: Migrating, *, tell: Tell) -> None:
        super().__init__(cluster_state, migrating, make_drains=lambda node_views: RecordedDrains(node_views, tell=tell))
        self._tell = tell

    def adopt(self, rules: DrainPolicy, limits: DrainLimits) -> None:
        super().adopt(rules, limits)
        self._tell(frame("adopt_drains", 0.0, (rules, limits), None))


class RecordedDrains(Drains):
    """Drains that tell what is begun, cancelled and taken of them; their events are the state machine's."""

    def __init__(self, node_views: NodeViews, *, tell: Tell) -> None:
        super().__init__(node_views)
        self._tell = tell

    def begin(self, orders: Iterable[DrainOrder], now: Instant) -> list[Effect]:
        listed = list(orders)
        effects = super().begin(listed, now)
        self._tell(frame("begin_drains", now, (listed, None), named(effects)))
        return effects

    def resume(self, orders: Iterable[DrainOrder], now: Instant, unix_now: UnixTime) -> None:
        listed = list(orders)
        super().resume(listed, now, unix_now)
        self._tell(frame("resume_drains", now, (listed, unix_now), None))

    def cancel(
        self, node: NodeName, unremovable_reason: UnremovableReason, detail: str, now: Instant
    ) -> tuple[CancelAnswer, list[Effect]]:
        answer, effects = super().cancel(node, unremovable_reason, detail, now)
        self._tell(frame("cancel_drain", now, (node, unremovable_reason, detail), [answer, named(effects)]))
        return answer, effects

    def take_removals(self) -> list[RemoveNode]:
        found = super().take_removals()
        if found:
            self._tell(frame("take_removals", 0.0, None, found))
        return found

    def take_evicted(self) -> list[Pod]:
        found = super().take_evicted()
        if found:
            self._tell(frame("take_evicted", 0.0, None, found))
        return found

    def take_ended(self) -> list[DrainEnd]:
        found = super().take_ended()
        if found:
            self._tell(frame("take_ended", 0.0, None, found))
        return found
