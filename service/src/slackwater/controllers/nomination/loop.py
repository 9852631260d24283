r"""The nomination loop: keeps a snapshot up to date, chooses nodes for waiting pods, and gives the choices to the state
machine.

    a pod arrived -> a short pause \
                                    -> changes -> replica, backlog -> choice -> StateMachine.apply -> nominations
    nominations were written ------/

The pause lets an idle kube-scheduler go first: it searches for a new pod at once, and a nomination for this pod would be too
late. The filter call shows the search, so no such nomination is written. While more pods wait than kube-scheduler is about to
take, rounds follow each other without a pause. All of this runs on the event loop, a slice at a time, because the work for a
pod costs less than a switch of threads. Only many changes at once, or a rebuild of the snapshot, go to a worker thread.
Deliberately absent: which node (`chooser`), and which pods may be nominated and how nominations end
(`StateMachine.advance_nominations`).
"""

from collections.abc import Callable, Iterable
from typing import Final

import anyio
import anyio.lowlevel
import structlog

from slackwater.controllers.nomination.backlog import Eligibility
from slackwater.controllers.nomination.snapshot_follower import NominationSnapshot
from slackwater.fit.best_node import Best, Scoring
from slackwater.fit.node_scores import RoomScore, ScoreProfile
from slackwater.fit.score.room import Room, Value
from slackwater.fit.score_curve import MAX_EXTENDER_SCORE, ScoreCurve, fractions_of, tenths
from slackwater.model.columns import Rows
from slackwater.model.effects import Effect
from slackwater.model.events import PodsNominated
from slackwater.model.ids import Instant
from slackwater.model.kubernetes_rules import Rule
from slackwater.model.objects import Pod
from slackwater.model.scheduler_profile import DEFAULT_PROFILE
from slackwater.ports.clock import Clock
from slackwater.runtime.state_machine import StateMachine
from slackwater.snapshot.equivalence_groups import NumberedGroup
from slackwater.snapshot.node_facts import CPU, MEMORY

_log = structlog.get_logger(__name__)

#: Pause between the first pod of a round and the choice.
_SETTLE_SECONDS: Final = 0.015
#: How often a round begins without a new pod, for parked pods and other changes.
_IDLE_SECONDS: Final = 0.25
#: A round waits until so many pods may be nominated, or half of the window if that is less, since each round has a fixed cost.
_TOGETHER: Final = 16
#: The pause after an error, and between two checks whether nominations are enabled.
_REST_SECONDS: Final = 1.0
#: The most pods for which nodes are chosen before other tasks run: a few milliseconds of work.
_BATCH: Final = 32
#: Images on nodes are in no journal, so everything is scored again this often.
_RESCORE_SECONDS: Final = 30.0
#: When no node was chosen for so long, what is cached for groups of pods is dropped.
_CACHED_SECONDS: Final = 20.0


