"""Node choice: filter names the best feasible node by kube-scheduler's scores, so that kube-scheduler has nothing to score.

In: the nodes that kube-scheduler offers for a pod. Out: one of them, or None: then filter judges all of them, and names one by
our score alone (`runtime.flows.filter`). Invariant: room is held on the named node before the answer leaves.
"""

from collections.abc import Iterator

import numpy as np

from slackwater.cluster.nodes import NO_ROW
from slackwater.controllers.placement.loop import ScoringLoop
from slackwater.model.columns import Rows
from slackwater.model.ids import Row
from slackwater.model.objects import Pod
from slackwater.ports.clock import Clock
from slackwater.runtime.state_machine import StateMachine


class FilterNodeChooser:
    """Chooses one node for a pod by the scoring snapshot.

    filter asks about many nodes -> the best of all      -> StateMachine.choose -> one node
    if that node is infeasible, or scores depend on the other nodes (infeasible ones would distort them):
                                 -> the best feasible one -> StateMachine.choose -> one node

    If nodes were named for the pod before, those that were not come first.
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
