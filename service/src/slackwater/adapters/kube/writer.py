"""Effects as API calls: `ports.protocols.Writer` against a real API server, one attempt each.

Every write names the pod's UID as well, so that it never meets a successor of the same name, and every one may be repeated
without harm; repeating, ordering and width are the dispatcher's. What the server's answers mean is read from the status
alone, never from a text. Each kind of effect has its writer.
"""

import math
from collections.abc import Callable

import anyio
import msgspec

from slackwater.adapters.kube.client import ApiPort, Call, Response
from slackwater.adapters.kube.decode import PodDecoder
from slackwater.adapters.kube.drain_writer import DrainWriter
from slackwater.adapters.kube.errors import KubeError, NoAnswer, NotLeading
from slackwater.adapters.kube.pod_writer import PodWriter
from slackwater.adapters.kube.preemption_writer import PreemptionWriter
from slackwater.adapters.kube.recorder import Recorder
from slackwater.adapters.kube.vertical_writer import VerticalWriter
from slackwater.model.effects import Announce, ApiEffect, DeleteVictim, DrainEffect, PlacingEffect, VerticalEffect
from slackwater.ports.protocols import Outcome


class ApiWriter:
    """Implements `ports.protocols.Writer`. `stamp` answers the time as RFC 3339, another text each time: it makes each touch of
    a pod a change."""

    def __init__(self, client: ApiPort, decoder: PodDecoder, recorder: Recorder, *, stamp: Callable[[], str]) -> None:
        self._client = client
        self._recorder = recorder
        self._pods = PodWriter(self._send, decoder, stamp=stamp)
        self._vertical = VerticalWriter(self._send)
        self._preemption = PreemptionWriter(self._send, self._pods.read, now=stamp)
        self._drains = DrainWriter(self._send, self._pods.read)

    async def perform(self, effect: ApiEffect, *, timeout_seconds: float | None) -> Outcome:
        """Never raises for what the API server answers, or does not."""
        try:
            return await self._carry_out(
                effect, math.inf if timeout_seconds is None else anyio.current_time() + timeout_seconds
            )
        except NoAnswer as error:
            return Outcome("unknown", detail=str(error))
        except NotLeading as error:
            return Outcome("refused", detail=str(error))
        except KubeError as error:
            return Outcome("again", detail=str(error))

    async def _carry_out(self, effect: ApiEffect, deadline: float) -> Outcome:
        if isinstance(effect, PlacingEffect):
            return await self._pods.perform(effect, deadline)
        if isinstance(effect, VerticalEffect):
            return await self._vertical.perform(effect, deadline)
        if isinstance(effect, DrainEffect):
            return await self._drains.perform(effect, deadline)
        match effect:
            case DeleteVictim():
                return await self._preemption.delete_victim(effect, deadline)
            case Announce():
                return await self._recorder.announce(effect, timeout_seconds=deadline - anyio.current_time())

    async def _send(
        self, method: str, path: str, body: object, deadline: float, *, content_type: str = "application/json"
    ) -> Response:
        call = Call(
            method,
            path,
            body=None if body is None else msgspec.json.encode(body),
            content_type=content_type,
            timeout_seconds=None if deadline == math.inf else max(deadline - anyio.current_time(), 0.0),
        )
        return await self._client.send(call)
