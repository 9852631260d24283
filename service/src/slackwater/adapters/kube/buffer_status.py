"""Writes the status of CapacityBuffer objects, where it differs from what `controllers.slack.buffers` wants.

The transition time of a condition changes only with the condition's status. Each patch names the object's UID, so that it never
changes a successor of the same name. Deliberately absent: what the status should be (`controllers.slack.buffers`).
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Final

import msgspec
import structlog

from slackwater.adapters.kube.client import ApiPort, Call
from slackwater.adapters.kube.errors import KubeError
from slackwater.adapters.kube.headroom_requests import BUFFERS_PATH
from slackwater.adapters.kube.objectpath import object_path
from slackwater.model.buffers import BufferStatus, CapacityBuffer, Condition

_log = structlog.get_logger(__name__)

_OK: Final = 200
#: At most so many writes after one loop; the others wait for the next.
_MOST: Final = 50


class BufferStatusWriter:
    """Patches the status of buffers. Never raises, because nothing depends on it. `now` returns the time as RFC 3339 in whole
    seconds.
    """

    def __init__(self, client: ApiPort, *, now: Callable[[], str], timeout_seconds: float = 10.0) -> None:
        self._client = client
        self._now = now
        self._timeout = timeout_seconds

    async def write(self, wanted: Iterable[tuple[CapacityBuffer, BufferStatus]]) -> int:
        """Writes each status that differs from the buffer's present one; the number of statuses written."""
        written = 0
        for buffer, status in wanted:
            told = stamped(buffer.status, status, self._now())
            if told == buffer.status:
                continue
            if written >= _MOST:
                break
            written += await self._patch(buffer, told)
        return written

    async def _patch(self, buffer: CapacityBuffer, status: BufferStatus) -> bool:
        body = msgspec.json.encode({"metadata": {"uid": buffer.uid}, "status": _wire(status)})
        path = f"{object_path(BUFFERS_PATH, buffer.key)}/status"
        call = Call("PATCH", path, body=body, content_type="application/merge-patch+json", timeout_seconds=self._timeout)
        try:
            answer = await self._client.send(call)
        except KubeError as error:
            _log.warning("status of a capacity buffer not written", buffer=str(buffer.key), detail=str(error))
            return False
        if answer.status != _OK:
            words = answer.body[:300].decode(errors="replace")
            _log.warning("status of a capacity buffer not written", buffer=str(buffer.key), status=answer.status, detail=words)
        return answer.status == _OK


def stamped(before: BufferStatus, wanted: BufferStatus, now: str) -> BufferStatus:
    """The wanted status with transition times; conditions that others own are kept."""
    known = {condition.type: condition for condition in before.conditions}
    ours = [_timed(condition, known.get(condition.type), now) for condition in wanted.conditions]
    types = {condition.type for condition in ours}
    others = [condition for condition in before.conditions if condition.type not in types]
    order = {condition.type: at for at, condition in enumerate(before.conditions)}
    conditions = sorted([*others, *ours], key=lambda condition: order.get(condition.type, len(order)))
    return replace(wanted, conditions=tuple(conditions))


def _timed(condition: Condition, known: Condition | None, now: str) -> Condition:
    same = known is not None and known.status == condition.status
    return replace(condition, changed_at=known.changed_at if known is not None and same else now)


def _wire(status: BufferStatus) -> dict[str, Any]:
    """The status as a merge patch: null removes a field."""
    return {
        "podTemplateRef": None if status.template is None else {"name": status.template},
        "podTemplateGeneration": status.template_generation,
        "replicas": status.replicas,
        "provisioningStrategy": status.strategy,
        "conditions": [
            {
                "type": each.type,
                "status": each.status,
                "reason": each.reason,
                "message": each.message,
                "lastTransitionTime": each.changed_at,
            }
            for each in status.conditions
        ],
    }
