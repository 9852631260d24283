"""What the service does to the cluster, judged as it is done: the laws about single writes."""

from collections.abc import Callable
from typing import Final

import msgspec

from slackwater.edge.sandbox.faults import Fault, Json
from slackwater.edge.sandbox.kinds import BUDGETS, NODES, PODS, target_of
from slackwater.edge.sandbox.selectors import selects
from slackwater.edge.sandbox.server import ApiServer
from tests.faults.laws import Broken
from tests.faults.truth import Truth

_OURS: Final = "PreemptionByScheduler"


def judge(server: ApiServer, truth: Truth, method: str, path: str, raw: bytes | None) -> Callable[[], None] | None:
    """Looks at what is there before the write; what it returns is asked where the write succeeded. Raises `Broken` then."""
    try:
        target = target_of(path)
    except Fault:
        return None
    stored = server.store.find(target.kind, (target.namespace, target.name))
    if stored is None:
        return None
    there, body = stored.body, msgspec.json.decode(raw) if raw else None
    wanted = _wanted_uid(body)
    if wanted is not None and wanted != there["metadata"]["uid"]:
        return _breaks("S8", f"{method} {path} was meant for {wanted}, and met {there['metadata']['uid']}")
    if method == "DELETE" and target.kind is NODES:
        left = sorted(p.name for p in truth.placed.values() if p.node == target.name and _stays(server, p.namespace, p.name))
        return _breaks("S7", f"node {target.name} was deleted with pods {left}") if left else None
    if method == "DELETE" and target.kind is PODS and not _is_victim(there) and (budget := _spent(server, there)):
        return _breaks("S5", f"pod {target.name} was deleted past budget {budget}")
    return None


def _breaks(law: str, what: str) -> Callable[[], None]:
    def check() -> None:
        raise Broken(law, what)

    return check


def _wanted_uid(body: object) -> str | None:
    """The UID that a write names, wherever its kind of write does."""
    if isinstance(body, list):
        return next((str(step["value"]) for step in body if step.get("path") == "/metadata/uid"), None)
    if not isinstance(body, dict):
        return None
    options = body.get("deleteOptions") or body
    for place in (options.get("preconditions"), body.get("metadata")):
        if isinstance(place, dict) and place.get("uid"):
            return str(place["uid"])
    return None


def _stays(server: ApiServer, namespace: str, name: str) -> bool:
    stored = server.store.find(PODS, (namespace, name))
    return stored is not None and "deletionTimestamp" not in stored.body["metadata"]


def _is_victim(pod: Json) -> bool:
    return any(c.get("reason") == _OURS for c in pod["status"].get("conditions") or ())


def _spent(server: ApiServer, pod: Json) -> str:
    """The name of a budget that covers the pod and allows no disruption; empty where there is none."""
    meta = pod["metadata"]
    if "deletionTimestamp" in meta or pod["status"].get("phase") != "Running":
        return ""
    for stored in server.store.all(BUDGETS, meta["namespace"]):
        covers = selects(stored.body["spec"].get("selector"), meta.get("labels") or {})
        if covers and not (stored.body.get("status") or {}).get("disruptionsAllowed"):
            return str(stored.body["metadata"]["name"])
    return ""
