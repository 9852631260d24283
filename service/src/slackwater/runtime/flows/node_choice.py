"""Node choice: filter returns only the best feasible node, so that kube-scheduler has nothing to score.

In: the nodes that kube-scheduler offers for a pod. Out: one of them, or None. Invariant: if no best node can be determined, or
no node may be chosen for the pod, filter returns all feasible nodes.
"""

import numpy as np

from slackwater.cluster.nodes import NO_ROW
from slackwater.controllers.placement.loop import ScoringLoop
from slackwater.model.columns import Rows
from slackwater.model.ids import Row
from slackwater.model.objects import Pod
from slackwater.ports.clock import Clock
from slackwater.runtime.state_machine import StateMachine


class FilterNodeChooser:
    """Chooses one node for a pod by the scoring snapshot's scores. Implements `adapters.http.extender.NodeChooser`.

    filter asks about many nodes -> the best of all      -> StateMachine.choose -> one node
    if that node is infeasible, or scores depend on the other nodes (infeasible ones would distort them):
                                 -> the best feasible one -> StateMachine.choose -> one node
    """

    def __init__(self, state_machine: StateMachine, loop: ScoringLoop, clock: Clock) -> None:
        self._state_machine = state_machine
        self._loop = loop
        self._clock = clock

    def of(self, pod: Pod, rows: Rows) -> int | None:
        """Chooses a row and holds room there. Returns its position in `rows`; None if filter has to judge all rows, so that
        kube-scheduler chooses among the feasible ones."""
        state_machine, now = self._state_machine, self._clock()
        if len(rows) < 2 or not state_machine.may_choose(pod.uid):
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
