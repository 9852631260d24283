"""Effects as API calls: `run.ports.Writer` against a real API server, one attempt each.

Every write names the pod's UID as well, so that it never meets a successor of the same name, and every one may be repeated
without harm; repeating, ordering and width are the dispatcher's. What the server's answers mean is read from the status
alone, never from a text; where it says less than is to be known, the pod is read (409 on a bind, 409 and 422 on a patch).
"""

import math
from collections.abc import Callable
from typing import Final

import anyio
import msgspec

from slackwater.edge.kube.answers import outcome_of, words_of
from slackwater.edge.kube.client import ApiPort, Response
from slackwater.edge.kube.decode import PodDecoder
from slackwater.edge.kube.drain_writer import DrainWriter
from slackwater.edge.kube.errors import UNREADABLE, KubeError, NoAnswer, NotLeading
from slackwater.edge.kube.objectpath import object_path
from slackwater.edge.kube.preemption_writer import PreemptionWriter
from slackwater.edge.kube.recorder import Recorder
from slackwater.edge.kube.resource_type import PODS_PATH
from slackwater.edge.kube.vertical_writer import MERGE_PATCH, STRATEGIC_PATCH, VerticalWriter
from slackwater.model.effects import (
    Announce,
    Bind,
    CreateMigration,
    DeleteMigration,
    DeleteVictim,
    Effect,
    Evict,
    MarkNode,
    Nominate,
    OpenGate,
    ReadPod,
    Resize,
    Steer,
    Touch,
    UnmarkNode,
    WritePermit,
    WritePreempting,
)
from slackwater.model.events import BindEnded, BindOutcome, PodGone, PodRead
from slackwater.model.ids import PodKey, PodUid
from slackwater.run.ports import Outcome
from slackwater_protocol.names import GATE, PREEMPTING, TOUCHED

_CONFLICT: Final = 409
_NOT_FOUND: Final = 404
_UNPROCESSABLE: Final = 422


