"""Answers what-if questions on the running service: implements `ports.protocols.WhatIf`.

One question is answered at a time, in a worker thread and on a copy of the cluster state, so the service goes on meanwhile.
`autoscaler.maxPlanningTime` bounds the time of a plan.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import anyio
import anyio.to_thread
import msgspec

from slackwater.app.offline.cluster import Cluster
from slackwater.app.offline.objects import ClusterError
from slackwater.app.offline.placement import placement_lines
from slackwater.app.offline.scaledown import scale_down_answer
from slackwater.app.offline.scaleup import scale_up_answer
from slackwater.app.policy import policy_of
from slackwater.app.settings import Settings, SettingsError
from slackwater.app.whatif.configuring import configured, regrouped
from slackwater.app.whatif.live import Taken, cluster_of
from slackwater.app.whatif.supposing import suppose
from slackwater.ports.protocols import Question, Supposed, WhatIfRefused

#: How long a question waits for those before it.
_PATIENCE_SECONDS: Final = 30.0


def _placement(cluster: Cluster, settings: Settings, supposed: Supposed) -> Iterable[Mapping[str, Any]]:
    policy = policy_of(settings)
    return placement_lines(
        cluster,
        sequential=supposed.sequential,
        accounting=supposed.accounting,
        policy=policy.nodes,
        missing_requests=policy.missing_requests,
    )


def _scale_up(cluster: Cluster, settings: Settings, supposed: Supposed) -> Iterable[Mapping[str, Any]]:
    yield scale_up_answer(cluster, settings, accounting=supposed.accounting)


def _scale_down(cluster: Cluster, settings: Settings, supposed: Supposed) -> Iterable[Mapping[str, Any]]:
    yield scale_down_answer(cluster, settings, accounting=supposed.accounting)


#: For each question: the function that computes the lines that the command prints, the same as for a cluster from a file.
_ANSWERS: Final[Mapping[Question, Callable[[Cluster, Settings, Supposed], Iterable[Mapping[str, Any]]]]] = {
    "placement": _placement,
    "scale-up": _scale_up,
    "scale-down": _scale_down,
}


class Answering:
    """Answers what-if questions. `take` copies the cluster state; it is called on the event loop."""

    def __init__(self, take: Callable[[], Taken], settings: Callable[[], Settings]) -> None:
        self._take = take
        self._settings = settings
        self._one = anyio.CapacityLimiter(1)

    async def __call__(self, question: Question, supposed: Supposed) -> bytes:
        with anyio.move_on_after(_PATIENCE_SECONDS) as waiting:
            await self._one.acquire()
        if waiting.cancelled_caught:
            raise WhatIfRefused("other questions are being answered, want one at a time", busy=True)
        try:
            taken, settings = self._take(), self._settings()
            # Not abandoned on cancellation: the thread would still run when the next question's begins.
            return await anyio.to_thread.run_sync(_answer, question, taken, settings, supposed)
        finally:
            self._one.release()


def _answer(question: Question, taken: Taken, in_force: Settings, supposed: Supposed) -> bytes:
    try:
        settings = configured(in_force, supposed.configuration)
        cluster = regrouped(cluster_of(taken, accounting=supposed.accounting), in_force, settings)
        cluster = suppose(cluster, objects=supposed.objects, remove=supposed.remove)
        return b"".join(msgspec.json.encode(line) + b"\n" for line in _ANSWERS[question](cluster, settings, supposed))
    except (SettingsError, ClusterError) as error:
        raise WhatIfRefused(str(error)) from error
