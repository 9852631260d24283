"""What the service does to the cluster, judged as it is done: the laws about single writes."""

from collections.abc import Callable
from typing import Final

import msgspec

from slackwater.sandbox.embedded.agents import UNIT_CPU, UNIT_MEMORY
from slackwater.sandbox.embedded.faults import Fault, Json
from slackwater.sandbox.embedded.kinds import BUDGETS, MACHINES, NODES, PODS, selects, target_of
from slackwater.sandbox.embedded.server import ApiServer
from slackwater_protocol.names import PERMIT
from slackwater_protocol.units import byte_count, milli_cpu
from tests.faults.laws import Broken
from tests.faults.truth import Truth

_MACHINE: Final = "vm.neon.tech/name"
#: The version of the agents' protocol that counts memory in slots, here of 1 GiB.
_SLOTS: Final = 5
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


def judge_permit(server: ApiServer, request: bytes, answer: bytes) -> None:
    """S1, for the life to come: what an agent is told stands on record, or it had that already. Raises `Broken`.

    Where nothing is on record for this pod, a restart reserves the most that it may have.
    """
    asked, permit = msgspec.json.decode(request), msgspec.json.decode(answer)["permit"]
    pod = server.store.find(PODS, (asked["pod"]["namespace"], asked["pod"]["name"]))
    name = "" if pod is None else (pod.body["metadata"].get("labels") or {}).get(_MACHINE, "")
    machine = server.store.find(MACHINES, (asked["pod"]["namespace"], name))
    if pod is None or machine is None:
        return
    text = (machine.body["metadata"].get("annotations") or {}).get(PERMIT)
    record = None if text is None else msgspec.json.decode(text)
    if record is None or record.get("pod") != pod.body["metadata"]["uid"]:
        return
    slots = asked["protoVersion"] == _SLOTS
    reported, had = _amounts(permit, slots=slots), _amounts(asked.get("lastPermit"), slots=slots)
    kept, use = _amounts(record["limit"]), int(machine.body["spec"]["guest"]["memorySlots"]["use"])
    using = (use * UNIT_CPU, use * UNIT_MEMORY)
    if any(reported[r] > max(kept[r], had[r], using[r]) for r in (0, 1)):
        raise Broken("S1", f"pod {asked['pod']['name']}: permit {reported} is answered with {kept} on record, {had} before")


def _amounts(said: Json | None, *, slots: bool = False) -> tuple[int, int]:
    if said is None:
        return 0, 0
    return milli_cpu(said["vCPUs"]), byte_count(said["mem"]) * (UNIT_MEMORY if slots else 1)
