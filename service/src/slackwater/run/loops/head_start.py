"""kube-scheduler waits with a pod that it searches for, while those behind it are told where to go.

    filter is asked -> due? -> begin -> pods are told ... -> nobody is left, or time is up
                                     -> what was told is written and shown -> end -> the answer

Each wait ends by itself: when its time is over, and when nothing was told for a while. The pod's own answer is made after it,
from the world as it is then.
"""

from typing import Final

import anyio

from slackwater.decide.steering.head_start import LEAST
from slackwater.model.ids import Instant
from slackwater.model.objects import Pod
from slackwater.run.clock import Clock
from slackwater.run.loops.steering import SteeringLoop
from slackwater.world.world import World

_LOOK_EVERY_SECONDS: Final = 0.01
#: Nobody was told for so long: the API server takes no more, or nobody fits.
_STALLED_SECONDS: Final = 0.25
#: So many looks wait until a watch has shown what was told last.
_SHOWN_LOOKS: Final = 30


class HeadStarts:
    """Implements `run.patience.Wait`."""

    def __init__(self, world: World, loop: SteeringLoop, clock: Clock) -> None:
        self._world = world
        self._loop = loop
        self._clock = clock

    def due(self, pod: Pod) -> bool:
        """Should the answer about the pod wait?"""
        policy = self._world.policy.steering
        if policy.choose or not policy.enabled:  # before anything is counted: this is asked for each pod
            return False
        return self._world.steering.may_wait(pod, self._loop.ready(pod.priority), policy, self._clock())

    async def wait(self, pod: Pod) -> None:
        """Until the answer may be made."""
        steering = self._world.steering
        steering.begin_wait(pod, self._clock())
        try:
            self._loop.hurry()
            await self._until_told(pod.priority, Instant(self._clock() + self._world.policy.steering.head_start_seconds))
            await self._until_shown()
        finally:
            steering.end_wait(self._clock())

    async def _until_told(self, priority: int, deadline: Instant) -> None:
        counts = self._world.steering.counts
        made, made_at = counts.made, self._clock()
        while self._loop.ready(priority) >= LEAST:
            await anyio.sleep(_LOOK_EVERY_SECONDS)
            now = self._clock()
            if counts.made != made:
                made, made_at = counts.made, now
            if now >= deadline or now - made_at >= _STALLED_SECONDS:
                return

    async def _until_shown(self) -> None:
        for _ in range(_SHOWN_LOOKS):
            if not self._world.steering.unshown:
                return
            await anyio.sleep(_LOOK_EVERY_SECONDS)
