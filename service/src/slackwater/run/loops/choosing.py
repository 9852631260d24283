"""Of the nodes that filter lets a pod pass on, kube-scheduler is told one: the best. It scores none, and asks about none again.

    filter is asked about many -> the best of them -> World.choose -> one name
                                   -> refused there: the best of those that pass -> World.choose -> one name

Where nobody can tell which is the best, or the pod is none of steering's, filter is asked, and all that pass are told, as ever.
"""

import numpy as np

from slackwater.model.columns import Rows
from slackwater.model.ids import Row
from slackwater.model.objects import Pod
from slackwater.run.clock import Clock
from slackwater.run.loops.steering import SteeringLoop
from slackwater.world.world import World


class Choosing:
    """Implements `edge.web.extender.Choice`."""

    def __init__(self, world: World, loop: SteeringLoop, clock: Clock) -> None:
        self._world = world
        self._loop = loop
        self._clock = clock

    def of(self, pod: Pod, rows: Rows) -> int | None:
        """The position of the chosen row, of those that filter is asked about; room is held there. None: kube-scheduler shall
        choose, of what filter lets pass."""
        if len(rows) < 2:
            return None
        best, now = self._loop.best_of(pod, rows), self._clock()
        if best is None or self._world.choose(pod, Row(int(rows[best])), now):
            return best
        passing: Rows = np.flatnonzero(self._world.passing(pod, rows, now))
        if len(passing) < 2:
            return None
        best = self._loop.best_of(pod, rows[passing])
        if best is None or not self._world.choose(pod, Row(int(rows[passing[best]])), now):
            return None
        return int(passing[best])
