"""A conversation with an API server, call by call, to be held with any of them: what each answered, and what watches saw of it.

Values of earlier answers are put in where a call says `{{name.field}}`. Of an answer is kept what clients decide by: status,
reason, the reasons of its causes, and whether the object had a new version. Deliberately absent: texts, which are for people.
"""

import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

Json = dict[str, Any]
#: Method, path, body, content type, query; answers status and body.
Caller = Callable[[str, str, bytes | None, str, dict[str, str]], Awaitable[tuple[int, bytes]]]

MERGE: Final = "application/merge-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"
_HOLE: Final = re.compile(r"\{\{([^}]+)\}\}")
WATCHED: Final = (
    "/api/v1/namespaces/{ns}/pods",
    "/apis/policy/v1/namespaces/{ns}/poddisruptionbudgets",
    "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases",
)


@dataclass(frozen=True, slots=True)
class Call:
    """One step. `save`: the answer's object is known by this name from then on."""

    says: str
    method: str
    path: str
    body: Any = None
    content_type: str = "application/json"
    save: str = ""
    query: dict[str, str] = field(default_factory=dict)
    shows: tuple[str, ...] = ()  #: parts of the answered object that are compared too


@dataclass
class Conversation:
    """Held in one namespace. `saved` are objects by name."""

    call: Caller
    namespace: str
    saved: dict[str, Json] = field(default_factory=dict)

    async def hold(self, calls: tuple[Call, ...]) -> list[Json]:
        """What came of each call."""
        return [await self._make(call) for call in calls]

    async def hold_in_a_zone(self) -> list[Json]:
        """What came of `IN_A_ZONE`, without versions: the node's kubelet changes the pod, too."""
        return [{name: part for name, part in came.items() if name != "version"} for came in await self.hold(IN_A_ZONE)]

    async def _make(self, call: Call) -> Json:
        path = self._filled(call.path)
        body = None if call.body is None else self._filled(json.dumps(call.body)).encode()
        before = await self._version(path)
        status, answer = await self.call(call.method, path, body, call.content_type, call.query)
        found = _object(answer)
        came: Json = {"says": call.says, "status": status}
        if found.get("kind") == "Status":
            causes = (found.get("details") or {}).get("causes") or ()
            came |= {"reason": found.get("reason", ""), "causes": sorted({c.get("reason", "") for c in causes})}
        if call.save and status < 300:
            self.saved[call.save] = found
        after = await self._version(path)
        came["version"] = "none" if after is None else "new" if after != before else "same"
        for part in call.shows:
            came[part] = _at(found, part)
        return came

    async def _version(self, path: str) -> str | None:
        """Of the object that the path is about."""
        owner = re.sub(r"/(binding|eviction|status|resize)$", "", path)
        if owner.rpartition("/")[2] in {"pods", "poddisruptionbudgets", "leases"}:
            return None
        status, answer = await self.call("GET", owner, None, "application/json", {})
        return str(json.loads(answer)["metadata"]["resourceVersion"]) if status == 200 else None

    def _filled(self, text: str) -> str:
        return _HOLE.sub(lambda hole: self._value(hole[1]), text)

    def _value(self, hole: str) -> str:
        if hole == "ns":
            return self.namespace
        name, _, path = hole.partition(".")
        return str(_at(self.saved[name], path))


def _object(answer: bytes) -> Json:
    """Some refusals are plain text."""
    try:
        return dict(json.loads(answer))
    except ValueError:
        return {"kind": "text"}


def _at(found: Any, path: str) -> Any:
    for step in path.split("."):
        found = found.get(step) if isinstance(found, dict) else None
    return found


_PODS: Final = "/api/v1/namespaces/{{ns}}/pods"
_BUDGETS: Final = "/apis/policy/v1/namespaces/{{ns}}/poddisruptionbudgets"
_LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces/{{ns}}/leases"


def _pod(name: str, **spec: Any) -> Json:
    requests = {"cpu": "100m", "memory": "64Mi"}
    container = {"name": "c", "image": "example/i", "resources": {"requests": requests, "limits": requests}}
    return {
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"schedulerName": "nobody", "containers": [container], **spec},
    }


