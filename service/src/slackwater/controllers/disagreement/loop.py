"""The loop that asks the planning process to judge waiting pods and binds, and announces disagreements.

It asks only if there is something to judge, and rests after each answer. No decision about a pod waits for it.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import Final

import anyio
import structlog

from slackwater.controllers.disagreement.state import Disagreements, Judged, Looks
from slackwater.model.effects import Announce
from slackwater.model.ids import Instant
from slackwater.model.objects import Pod
from slackwater.ports.clock import Clock
from slackwater.ports.protocols import WhatIfRefused

_log = structlog.get_logger(__name__)

_SECONDS: Final = 1.0
#: The rest after an answer, as a multiple of the time that the answer took.
_REST: Final = 4.0


#: Has the planning process judge what the argument returns. It is called when the process has the cluster as it is then.
Judge = Callable[[Callable[[], Looks]], Awaitable[Judged]]


class DisagreementLoop:
    """Looks for disagreements. `binds`: it asks about binds even if no pod waits, because the planning process runs anyway."""

    def __init__(
        self,
        disagreements: Disagreements,
        judge: Judge,
        submit: Callable[[Iterable[Announce]], None],
        *,
        is_promised: Callable[[Pod, Instant], bool],
        clock: Clock,
        binds: bool,
    ) -> None:
        self._disagreements = disagreements
        self._judge = judge
        self._submit = submit
        self._is_promised = is_promised
        self._clock = clock
        self._binds = binds
        self._looks = Looks()

    async def run(self) -> None:
        """Looks for disagreements until cancelled."""
        while True:
            began = self._clock()
            await self.look()
            await anyio.sleep(max(_SECONDS, _REST * (self._clock() - began)))

    async def look(self) -> None:
        """Asks about the pods and binds that are due, if there are any, and announces new disagreements."""
        now = self._clock()
        self._disagreements.observe(now)
        if not self._disagreements.is_due(now, binds=self._binds):
            return
        try:
            answer = await self._judge(self._next)
        except WhatIfRefused as refused:
            _log.debug("not judged yet", detail=str(refused))
            return
        except Exception:  # a pod that cannot be judged must not end the service
            _log.exception("pods not judged")
            return
        self._submit(self._disagreements.judged(self._looks, answer, self._clock()))

    def _next(self) -> Looks:
        self._looks = self._disagreements.looks(self._clock(), self._is_promised)
        return self._looks
