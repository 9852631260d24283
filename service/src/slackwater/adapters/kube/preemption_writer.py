"""The writes of a preemption, one attempt each: a victim's condition and its deletion.

First the condition DisruptionTarget by a patch of the status, so that its controller knows a disruption from a failure, then
a DELETE with the UID as precondition; not the Eviction API, which would overwrite the condition and be held up by budgets
that the choice has weighed. A victim that is gone, or has a successor of its name, is success. Both may be repeated.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from http import HTTPStatus
from typing import Final

from slackwater.adapters.kube.answers import outcome_of
from slackwater.adapters.kube.client import Response
from slackwater.adapters.kube.objectpath import object_path
from slackwater.adapters.kube.resource_type import PODS_PATH
from slackwater.adapters.kube.vertical_writer import STRATEGIC_PATCH, Send
from slackwater.model.effects import DeleteVictim
from slackwater.model.events import PodGone
from slackwater.model.ids import PodKey, PodUid
from slackwater.ports.protocols import Outcome

#: The answers where the UID is another one by now, or too many write at once.
_UNCERTAIN: Final = frozenset({HTTPStatus.CONFLICT, HTTPStatus.UNPROCESSABLE_ENTITY})

#: GETs a pod; its outcome's event tells what was found.
Read = Callable[[PodUid, PodKey, float], Awaitable[Outcome]]


class PreemptionWriter:
    """`now` answers the time as RFC 3339."""

    def __init__(self, send: Send, read: Read, *, now: Callable[[], str]) -> None:
        self._send = send
        self._read = read
        self._now = now

    async def delete_victim(self, effect: DeleteVictim, deadline: float) -> Outcome:
        """Raises `KubeError`."""
        path = object_path(PODS_PATH, effect.key)
        patch = {"metadata": {"uid": effect.uid}, "status": {"conditions": [self._condition(effect)]}}
        answer = await self._send("PATCH", f"{path}/status", patch, deadline, content_type=STRATEGIC_PATCH)
        outcome = await self._told(effect, answer, deadline)
        if outcome.verdict != "done" or outcome.event is not None:
            return outcome
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": effect.uid}}
        answer = await self._send("DELETE", path, body, deadline)
        return await self._told(effect, answer, deadline)

    def _condition(self, effect: DeleteVictim) -> dict[str, str]:
        return {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": f"slackwater: preempting to accommodate the higher priority pod {effect.preemptor}",
            "lastTransitionTime": self._now(),
        }

    async def _told(self, effect: DeleteVictim, answer: Response, deadline: float) -> Outcome:
        outcome = outcome_of(answer)
        if answer.status == HTTPStatus.NOT_FOUND:
            return Outcome("done", answer.status, event=PodGone(effect.uid, effect.key, read=True))
        if answer.status not in _UNCERTAIN:
            return outcome
        found = await self._read(effect.uid, effect.key, deadline)
        if isinstance(found.event, PodGone):
            return Outcome("done", answer.status, event=found.event)
        return replace(outcome, verdict="again") if answer.status == HTTPStatus.CONFLICT else outcome