def _binding(name: str, node: str, uid: str | None = None) -> Json:
    meta = {"name": name} if uid is None else {"name": name, "uid": uid}
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": target}


def _eviction(name: str, uid: str) -> Json:
    options = {"preconditions": {"uid": uid}}
    return {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}, "deleteOptions": options}


def _delete_options(uid: str, grace: int | None = None) -> Json:
    more = {} if grace is None else {"gracePeriodSeconds": grace}
    return {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}, **more}


_A: Final = f"{_PODS}/a"
_B: Final = f"{_PODS}/b"
_TOUCH: Final = {"annotations": {"slackwater.dev/touched": "now"}}
_UID_TEST: Final = {"op": "test", "path": "/metadata/uid", "value": "{{a.metadata.uid}}"}
_PERMIT: Final = "/metadata/annotations/slackwater.dev~1permit"
_LIMITS: Final = {"cpu": "200m", "memory": "64Mi"}
_SHRUNK: Final = {"cpu": "150m", "memory": "64Mi"}


def _resize(amounts: Json, limits: Json | None) -> Json:
    resources = {"requests": amounts} if limits is None else {"requests": amounts, "limits": limits}
    return {"spec": {"containers": [{"name": "c", "resources": resources}]}}


_ZONED: Final = {"topology.kubernetes.io/zone": "z", "topology.kubernetes.io/region": "r", "example.com/other": "o"}
_E: Final = f"{_PODS}/e"

