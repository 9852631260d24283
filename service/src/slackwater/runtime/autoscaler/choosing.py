"""Of the nodes that pass filter, kube-scheduler is told one: the best. It scores none, and asks about none again.

    filter is asked about many -> the best of them -> StateMachine.choose -> one name
                                  refused there, or others would be compared with what is refused
                                                   -> the best of those that pass -> StateMachine.choose -> one name

Where nobody can tell which is the best, or the pod is none of steering's, filter is asked, and all that pass are told, as ever.
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
    """Implements `adapters.http.extender.Choice`."""

    def __init__(self, state_machine: StateMachine, loop: SteeringLoop, clock: Clock) -> None:
        self._state_machine = state_machine
        self._loop = loop
        self._clock = clock

    def of(self, pod: Pod, rows: Rows) -> int | None:
        """The position of the chosen row, of those that filter is asked about; room is held there. None: kube-scheduler shall
        choose, of what filter lets pass."""
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
