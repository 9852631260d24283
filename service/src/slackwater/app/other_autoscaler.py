"""Follows Cluster Autoscaler's status ConfigMap: which node groups it has.

    one read a minute -> `ListedGroups.names` -> the node group registry, before each loop

A status counts for `STATUS_SECONDS` after it was written. One that cannot be read or understood marks nothing new, and what was
read before counts until it is as old: to leave all groups alone would stop scale-up wherever somebody forgot a right. The
problem is logged once, and shown as long as it lasts.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Final

import anyio
import msgspec
import structlog

from slackwater.adapters.api_calls import ApiReads, Read
from slackwater.adapters.kube.config_maps import BadStatus, listed_groups
from slackwater.adapters.kube.errors import UNREADABLE, KubeError, refused
from slackwater.app.cleanup import STATUS_SECONDS, age_of_status
from slackwater.ports.threads import in_thread
from slackwater_protocol.names import SCHEDULER_NAMESPACE

_log = structlog.get_logger(__name__)

_EVERY_SECONDS: Final = 60.0
_READ_SECONDS: Final = 5.0
_NOBODY: Final = frozenset[str]()


def status_path(name: str) -> str:
    """The path of the ConfigMap with this name."""
    return f"/api/v1/namespaces/{SCHEDULER_NAMESPACE}/configmaps/{name}"


async def read_status(client: ApiReads, name: str, now: datetime) -> tuple[frozenset[str], float] | None:
    """The groups that Cluster Autoscaler's status lists, and its age in seconds; None if no status counts.

    Raises `KubeError`, and `BadStatus` for a status that cannot be understood.
    """
    answer = await client.send(Read(status_path(name), timeout_seconds=_READ_SECONDS))
    if answer.status == HTTPStatus.NOT_FOUND:
        return None
    if answer.status != HTTPStatus.OK:
        raise refused(f"get configmaps {name}", answer)
    try:
        found = msgspec.json.decode(answer.body)
        age = age_of_status(found, now)
        text = str((found.get("data") or {}).get("status", ""))
    except (*UNREADABLE, AttributeError, KeyError, TypeError) as error:
        raise BadStatus(f"the answer is no ConfigMap: {error}") from error
    return None if age is None else (await in_thread(lambda: listed_groups(text)), age)


class ListedGroups:
    """The groups of Cluster Autoscaler. `name` is that of its ConfigMap, `wall` the Unix time."""

    def __init__(self, client: ApiReads, name: str, *, wall: Callable[[], float]) -> None:
        self._client = client
        self._name = name
        self._wall = wall
        self._names = _NOBODY
        #: The Unix time from which on `_names` does not count.
        self._until = 0.0
        #: Why the status could not be read last; empty if it could.
        self.problem = ""

    @property
    def names(self) -> frozenset[str]:
        """Cluster Autoscaler's names of its groups; empty if no status counts now."""
        return self._names if self._wall() < self._until else _NOBODY

    async def look(self) -> None:
        """Reads the status once. Never raises, and takes a few seconds at most."""
        now = self._wall()
        problem = ""
        try:
            found = await read_status(self._client, self._name, datetime.fromtimestamp(now, UTC))
            self._names, age = found or (_NOBODY, 0.0)
            self._until = now + STATUS_SECONDS - max(age, 0.0)
        except (KubeError, BadStatus) as error:
            problem = f"which groups Cluster Autoscaler has is not known, ConfigMap {self._name}: {error}"
        if problem and not self.problem:
            _log.warning("which groups Cluster Autoscaler has is not known", problem=problem)
        self.problem = problem

    async def run(self) -> None:
        """Reads the status again and again until cancelled."""
        while True:
            await anyio.sleep(_EVERY_SECONDS)
            await self.look()