SCRIPT: Final = (
    # First: the real one's admission sees the node a moment later.
    Call("a node in a zone", "POST", "/api/v1/nodes", {"metadata": {"name": "zoned-{{ns}}", "labels": _ZONED}}),
    Call("a pod is made", "POST", _PODS, _pod("a"), save="a", shows=("status.phase", "status.qosClass", "spec.restartPolicy")),
    Call("a name is given once", "POST", _PODS, _pod("a")),
    Call("a pod needs containers", "POST", _PODS, {"metadata": {"name": "none"}, "spec": {"containers": []}}),
    Call("what is not there is not found", "GET", f"{_PODS}/nobody"),
    Call("a type that nobody knows", "GET", "/apis/no.such/v1/things"),
    Call("a touch", "PATCH", _A, {"metadata": {"uid": "{{a.metadata.uid}}", **_TOUCH}}, MERGE),
    Call("the same touch again changes nothing", "PATCH", _A, {"metadata": _TOUCH}, MERGE),
    Call("a touch of another of that name", "PATCH", _A, {"metadata": {"uid": "other", "annotations": {"x": "y"}}}, MERGE),
    Call("a touch under an old version", "PATCH", _A, {"metadata": {"resourceVersion": "1", "annotations": {"x": "y"}}}, MERGE),
    Call("a patch that is no JSON", "PATCH", _A, "no object", MERGE),
    Call("a patch of an unknown type", "PATCH", _A, {}, "application/x"),
    Call("a touch of a pod that is not there", "PATCH", f"{_PODS}/nobody", {"metadata": _TOUCH}, MERGE),
    Call("a spec does not change", "PATCH", _A, {"spec": {"schedulerName": "somebody"}}, MERGE),
    Call(
        "status is not written through the pod",
        "PATCH",
        _A,
        {"status": {"nominatedNodeName": "n"}},
        MERGE,
        shows=("status.nominatedNodeName",),
    ),
    Call(
        "a nomination",
        "PATCH",
        f"{_A}/status",
        {"metadata": {"uid": "{{a.metadata.uid}}"}, "status": {"nominatedNodeName": "n"}},
        MERGE,
        shows=("status.nominatedNodeName",),
    ),
    Call(
        "spec is not written through the status",
        "PATCH",
        f"{_A}/status",
        {"spec": {"nodeName": "n"}},
        MERGE,
        shows=("spec.nodeName",),
    ),
    Call(
        "a condition is added",
        "PATCH",
        f"{_A}/status",
        {"status": {"conditions": [{"type": "DisruptionTarget", "status": "True"}]}},
        STRATEGIC,
    ),
    Call("a permit where there is none", "PATCH", _A, [_UID_TEST, {"op": "test", "path": _PERMIT, "value": "x"}], JSON_PATCH),
    Call("a first permit", "PATCH", _A, {"metadata": {"annotations": {"slackwater.dev/permit": "one"}}}, MERGE),
    Call(
        "a permit after the text that is there",
        "PATCH",
        _A,
        [_UID_TEST, {"op": "test", "path": _PERMIT, "value": "one"}, {"op": "replace", "path": _PERMIT, "value": "two"}],
        JSON_PATCH,
    ),
    Call(
        "a permit after another text",
        "PATCH",
        _A,
        [_UID_TEST, {"op": "test", "path": _PERMIT, "value": "one"}, {"op": "replace", "path": _PERMIT, "value": "three"}],
        JSON_PATCH,
    ),
    Call("a bind of another of that name", "POST", f"{_A}/binding", _binding("a", "nowhere", "other")),
    Call("a bind", "POST", f"{_A}/binding", _binding("a", "nowhere", "{{a.metadata.uid}}")),
    Call("it is bound, and nominated no more", "GET", _A, shows=("spec.nodeName", "status.nominatedNodeName")),
    Call("a second bind", "POST", f"{_A}/binding", _binding("a", "nowhere", "{{a.metadata.uid}}")),
    Call("a nomination of a bound pod", "PATCH", f"{_A}/status", {"status": {"nominatedNodeName": "m"}}, MERGE),
    Call("a bind of a pod that is not there", "POST", f"{_PODS}/nobody/binding", _binding("nobody", "nowhere")),
    Call("a resize that no kubelet could carry out", "PATCH", f"{_A}/resize", _resize(_LIMITS, _LIMITS), STRATEGIC),
    Call("a resize that would change the class", "PATCH", f"{_A}/resize", _resize(_SHRUNK, None), STRATEGIC),
    Call(
        "a resize of another container",
        "PATCH",
        f"{_A}/resize",
        {"spec": {"containers": [{"name": "d", "image": "i"}]}},
        STRATEGIC,
    ),
    Call("a gated pod", "POST", _PODS, _pod("b", schedulingGates=[{"name": "example.com/wait"}]), save="b"),
    Call("a bind of a gated pod", "POST", f"{_B}/binding", _binding("b", "nowhere")),
    Call("a gate is not added", "PATCH", _B, {"spec": {"schedulingGates": [{"name": "example.com/more"}]}}, STRATEGIC),
    Call(
        "the gate goes",
        "PATCH",
        _B,
        {"spec": {"schedulingGates": [{"$patch": "delete", "name": "example.com/wait"}]}},
        STRATEGIC,
        shows=("spec.schedulingGates",),
    ),
    Call("now it may be bound", "POST", f"{_B}/binding", _binding("b", "nowhere")),
    Call(
        "a budget",
        "POST",
        _BUDGETS,
        {"metadata": {"name": "p"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}}},
        save="p",
    ),
    Call(
        "the pod runs",
        "PATCH",
        f"{_A}/status",
        {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}},
        STRATEGIC,
    ),
    Call("a budget that nobody has counted yet", "POST", f"{_A}/eviction", _eviction("a", "{{a.metadata.uid}}")),
    Call(
        "it is counted: none is allowed",
        "PATCH",
        f"{_BUDGETS}/p/status",
        {
            "status": {
                "observedGeneration": 1,
                "disruptionsAllowed": 0,
                "currentHealthy": 1,
                "desiredHealthy": 1,
                "expectedPods": 1,
            }
        },
        MERGE,
    ),
    Call("an eviction beyond the budget", "POST", f"{_A}/eviction", _eviction("a", "{{a.metadata.uid}}")),
    Call("one is allowed", "PATCH", f"{_BUDGETS}/p/status", {"status": {"disruptionsAllowed": 1}}, MERGE),
    Call("an eviction of another of that name", "POST", f"{_A}/eviction", _eviction("a", "other")),
    Call(
        "one is allowed again",
        "PATCH",
        f"{_BUDGETS}/p/status",
        {"status": {"disruptionsAllowed": 1, "disruptedPods": None}},
        MERGE,
    ),
    Call("an eviction within the budget", "POST", f"{_A}/eviction", _eviction("a", "{{a.metadata.uid}}")),
    Call("the budget is spent", "GET", f"{_BUDGETS}/p", shows=("status.disruptionsAllowed",)),
    Call("the pod is leaving", "GET", _A, shows=("metadata.deletionGracePeriodSeconds",)),
    Call("a leaving pod may be touched", "PATCH", _A, {"metadata": {"annotations": {"x": "z"}}}, MERGE),
    Call("an eviction of a pod that leaves", "POST", f"{_A}/eviction", _eviction("a", "{{a.metadata.uid}}")),
    Call("a deletion of another of that name", "DELETE", _A, _delete_options("other")),
    Call("a deletion by force", "DELETE", _A, _delete_options("{{a.metadata.uid}}", 0)),
    Call("a deletion of what is gone", "DELETE", _A, _delete_options("{{a.metadata.uid}}", 0)),
    Call("an eviction of what is gone", "POST", f"{_A}/eviction", _eviction("a", "{{a.metadata.uid}}")),
    Call(
        "a bound pod leaves with grace",
        "DELETE",
        _B,
        _delete_options("{{b.metadata.uid}}"),
        shows=("metadata.deletionGracePeriodSeconds",),
    ),
    Call("it is deleted already", "DELETE", _B, _delete_options("{{b.metadata.uid}}")),
    Call("and goes by force", "DELETE", _B, _delete_options("{{b.metadata.uid}}", 0)),
    Call("a pod that was never bound", "POST", _PODS, _pod("c"), save="c"),
    Call("goes at once", "DELETE", f"{_PODS}/c", _delete_options("{{c.metadata.uid}}")),
    Call(
        "a lease",
        "POST",
        _LEASES,
        {"metadata": {"name": "l"}, "spec": {"holderIdentity": "me", "leaseDurationSeconds": 15}},
        save="l",
    ),
    Call(
        "is renewed",
        "PUT",
        f"{_LEASES}/l",
        {
            "metadata": {"name": "l", "resourceVersion": "{{l.metadata.resourceVersion}}"},
            "spec": {"holderIdentity": "me", "leaseDurationSeconds": 20},
        },
    ),
    Call(
        "but not under its old version",
        "PUT",
        f"{_LEASES}/l",
        {"metadata": {"name": "l", "resourceVersion": "{{l.metadata.resourceVersion}}"}, "spec": {"holderIdentity": "you"}},
    ),
    Call(
        "a deletion under an old version",
        "DELETE",
        f"{_LEASES}/l",
        {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"resourceVersion": "{{l.metadata.resourceVersion}}"}},
    ),
    Call("a lease goes at once", "DELETE", f"{_LEASES}/l"),
    Call("the budget goes", "DELETE", f"{_BUDGETS}/p"),
)

#: Held when the watches have ended: the node's kubelet may change its pod meanwhile.
IN_A_ZONE: Final = (
    Call("a pod for the node in a zone", "POST", _PODS, _pod("e"), save="e"),
    Call("a bind in a zone", "POST", f"{_E}/binding", _binding("e", "zoned-{{ns}}")),
    Call("the zone is a label of the pod now", "GET", _E, shows=("metadata.labels",)),
    Call("the pod in a zone goes by force", "DELETE", _E, _delete_options("{{e.metadata.uid}}", 0)),
    Call("and its node", "DELETE", "/api/v1/nodes/zoned-{{ns}}"),
)


def seen(lines: list[bytes]) -> list[str]:
    """What a watch told: type and name of each line, without bookmarks."""
    found = [json.loads(line) for line in lines]
    return [f"{line['type']} {line['object']['metadata']['name']}" for line in found if line["type"] != "BOOKMARK"]
