"""Carries out effects as API calls, one attempt each: implements `ports.protocols.Writer`.

Every write names the pod's UID, so that it never changes a successor of the same name, and every write may be repeated without
harm. The dispatcher repeats, orders and limits writes. Answers are interpreted by their status only, never by a text. Each kind
of effect has its writer.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import Any

import anyio

from slackwater.adapters.api_calls import MERGE_PATCH, STRATEGIC_PATCH, ApiPort, Response, ask
from slackwater.adapters.kube.client import CONDITION_FAILED, outcome_of, words_of
from slackwater.adapters.kube.decode import PodDecoder
from slackwater.adapters.kube.drain_writer import DrainWriter
from slackwater.adapters.kube.errors import UNREADABLE, KubeError, NoAnswer, NotLeading
from slackwater.adapters.kube.event_recorder import Recorder
from slackwater.adapters.kube.resource_type import PODS_PATH, object_path
from slackwater.adapters.kube.slices import read
from slackwater.adapters.kube.vertical_writer import Send, VerticalWriter
from slackwater.model.effects import (
    Activate,
    ApiEffect,
    Bind,
    DeleteVictim,
    DrainEffect,
    Nominate,
    OpenGate,
    PodEffect,
    ReadPod,
    VerticalEffect,
    WritePreempting,
)
from slackwater.model.events import BindEnded, BindOutcome, PodGone, PodRead
from slackwater.model.ids import PodKey, PodUid
from slackwater.model.objects import VICTIM_MESSAGE
from slackwater.ports.protocols import Outcome
from slackwater_protocol.names import GATE, PREEMPTING, TOUCHED


class PodWriter:
    """Carries out the effects of `model.effects.PodEffect` on single pods.

    `stamp` returns the time as RFC 3339, a different text at each call, so that each activation changes the pod.
    """

    def __init__(self, send: Send, decoder: PodDecoder, *, stamp: Callable[[], str]) -> None:
        self._send = send
        self._decoder = decoder
        self._stamp = stamp

    async def perform(self, effect: PodEffect, deadline: float) -> Outcome:
        """Carries out one effect, in one attempt. Raises `KubeError`."""
        match effect:
            case Bind():
                return await self._bind(effect, deadline)
            case ReadPod():
                return await self.read(effect.uid, effect.key, deadline)
            case DeleteVictim():
                return await self._delete_victim(effect, deadline)
            case _:
                return await self._patch(effect, deadline)

    async def _bind(self, effect: Bind, deadline: float) -> Outcome:
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": effect.key.name, "namespace": effect.key.namespace, "uid": effect.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": effect.node},
        }
        answer = await self._send("POST", f"{_path(effect.key)}/binding", body, deadline)
        if answer.status == HTTPStatus.NOT_FOUND:
            return _bind_ended(effect, "gone", answer)
        if answer.status == HTTPStatus.CONFLICT:
            return await self._why_not_bound(effect, answer, deadline)
        outcome = outcome_of(answer)
        if outcome.verdict == "done":
            return _bind_ended(effect, "bound", answer)
        return _bind_ended(effect, "refused", answer) if outcome.verdict == "refused" else outcome

    async def _why_not_bound(self, effect: Bind, answer: Response, deadline: float) -> Outcome:
        """Reads the pod after a 409: it is bound already (by a lost attempt of ours, or by others), or cannot be bound."""
        found = await self.read(effect.uid, effect.key, deadline)
        match found.event:
            case PodGone():
                return _bind_ended(effect, "gone", answer)
            case PodRead(pod) if pod.node == effect.node:
                return _bind_ended(effect, "bound", answer)
            case PodRead(pod) if pod.node is not None:
                return _bind_ended(effect, "elsewhere", answer)
            case PodRead():
                return _bind_ended(effect, "refused", answer)
            case _:
                return Outcome("again", found.code, found.detail, found.after_seconds)

    async def _delete_victim(self, effect: DeleteVictim, deadline: float) -> Outcome:
        """Marks a victim with the condition DisruptionTarget, then deletes it."""
        path = object_path(PODS_PATH, effect.key)
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": f"{VICTIM_MESSAGE}{effect.preemptor}",
            "lastTransitionTime": self._stamp(),
        }
        patch = {"metadata": {"uid": effect.uid}, "status": {"conditions": [condition]}}
        answer = await self._send("PATCH", f"{path}/status", patch, deadline, content_type=STRATEGIC_PATCH)
        outcome = await self._deletion_outcome(effect, answer, deadline)
        if outcome.verdict != "done" or outcome.event is not None:
            return outcome
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": effect.uid}}
        answer = await self._send("DELETE", path, body, deadline)
        return await self._deletion_outcome(effect, answer, deadline)

    async def _deletion_outcome(self, effect: DeleteVictim, answer: Response, deadline: float) -> Outcome:
        outcome = outcome_of(answer)
        if answer.status == HTTPStatus.NOT_FOUND:
            return Outcome("done", answer.status, event=PodGone(effect.uid, effect.key, read=True))
        if answer.status not in CONDITION_FAILED:
            return outcome
        found = await self.read(effect.uid, effect.key, deadline)
        if isinstance(found.event, PodGone):
            return Outcome("done", answer.status, event=found.event)
        return replace(outcome, verdict="again") if answer.status == HTTPStatus.CONFLICT else outcome

    async def _patch(self, effect: Activate | OpenGate | Nominate | WritePreempting, deadline: float) -> Outcome:
        meta: dict[str, Any] = {"uid": effect.uid}
        part, patch, kind = "", {"metadata": meta}, MERGE_PATCH
        match effect:
            case Nominate():
                part, patch["status"] = "/status", {"nominatedNodeName": effect.node}
            case WritePreempting():
                meta["annotations"] = {PREEMPTING: effect.text}
            case Activate() | OpenGate():
                meta["annotations"] = {TOUCHED: f"{effect.why} {self._stamp()}"}
        if isinstance(effect, OpenGate):
            kind, patch["spec"] = STRATEGIC_PATCH, {"schedulingGates": [{"$patch": "delete", "name": GATE}]}
        answer = await self._send("PATCH", _path(effect.key) + part, patch, deadline, content_type=kind)
        outcome = outcome_of(answer)
        if answer.status == HTTPStatus.NOT_FOUND:
            return Outcome("refused", answer.status, outcome.detail, event=PodGone(effect.uid, effect.key, read=True))
        if answer.status not in CONDITION_FAILED:
            return outcome
        # The UID did not match, the pod is bound by now, or too many wrote at once: reading the pod tells which.
        found = await self.read(effect.uid, effect.key, deadline)
        crowded = answer.status == HTTPStatus.CONFLICT and not isinstance(found.event, PodGone)
        return Outcome("again" if crowded else "refused", answer.status, outcome.detail, event=found.event)

    async def read(self, uid: PodUid, key: PodKey, deadline: float) -> Outcome:
        """Reads a pod. If it is gone, or another pod has its name, the outcome's event is `PodGone`. Raises `KubeError`."""
        answer = await self._send("GET", _path(key), None, deadline)
        if answer.status == HTTPStatus.NOT_FOUND:
            return Outcome("done", answer.status, event=PodGone(uid, key, read=True))
        outcome = outcome_of(answer)
        if outcome.verdict != "done":
            return outcome
        try:
            pod = await read(partial(self._decoder.decode, answer.body), [answer.body])
        except UNREADABLE as error:
            return Outcome("refused", answer.status, f"pod {key} cannot be read: {error}")
        return Outcome("done", answer.status, event=PodRead(pod) if pod.uid == uid else PodGone(uid, key, read=True))


