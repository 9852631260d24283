"""Where the replica that leads is: its Pod's address, asked once for each leader, and now and then again."""

from collections.abc import Callable
from http import HTTPStatus
from typing import Final

import msgspec
import structlog

from slackwater.adapters.kube.client import ApiPort, Call
from slackwater.adapters.kube.errors import KubeError
from slackwater.adapters.kube.objectpath import object_path
from slackwater.adapters.kube.resource_type import PODS_PATH
from slackwater.controllers.leadership.lease import holder_name
from slackwater.model.ids import Instant, PodKey
from slackwater.ports.clock import Clock

_log = structlog.get_logger(__name__)

_READ_SECONDS: Final = 2.0
#: An address is read again after this, an absent one sooner: the Pod may have come back elsewhere under its name.
_KEEP_SECONDS: Final = 10.0
_AGAIN_SECONDS: Final = 1.0


class _Status(msgspec.Struct, rename={"pod_ip": "podIP"}):
    pod_ip: str = ""


class _Pod(msgspec.Struct):
    status: _Status = msgspec.field(default_factory=_Status)


_POD: Final = msgspec.json.Decoder(_Pod)


class LeaderPod:
    """`holder` tells the identity of whoever leads, "" nobody; its Pod is looked for in `namespace`."""

    def __init__(self, client: ApiPort, *, namespace: str, holder: Callable[[], str], clock: Clock) -> None:
        self._client = client
        self._namespace = namespace
        self._holder = holder
        self._clock = clock
        self._known: tuple[str, str] | None = None
        self._good_until = Instant(float("-inf"))

    async def __call__(self) -> tuple[str, str] | None:
        """Its name and its address; None where nobody leads, or the Pod has none. Never raises."""
        holder = self._holder()
        if not holder:
            return None
        name = holder_name(holder)
        if self._known is None or self._known[0] != name or self._good_until <= self._clock():
            # Before the answer, so that many who ask at once are one question; they get what was known.
            self._good_until = Instant(self._clock() + _AGAIN_SECONDS)
            address = await self._address(name)
            self._known = name, address
            self._good_until = Instant(self._clock() + (_KEEP_SECONDS if address else _AGAIN_SECONDS))
        return self._known if self._known[1] else None

    async def _address(self, name: str) -> str:
        path = object_path(PODS_PATH, PodKey(self._namespace, name))
        try:
            answer = await self._client.send(Call("GET", path, timeout_seconds=_READ_SECONDS))
            if answer.status == HTTPStatus.OK:
                return _POD.decode(answer.body).status.pod_ip
            problem = f"status {answer.status}"
        except (KubeError, msgspec.MsgspecError) as error:
            problem = str(error)
        _log.warning("the leader's pod cannot be read", pod=f"{self._namespace}/{name}", problem=problem)
        return ""
