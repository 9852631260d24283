"""Node choice: filter names the best feasible node by kube-scheduler's scores, so that kube-scheduler has nothing to score.

- `FilterNodeChooser`: chooses one of the nodes that kube-scheduler offers for a pod, or None: then filter judges all of them,
  and names one by our score alone (`runtime.flows.filter`). Invariant: room is held on the named node before the answer leaves.
- `ScoringLoop`: keeps the scoring snapshot up to date, and answers which of some nodes is the best for a pod.

Filter applies a few changes itself when it asks. The loop applies what is more, so that filter seldom finds the snapshot
behind: on the event loop a slice at a time, and very many changes or a rebuild in a worker thread.
"""

from collections.abc import Iterator, Mapping
from typing import Final

import anyio
import numpy as np
import structlog

from slackwater.cluster.nodes import NO_ROW
from slackwater.controllers.placement.scoring_snapshot import ScoringSnapshot
from slackwater.fit.best_node import Best, Scoring
from slackwater.fit.node_scores import ScoreProfile
from slackwater.fit.score_curve import own_score
from slackwater.model.columns import Rows
from slackwater.model.ids import Row
from slackwater.model.kubernetes_rules import Rule
from slackwater.model.objects import Pod
from slackwater.ports.clock import Clock
from slackwater.runtime.state_machine import StateMachine

_log = structlog.get_logger(__name__)

#: How often the snapshot is brought up to date if nothing makes it urgent.
_IDLE_SECONDS: Final = 0.25
#: The pause after an error.
_REST_SECONDS: Final = 1.0
#: When no node was chosen for so long, what is cached for groups of pods is dropped.
_CACHED_SECONDS: Final = 20.0


class ScoringLoop:
    """Keeps a scoring snapshot, and finds the best node in it.

    Call `after_event` after each event of the state machine. `weight`: the extender's weight in kube-scheduler's configuration.
    `profiles`: the score plug-ins of kube-scheduler's profiles by `schedulerName`; None: the default ones, for our profile."""

    def __init__(
        self, state_machine: StateMachine, *, clock: Clock, weight: int, profiles: Mapping[str, ScoreProfile] | None = None
    ) -> None:
        self._state_machine = state_machine
        self._clock = clock
        self._weight = weight
        self._profiles = {state_machine.policy.scheduler_name: ScoreProfile()} if profiles is None else profiles
        self._wake = anyio.Event()
        self._snapshot: ScoringSnapshot | None = None
        #: Set once the snapshot has been up to date since the start, or could not be built.
        self.caught_up = anyio.Event()
        #: The curve with which the cached scores were computed. A reload of the settings may bring another one.
        self._scored_by = state_machine.policy.score

    def after_event(self) -> None:
        """Wakes the loop if the snapshot is so far behind that filter could not use it."""
        if self._snapshot is not None and self._snapshot.far_behind:
            self._wake.set()

    def best_of(self, pod: Pod, rows: Rows) -> Best | None:
        """The one of `rows` whose node scores best for the pod; `rows` are rows of the cluster state. None if the snapshot
        cannot say (`ScoringSnapshot.best_of`): filter then names the best by our score."""
        snapshot = self._snapshot
        if snapshot is None:
            return None
        if self._scored_by is not self._state_machine.policy.score:
            self._scored_by = self._state_machine.policy.score
            snapshot.forget_scores()
        try:
            return snapshot.best_of(pod, rows)
        except Exception:  # a bug here must not keep the pod from being placed
            _log.exception("choosing failed; its snapshot is rebuilt")
            self._unfollow()
            return None

    async def run(self) -> None:
        """Follows the state machine until cancelled. Start it after the state machine has listed everything."""
        while True:
            try:
                snapshot = self._snapshot or self._follow()
                await snapshot.catch_up()
                self.caught_up.set()
                await snapshot.rest(self._clock(), _CACHED_SECONDS)
                with anyio.move_on_after(_IDLE_SECONDS):
                    await self._wake.wait()
                self._wake = anyio.Event()
            except Exception:  # a bug here must not end the service: our own score chooses
                _log.exception("following the cluster failed; the scoring snapshot is rebuilt")
                self._unfollow()
                self.caught_up.set()
                await anyio.sleep(_REST_SECONDS)

    def _follow(self) -> ScoringSnapshot:
        policy = self._state_machine.policy
        own = own_score(lambda: self._state_machine.policy.score, self._weight)
        scorings = {name: Scoring(own, profile, policy.kubernetes) for name, profile in self._profiles.items()}
        volumes_scored = policy.kubernetes.follows(Rule.STORAGE_CAPACITY_SCORING)
        self._snapshot = ScoringSnapshot(self._state_machine, scorings, volumes_scored=volumes_scored)
        return self._snapshot

    def _unfollow(self) -> None:
        if self._snapshot is not None:
            self._snapshot.stop()
            self._snapshot = None


class FilterNodeChooser:
    """Chooses one node for a pod by the scoring snapshot.

    filter asks about many nodes -> the best of all      -> StateMachine.choose -> one node
    if that node is infeasible, or scores depend on the other nodes (infeasible ones would distort them):
                                 -> the best feasible one -> StateMachine.choose -> one node

    If nodes were named for the pod before, those that were not come first. Nodes where a plan has room for the pod come
    before all others.
    """

    def __init__(self, state_machine: StateMachine, loop: ScoringLoop, clock: Clock) -> None:
        self._state_machine = state_machine
        self._loop = loop
        self._clock = clock

    def of(self, pod: Pod, rows: Rows) -> int | None:
        """Chooses a row and holds room there. Returns its position in `rows`; None if no best row is known, or filter has to
        decide by other rules."""
        if len(rows) < 2 or not self._state_machine.may_choose(pod):
            return None
        for row in self._state_machine.planned_rows(pod, rows):
            if self._state_machine.choose(pod, row, self._clock()):
                return int(np.flatnonzero(rows == row)[0])
        for offered in self._offered(pod, rows):
            at = self._best(pod, rows[offered])
            if at is not None:
                return int(offered[at])
        return None

    def _offered(self, pod: Pod, rows: Rows) -> Iterator[Rows]:
        """Positions in `rows` to choose from: of nodes that were not named for the pod yet, then of all."""
        every: Rows = np.arange(len(rows))
        tried = self._state_machine.chosen_nodes.tried(pod.uid)
        if tried:
            yield every[~np.isin(rows, self._state_machine.state.nodes.rows_of(tried))]
        yield every

    def _best(self, pod: Pod, rows: Rows) -> int | None:
        state_machine, now = self._state_machine, self._clock()
        if not len(rows):
            return None
        best = self._loop.best_of(pod, rows)
        if best is None and rows.min() != NO_ROW:
            return None
        if best is not None and not best.compared and state_machine.choose(pod, Row(int(rows[best.at])), now):
            return best.at
        passing: Rows = np.flatnonzero(state_machine.passing(pod, rows, now))
        if 0 < len(passing) < len(rows):
            best = self._loop.best_of(pod, rows[passing])
        if best is None or not len(passing):
            return None
        at = int(passing[best.at])
        return at if state_machine.choose(pod, Row(int(rows[at])), now) else None