def _path(key: PodKey) -> str:
    return object_path(PODS_PATH, key)


def _bind_ended(effect: Bind, outcome: BindOutcome, answer: Response) -> Outcome:
    detail = "" if outcome == "bound" else words_of(answer)
    event = BindEnded(effect.uid, effect.node, outcome, detail)
    return Outcome("done" if outcome == "bound" else "refused", answer.status, detail, event=event)


class ApiWriter:
    """Implements `ports.protocols.Writer`.

    `stamp` returns the time as RFC 3339, a different text at each call, so that each activation changes the pod.
    """

    def __init__(self, client: ApiPort, decoder: PodDecoder, recorder: Recorder, *, stamp: Callable[[], str]) -> None:
        self._client = client
        self._recorder = recorder
        self._pods = PodWriter(self._send, decoder, stamp=stamp)
        self._vertical = VerticalWriter(self._send)
        self._drains = DrainWriter(self._send, self._pods.read)

    async def perform(self, effect: ApiEffect, *, timeout_seconds: float | None) -> Outcome:
        """Carries out one effect, in one attempt. Error statuses and missing answers become outcomes; they are not raised."""
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
        if isinstance(effect, PodEffect):
            return await self._pods.perform(effect, deadline)
        if isinstance(effect, VerticalEffect):
            return await self._vertical.perform(effect, deadline)
        if isinstance(effect, DrainEffect):
            return await self._drains.perform(effect, deadline)
        return await self._recorder.announce(effect, timeout_seconds=deadline - anyio.current_time())

    async def _send(
        self, method: str, path: str, body: object, deadline: float, *, content_type: str = "application/json"
    ) -> Response:
        left = None if deadline == math.inf else max(deadline - anyio.current_time(), 0.0)
        return await ask(self._client, method, path, body, content_type=content_type, timeout_seconds=left)
