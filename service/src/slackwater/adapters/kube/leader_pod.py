"""Finds the Pod of the leading replica: its address, read once for each leader and again at intervals."""

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
#: How long an address is used before it is read again; a missing one is read sooner. The Pod may have come back elsewhere under
#: its name.
_KEEP_SECONDS: Final = 10.0
_AGAIN_SECONDS: Final = 1.0


class _Status(msgspec.Struct, rename={"pod_ip": "podIP"}):
    pod_ip: str = ""


class _Pod(msgspec.Struct):
    status: _Status = msgspec.field(default_factory=_Status)


_POD: Final = msgspec.json.Decoder(_Pod)


class LeaderPod:
    """Looks up the leader's Pod in `namespace`. `holder` returns the identity of the leader, "" if nobody leads."""

    def __init__(self, client: ApiPort, *, namespace: str, holder: Callable[[], str], clock: Clock) -> None:
        self._client = client
        self._namespace = namespace
        self._holder = holder
        self._clock = clock
        self._known: tuple[str, str] | None = None
        self._good_until = Instant(float("-inf"))

    async def __call__(self) -> tuple[str, str] | None:
        """The leader's name and address; None if nobody leads or its Pod has no address. Never raises."""
        holder = self._holder()
        if not holder:
            return None
        name = holder_name(holder)
        if self._known is None or self._known[0] != name or self._good_until <= self._clock():
            # Set before the answer comes, so that concurrent callers cause one request; the others get the last known address.
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
