"""Node choice: filter returns only the best feasible node, so kube-scheduler has nothing to score.

    filter asks about many nodes -> the best of all      -> StateMachine.choose -> one node
    if it is infeasible, or its score compares nodes (so infeasible ones would distort it):
                                 -> the best feasible one -> StateMachine.choose -> one node

If no best node can be determined, or the pod may not be chosen for, filter returns all feasible nodes.
"""

import numpy as np

from slackwater.cluster.nodes import NO_ROW
from slackwater.controllers.nomination.loop import SteeringLoop
from slackwater.model.columns import Rows
from slackwater.model.ids import Row
from slackwater.model.objects import Pod
from slackwater.ports.clock import Clock
from slackwater.runtime.state_machine import StateMachine


class Choosing:
    """Implements `adapters.http.extender.Choice`: chooses one node for a pod with the scores of the nomination snapshot."""

    def __init__(self, state_machine: StateMachine, loop: SteeringLoop, clock: Clock) -> None:
        self._state_machine = state_machine
        self._loop = loop
        self._clock = clock

    def of(self, pod: Pod, rows: Rows) -> int | None:
        """The position in `rows` of the chosen row, where room is now held. None: filter has to judge all rows, and
        kube-scheduler chooses among the feasible ones."""
        state_machine, now = self._state_machine, self._clock()
        if len(rows) < 2 or not state_machine.steering.may_choose(pod.uid, state_machine.policy.steering):
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
