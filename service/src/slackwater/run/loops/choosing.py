"""Of the nodes that filter lets a pod pass on, kube-scheduler is told one: the best. It scores none, and asks about none again.

    filter is asked about many -> all that pass -> the best of them -> World.apply -> one name

Where nobody can tell which is the best, or the pod is none of steering's, it is told all of them, as ever.
"""

import numpy as np

from slackwater.model.columns import Codes, Rows, let_pass
from slackwater.model.events import NodeChosen
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

    def of(self, pod: Pod, rows: Rows, codes: Codes) -> int | None:
        """The position of the chosen row, of those that filter has just let pass; None: kube-scheduler shall choose."""
        passing: Rows = np.flatnonzero(let_pass(codes))
        if len(passing) < 2 or not self._world.may_choose(pod):
            return None
        best = self._loop.best_of(pod, rows[passing])
        if best is None:
            return None
        at = int(passing[best])
        node = self._world.nodes.by_row[rows[at]]
        if node is None:
            return None
        self._world.apply(NodeChosen(pod.uid, node.name), self._clock())
        return at