class NominationLoop:
    """Nominates waiting pods in advance, and answers filter's question for the best node.

    Call `after_event` after each event of the state machine. `weight`: the extender's weight in kube-scheduler's configuration.
    `profile`: the score plug-ins of kube-scheduler's profile; None: those of the default profile."""

    def __init__(
        self,
        state_machine: StateMachine,
        *,
        submit: Callable[[Iterable[Effect]], None],
        clock: Clock,
        weight: int,
        profile: ScoreProfile | None = None,
    ) -> None:
        self._state_machine = state_machine
        self._submit = submit
        self._clock = clock
        self._weight = weight
        self._profile = profile
        self._arrived = -1
        #: Whether pods are left in the backlog that may be nominated without a pause.
        self._more = False
        self._wake = anyio.Event()
        self._nomination_snapshot: NominationSnapshot | None = None
        #: The curve with which the cached scores were computed. A reload of the settings may bring another one.
        self._scored_by = state_machine.policy.curve

    def after_event(self) -> None:
        """Wakes the loop if a pod has arrived, or if pods left in the backlog may be nominated now."""
        if not self._wake.is_set() and (
            self._state_machine.advance_nominations.arrived != self._arrived or (self._more and self._may_nominate())
        ):
            self._wake.set()

    def best_of(self, pod: Pod, rows: Rows) -> Best | None:
        """The one of `rows` whose node scores best for the pod; `rows` are rows of the cluster state. None if the nomination
        snapshot cannot say (`NominationSnapshot.best_of`): kube-scheduler then chooses among the feasible nodes."""
        nomination_snapshot = self._nomination_snapshot
        if nomination_snapshot is None:
            return None
        if self._scored_by is not self._state_machine.policy.curve:
            self._scored_by = self._state_machine.policy.curve
            nomination_snapshot.forget_scores()
        try:
            return nomination_snapshot.best_of(pod, rows)
        except Exception:  # a bug here must not keep the pod from being placed
            _log.exception("choosing failed; its snapshot is rebuilt")
            self._unfollow()
            return None

    def _may_nominate(self) -> int:
        """The number of pods that may be nominated now; 0 if it is cheaper to wait until more may be nominated together."""
        nominations, policy = self._state_machine.advance_nominations, self._state_machine.policy.nomination
        most = nominations.may_nominate(policy, self._clock())
        width = min(nominations.nomination_window.width, policy.nomination_window.most, policy.max_ahead)
        return most if most >= min(_TOGETHER, width // 2) else 0

    async def run(self) -> None:
        """Nominates pods until cancelled. Start it after the state machine has listed everything."""
        while True:
            try:
                if self._wanted():
                    snapshot = self._nomination_snapshot
                    if snapshot is None:
                        snapshot = self._follow()
                        await snapshot.catch_up()  # at once, because filter chooses no node before
                    await self._round(snapshot)
                else:
                    self._unfollow()
                    await anyio.sleep(_REST_SECONDS)
            except Exception:  # a bug here must not end the service: kube-scheduler searches by itself
                _log.exception("nomination failed; its snapshot is rebuilt")
                self._unfollow()
                await anyio.sleep(_REST_SECONDS)

    def _wanted(self) -> bool:
        return self._state_machine.policy.nomination.enabled

    def _follow(self) -> NominationSnapshot:
        policy = self._state_machine.policy
        eligible = Eligibility(
            scheduler_name=policy.scheduler_name,
            gated=policy.nomination.gated,
            missing_requests_refused=policy.missing_requests == "reject",
            volumes_scored=policy.kubernetes.follows(Rule.STORAGE_CAPACITY_SCORING),
            spreads_by_default=bool(policy.profiles.get(policy.scheduler_name, DEFAULT_PROFILE).spread),
        )
        own = own_score(lambda: self._state_machine.policy.curve, self._weight)
        scoring = Scoring(own, self._profile, policy.kubernetes)
        self._nomination_snapshot = NominationSnapshot(self._state_machine, eligible, scoring)
        return self._nomination_snapshot

    def _unfollow(self) -> None:
        if self._nomination_snapshot is not None:
            self._nomination_snapshot.stop()
            self._nomination_snapshot = None
            self._more = False
        self._state_machine.advance_nominations.searched.clear()

    async def _round(self, nomination_snapshot: NominationSnapshot) -> None:
        with anyio.move_on_after(_IDLE_SECONDS):
            await self._wake.wait()
        if self._state_machine.advance_nominations.arrived != self._arrived and not self._more:
            await anyio.sleep(_SETTLE_SECONDS)
        self._arrived = self._state_machine.advance_nominations.arrived
        self._wake = anyio.Event()
        await nomination_snapshot.catch_up()
        await nomination_snapshot.rest(self._clock(), _CACHED_SECONDS)
        self._more = self._nominate_some(nomination_snapshot)
        if self._more and self._may_nominate():
            self._wake.set()
            await anyio.lowlevel.checkpoint()

    def _nominate_some(self, nomination_snapshot: NominationSnapshot) -> bool:
        """Nominates up to `_BATCH` pods. True if pods may be left that can be nominated."""
        state_machine, backlog, now = self._state_machine, nomination_snapshot.backlog, self._clock()
        searched = state_machine.advance_nominations.searched
        for uid in searched:
            backlog.discard(uid)
        searched.clear()
        if not backlog.due(now):
            return False
        most = min(_BATCH, state_machine.advance_nominations.may_nominate(state_machine.policy.nomination, now))
        if not most:
            return True
        if now >= nomination_snapshot.rescore_at:
            nomination_snapshot.rescore_at = Instant(now + _RESCORE_SECONDS)
            nomination_snapshot.forget_scores()
        nomination_snapshot.used = True
        pods = (backlog.behind_gates if state_machine.advance_nominations.scheduler_at_work(now) else backlog.some)(most, now)
        nominations = state_machine.advance_nominations
        choice = nomination_snapshot.chooser.choose(
            nomination_snapshot.replica.snapshot, pods, nominations.elsewhere(), nominations.waiting()
        )
        backlog.park(choice.unfit, now)
        if choice.picks:
            backlog.placed()
        gated = tuple(pod.uid for pod in choice.unfit if pod.gates)
        if choice.picks or gated:
            self._submit(state_machine.apply(PodsNominated(choice.picks, gated), now))
        return bool(pods) and backlog.ready > 0


def own_score(curve: Callable[[], ScoreCurve], weight: int) -> RoomScore:
    """Makes the function for our own score, as kube-scheduler counts an extender's score: 0..10, times ten, times the weight.

    The score reads requests, which equal Reserved except for pods that grow in place."""

    def own(room: Room, kind: NumberedGroup) -> Value:
        requests, used = kind.kind.requests, room.used
        after = used[CPU] + requests.cpu, used[MEMORY] + requests.memory
        return weight * MAX_EXTENDER_SCORE * tenths(fractions_of(after, room.capacity, room.largest, curve(), room.of), room.of)

    return own
