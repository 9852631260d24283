"""Writes of a node's removal, one attempt each: adding and removing its taint, and evicting its pods.

A patch replaces the list of taints as a whole. So the node is read first, and the patch names the version that was read.
Evictions use the Eviction API, which checks disruption budgets; evictions and forced deletions name the UID. All writes may be
repeated: success includes a taint that is already there or already removed, and a pod that is gone or has a successor.
"""

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote

import msgspec

from slackwater.adapters.api_calls import MERGE_PATCH, Response
from slackwater.adapters.api_objects import ObjectDecoder, ObjectMetaWire
from slackwater.adapters.kube.client import outcome_of
from slackwater.adapters.kube.resource_type import PODS_PATH, object_path
from slackwater.adapters.kube.vertical_writer import Send
from slackwater.model.effects import Evict, MarkNode, UnmarkNode
from slackwater.model.events import EvictionEnded, PodGone
from slackwater.model.ids import PodKey, PodUid
from slackwater.ports.protocols import Outcome
from slackwater_protocol.names import CORDONED

#: GETs a pod; the outcome's event says what was found.
Read = Callable[[PodUid, PodKey, float], Awaitable[Outcome]]
#: The cause in an answer of the Eviction API if a budget allows no disruption, as opposed to an overloaded server.
_BUDGET_CAUSE: Final = "DisruptionBudget"


class _TaintedSpec(msgspec.Struct):
    taints: list[dict[str, Any]] | None = None
    unschedulable: bool = False


class _NodeNow(msgspec.Struct):
    """A node as read just now, with all fields of its taints, including those that others wrote."""

    metadata: ObjectMetaWire
    spec: _TaintedSpec = msgspec.field(default_factory=_TaintedSpec)


class _Cause(msgspec.Struct):
    reason: str = ""


class _Details(msgspec.Struct):
    causes: list[_Cause] | None = None


class _RefusalWire(msgspec.Struct):
    details: _Details | None = None


_NODE: Final = ObjectDecoder(_NodeNow)
_STATUS: Final = ObjectDecoder(_RefusalWire)


class DrainWriter:
    """Carries out the effects of a node's removal on the node and on its pods."""

    def __init__(self, send: Send, read: Read) -> None:
        self._send = send
        self._read = read

    async def perform(self, effect: MarkNode | UnmarkNode | Evict, deadline: float) -> Outcome:
        """Carries out one effect, in one attempt. Raises `KubeError`."""
        if isinstance(effect, Evict):
            return await self._evict(effect, deadline)
        path = f"/api/v1/nodes/{quote(effect.name, safe='')}"
        answer = await self._send("GET", path, None, deadline)
        outcome = outcome_of(answer)
        if outcome.verdict != "done":
            gone = answer.status == HTTPStatus.NOT_FOUND and isinstance(effect, UnmarkNode)
            return Outcome("done", answer.status) if gone else outcome
        node = _NODE.decode(answer.body)
        if node.metadata.uid != effect.uid:
            detail = f"node {effect.name}: uid {node.metadata.uid}, want {effect.uid}"
            return Outcome("done" if isinstance(effect, UnmarkNode) else "refused", detail=detail)
        patch = _marked(node, effect) if isinstance(effect, MarkNode) else _unmarked(node, effect)
        if patch is None:
            return Outcome("done", answer.status)
        patch["metadata"] = {
            **patch.get("metadata", {}),
            "uid": effect.uid,
            "resourceVersion": node.metadata.resource_version,
        }
        answer = await self._send("PATCH", path, patch, deadline, content_type=MERGE_PATCH)
        outcome = outcome_of(answer)
        conflict = answer.status == HTTPStatus.CONFLICT
        return Outcome("again", answer.status, outcome.detail) if conflict else outcome

    async def _evict(self, effect: Evict, deadline: float) -> Outcome:
        path = object_path(PODS_PATH, effect.key)
        options: dict[str, Any] = {"preconditions": {"uid": effect.uid}}
        if effect.grace_seconds is not None:
            options["gracePeriodSeconds"] = effect.grace_seconds
        if effect.force:
            body = {"apiVersion": "v1", "kind": "DeleteOptions", **options}
            answer = await self._send("DELETE", path, body, deadline)
        else:
            meta = {"name": effect.key.name, "namespace": effect.key.namespace}
            body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta, "deleteOptions": options}
            answer = await self._send("POST", f"{path}/eviction", body, deadline)
        outcome = outcome_of(answer)
        if answer.status == HTTPStatus.NOT_FOUND:
            return Outcome("done", answer.status, event=PodGone(effect.uid, effect.key, read=True))
        if answer.status == HTTPStatus.TOO_MANY_REQUESTS and _by_budget(answer):
            blocked = EvictionEnded(effect.uid, effect.node, "blocked", outcome.detail)
            return Outcome("refused", answer.status, outcome.detail, event=blocked)
        if answer.status == HTTPStatus.CONFLICT:
            found = await self._read(effect.uid, effect.key, deadline)
            if isinstance(found.event, PodGone):
                return Outcome("done", answer.status, event=found.event)
            return Outcome("again", answer.status, outcome.detail)
        return outcome


def _marked(node: _NodeNow, effect: MarkNode) -> dict[str, Any] | None:
    """The patch that adds the taint, and the cordon if wanted; None if the node has both already."""
    taint = {"key": effect.taint.key, "value": effect.taint.value, "effect": effect.taint.effect}
    taints = node.spec.taints or []
    there = any(taint.items() <= known.items() for known in taints)
    if there and (node.spec.unschedulable or not effect.cordon):
        return None
    spec: dict[str, Any] = {"taints": [*(known for known in taints if known.get("key") != effect.taint.key), taint]}
    if not effect.cordon or node.spec.unschedulable:
        return {"spec": spec}
    return {"metadata": {"annotations": {CORDONED: "true"}}, "spec": {**spec, "unschedulable": True}}


def _unmarked(node: _NodeNow, effect: UnmarkNode) -> dict[str, Any] | None:
    taints = node.spec.taints or []
    left = [known for known in taints if known.get("key") != effect.taint_key]
    cordoned = effect.uncordon and CORDONED in (node.metadata.annotations or {})
    if len(left) == len(taints) and not cordoned:
        return None
    patch: dict[str, Any] = {"spec": {"taints": left or None}}
    if cordoned:
        patch = {"metadata": {"annotations": {CORDONED: None}}, "spec": {**patch["spec"], "unschedulable": None}}
    return patch


def _by_budget(answer: Response) -> bool:
    try:
        details = _STATUS.decode(answer.body).details
    except msgspec.DecodeError:
        return False
    return details is not None and any(cause.reason == _BUDGET_CAUSE for cause in details.causes or ())
