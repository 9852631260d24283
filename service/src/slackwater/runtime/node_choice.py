"""Node choice: filter returns only the best feasible node, and its answer may be delayed while binds queue.

- `FilterNodeChooser`: chooses the node, so kube-scheduler has nothing to score.
- `FilterBackpressure`: delays filter's answers.

In: the nodes that kube-scheduler offers for a pod. Out: one of them, or None. Invariant: if no best node can be determined, or
no node may be chosen for the pod, filter returns all feasible nodes.
"""

from collections.abc import Callable
from typing import Final

import anyio
import numpy as np

from slackwater.cluster.nodes import NO_ROW
from slackwater.controllers.nomination.loop import NominationLoop
from slackwater.model.columns import Rows
from slackwater.model.ids import Row
from slackwater.model.objects import Pod
from slackwater.ports.clock import Clock
from slackwater.runtime.state_machine import StateMachine


class FilterNodeChooser:
    """Chooses one node for a pod by the nomination snapshot's scores. Implements `adapters.http.extender.NodeChooser`.

    filter asks about many nodes -> the best of all      -> StateMachine.choose -> one node
    if that node is infeasible, or scores depend on the other nodes (infeasible ones would distort them):
                                 -> the best feasible one -> StateMachine.choose -> one node
    """

    def __init__(self, state_machine: StateMachine, loop: NominationLoop, clock: Clock) -> None:
        self._state_machine = state_machine
        self._loop = loop
        self._clock = clock

    def of(self, pod: Pod, rows: Rows) -> int | None:
        """Chooses a row and holds room there. Returns its position in `rows`; None if filter has to judge all rows, so that
        kube-scheduler chooses among the feasible ones."""
        state_machine, now = self._state_machine, self._clock()
        if len(rows) < 2 or not state_machine.advance_nominations.may_choose(pod.uid, state_machine.policy.nomination):
            return None
        best = self._loop.best_of(pod, rows)
        if best is None and rows.min() != NO_ROW:
            return None
        if best is not None and not best.compared and state_machine.choose(pod, Row(int(rows[best.at])), now):
            return best.at
        passing: Rows = np.flatnonzero(state_machine.passing(pod, rows, now))
        if 1 < len(passing) < len(rows):
            best = self._loop.best_of(pod, rows[passing])
        if best is None or len(passing) < 2:
            return None
        at = int(passing[best.at])
        return at if state_machine.choose(pod, Row(int(rows[at])), now) else None


_LOOK_EVERY_SECONDS: Final = 0.01


class FilterBackpressure:
    """Delays filter's answers while binds queue. The extender calls it before each filter answer.

    `binds_queue` says whether binds wait to be sent. kube-scheduler schedules one pod at a time, so a delay slows it down.
    Without the delay, a queued bind might reach the API server after kube-scheduler's own deadline. An answer is delayed by at
    most `most_seconds`, so kube-scheduler is never stopped, and filter answers from the state after the delay.
    """

    def __init__(self, binds_queue: Callable[[], bool], *, most_seconds: float = 1.0) -> None:
        self._binds_queue = binds_queue
        self._most_looks = round(most_seconds / _LOOK_EVERY_SECONDS)

    def due(self) -> bool:
        """Do binds queue now, so that filter should wait?"""
        return self._binds_queue()

    async def wait(self) -> None:
        """Returns when no binds queue any more, or after `most_seconds`."""
        for _ in range(self._most_looks):
            if not self._binds_queue():
                return
            await anyio.sleep(_LOOK_EVERY_SECONDS)