class ApiWriter:
    """Implements `run.ports.Writer`. `stamp` answers the time as RFC 3339, another text each time: it makes each touch of a
    pod a change."""

    def __init__(self, client: ApiPort, decoder: PodDecoder, recorder: Recorder, *, stamp: Callable[[], str]) -> None:
        self._client = client
        self._decoder = decoder
        self._recorder = recorder
        self._stamp = stamp
        self._vertical = VerticalWriter(self._send)
        self._preemption = PreemptionWriter(self._send, self._read, now=stamp)
        self._drains = DrainWriter(self._send, self._read)

    async def perform(self, effect: Effect, *, timeout_seconds: float | None) -> Outcome:
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

    async def _carry_out(self, effect: Effect, deadline: float) -> Outcome:  # noqa: C901, PLR0911  # one case for each effect
        match effect:
            case Bind():
                return await self._bind(effect, deadline)
            case Touch():
                annotations = {TOUCHED: f"{effect.why} {self._stamp()}"}
                patch = {"metadata": {"uid": effect.uid, "annotations": annotations}}
                return await self._patch(effect, "", patch, deadline)
            case OpenGate():
                return await self._open_gate(effect, deadline)
            case Nominate():
                patch = {"metadata": {"uid": effect.uid}, "status": {"nominatedNodeName": effect.node}}
                return await self._patch(effect, "/status", patch, deadline)
            case Steer():
                return await self._steer(effect, deadline)
            case WritePreempting():
                patch = {"metadata": {"uid": effect.uid, "annotations": {PREEMPTING: effect.text}}}
                return await self._patch(effect, "", patch, deadline)
            case DeleteVictim():
                return await self._preemption.delete_victim(effect, deadline)
            case ReadPod():
                return await self._read(effect.uid, effect.key, deadline)
            case WritePermit() | Resize() | CreateMigration() | DeleteMigration():
                return await self._vertical.perform(effect, deadline)
            case MarkNode() | UnmarkNode() | Evict():
                return await self._drains.perform(effect, deadline)
            case Announce():
                return await self._recorder.announce(effect, timeout_seconds=deadline - anyio.current_time())

    async def _open_gate(self, effect: OpenGate, deadline: float) -> Outcome:
        meta = {"uid": effect.uid, "annotations": {TOUCHED: f"{effect.why} {self._stamp()}"}}
        opened = {"metadata": meta, "spec": {"schedulingGates": [{"$patch": "delete", "name": GATE}]}}
        return await self._patch(effect, "", opened, deadline, content_type=STRATEGIC_PATCH)

    async def _steer(self, effect: Steer, deadline: float) -> Outcome:
        """The nomination first, then the gate: kube-scheduler sees the pod with both or with neither. What the first request
        is refused for is not looked into: somebody else was quicker, and the watch tells who."""
        meta = {"uid": effect.uid, "resourceVersion": str(effect.version)}
        patch = {"metadata": meta, "status": {"nominatedNodeName": effect.node}}
        answer = await self._send("PATCH", f"{pod_path(effect.key)}/status", patch, deadline, content_type=MERGE_PATCH)
        outcome = outcome_of(answer)
        if outcome.verdict != "done" or not effect.opens:
            return outcome
        return await self._open_gate(OpenGate(effect.uid, effect.key, "steered"), deadline)

    async def _bind(self, effect: Bind, deadline: float) -> Outcome:
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": effect.key.name, "namespace": effect.key.namespace, "uid": effect.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": effect.node},
        }
        answer = await self._send("POST", f"{pod_path(effect.key)}/binding", body, deadline)
        if answer.status == _NOT_FOUND:
            return _bind_ended(effect, "gone", answer)
        if answer.status == _CONFLICT:
            return await self._why_not_bound(effect, answer, deadline)
        outcome = outcome_of(answer)
        if outcome.verdict == "done":
            return _bind_ended(effect, "bound", answer)
        return _bind_ended(effect, "refused", answer) if outcome.verdict == "refused" else outcome

    async def _why_not_bound(self, effect: Bind, answer: Response, deadline: float) -> Outcome:
        """After a 409: bound already (by an attempt that we took for lost, or by another), or not to be bound."""
        found = await self._read(effect.uid, effect.key, deadline)
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

    async def _patch(
        self,
        effect: Touch | OpenGate | Nominate | WritePreempting,
        part: str,
        patch: object,
        deadline: float,
        *,
        content_type: str = MERGE_PATCH,
    ) -> Outcome:
        answer = await self._send("PATCH", pod_path(effect.key) + part, patch, deadline, content_type=content_type)
        outcome = outcome_of(answer)
        if answer.status == _NOT_FOUND:
            return Outcome("refused", answer.status, outcome.detail, event=PodGone(effect.uid, effect.key, read=True))
        if answer.status not in {_CONFLICT, _UNPROCESSABLE}:
            return outcome
        # The UID did not match, the pod is bound by now, or too many wrote at once: the pod itself tells.
        found = await self._read(effect.uid, effect.key, deadline)
        crowded = answer.status == _CONFLICT and not isinstance(found.event, PodGone)
        return Outcome("again" if crowded else "refused", answer.status, outcome.detail, event=found.event)

    async def _read(self, uid: PodUid, key: PodKey, deadline: float) -> Outcome:
        answer = await self._send("GET", pod_path(key), None, deadline)
        if answer.status == _NOT_FOUND:
            return Outcome("done", answer.status, event=PodGone(uid, key, read=True))
        outcome = outcome_of(answer)
        if outcome.verdict != "done":
            return outcome
        try:
            pod = self._decoder.decode(answer.body)
        except UNREADABLE as error:
            return Outcome("refused", answer.status, f"pod {key} cannot be read: {error}")
        return Outcome("done", answer.status, event=PodRead(pod) if pod.uid == uid else PodGone(uid, key, read=True))

    async def _send(
        self, method: str, path: str, body: object, deadline: float, *, content_type: str = "application/json"
    ) -> Response:
        return await self._client.request(
            method,
            path,
            body=None if body is None else msgspec.json.encode(body),
            content_type=content_type,
            timeout_seconds=None if deadline == math.inf else max(deadline - anyio.current_time(), 0.0),
        )


def pod_path(key: PodKey) -> str:
    return object_path(PODS_PATH, key)


def _bind_ended(effect: Bind, outcome: BindOutcome, answer: Response) -> Outcome:
    detail = "" if outcome == "bound" else words_of(answer)
    event = BindEnded(effect.uid, effect.node, outcome, detail)
    return Outcome("done" if outcome == "bound" else "refused", answer.status, detail, event=event)
