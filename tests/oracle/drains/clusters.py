"""Generated clusters whose nodes can be emptied: every pod has a node, most a controller, and many a budget.

Everything that a predicate reads stays as it was drawn. What budgets report is counted here as the disruption controller does.
"""

from typing import Any, Final

from tests.oracle.generator import SMALL, Size, generate
from tests.oracle.generator.draw import Draw, Obj
from tests.oracle.generator.labels import POD_LABELS
from tests.oracle.generator.pods import NAMESPACES

_OWNER: Final = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "uid-web", "controller": True}
_DAEMON: Final = {**_OWNER, "kind": "DaemonSet", "name": "agent", "uid": "uid-agent"}
_SAFE: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict"
_LOCAL: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"
_ENDED: Final = frozenset({"Succeeded", "Failed"})


def generate_drainable(seed: int, index: int, size: Size = SMALL) -> Obj:
    """Cluster `index` of a seed."""
    draw = Draw(seed, index)
    cluster = generate(seed, index, size)
    names = [item["metadata"]["name"] for item in cluster["items"] if item["kind"] == "Node"]
    for pod in pods_of(cluster):
        _settle(draw, pod, names)
        _tie(draw, pod)
    items = [item for item in cluster["items"] if item["kind"] != "Pod" or "nodeName" in item["spec"]]
    budgets = [_budget(draw, f"budget-{number}", items) for number in range(draw.number(1, 4))]
    return {**cluster, "items": [*items, *budgets]}


def pods_of(cluster: Obj) -> list[Obj]:
    return [item for item in cluster["items"] if item["kind"] == "Pod"]


def budgets_of(cluster: Obj) -> list[Obj]:
    return [item for item in cluster["items"] if item["kind"] == "PodDisruptionBudget"]


def guards(budget: Obj, pod: Obj) -> bool:
    """Does the budget select the pod?"""
    wanted: dict[str, str] = budget["spec"]["selector"]["matchLabels"]
    labels = pod["metadata"].get("labels", {})
    same = budget["metadata"]["namespace"] == pod["metadata"]["namespace"]
    return same and all(labels.get(key) == value for key, value in wanted.items())


def healthy(pod: Obj) -> bool:
    """As the disruption controller counts: ready, and not being deleted."""
    conditions: list[dict[str, Any]] = pod["status"].get("conditions", [])
    ready = any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)
    return ready and "deletionTimestamp" not in pod["metadata"] and pod["status"].get("phase") not in _ENDED


def asks_budgets(pod: Obj) -> bool:
    """Does the Eviction API ask the pod's budgets? It evicts a pending pod without asking (`canIgnorePDB`)."""
    return bool(pod["status"].get("phase") != "Pending")


def _settle(draw: Draw, pod: Obj, names: list[str]) -> None:
    """Most of those that wait get a node; not those whose own claims may be somebody else's, which spoils all others."""
    spec, status = pod["spec"], pod["status"]
    own_claims = any("ephemeral" in volume for volume in spec.get("volumes", ()))
    if "nodeName" not in spec and status["phase"] == "Pending" and not own_claims and draw.chance(0.8):
        spec["nodeName"], status["phase"] = draw.pick(names), "Running"


def _tie(draw: Draw, pod: Obj) -> None:
    meta = pod["metadata"]
    if draw.chance(0.03):
        meta["ownerReferences"] = [_DAEMON]
    elif draw.chance(0.98):
        meta.setdefault("ownerReferences", [_OWNER])
    annotations = {_LOCAL: ",".join(f"v{number}" for number in range(6))} if draw.chance(0.97) else {}
    if draw.chance(0.05):
        annotations[_SAFE] = draw.pick(("true", "true", "true", "on-completion", "false"))
    meta["annotations"] = annotations
    if "deletionTimestamp" not in meta and draw.chance(0.03):
        meta |= {"deletionTimestamp": "2099-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}
    ready = "True" if draw.chance(0.9) else "False"
    pod["status"].setdefault("conditions", []).append({"type": "Ready", "status": ready})


def _budget(draw: Draw, name: str, items: list[Obj]) -> Obj:
    key = draw.pick(list(POD_LABELS))
    selector = {"matchLabels": {key: draw.pick(POD_LABELS[key])}}
    meta = {"name": name, "namespace": draw.pick(("default", "default", *NAMESPACES)), "uid": f"uid-{name}"}
    made: Obj = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta}
    made["spec"] = {"selector": selector, "maxUnavailable": draw.pick((0, 1, 2, 2, 3))}
    guarded = [pod for pod in pods_of({"items": items}) if guards(made, pod) and pod["status"].get("phase") not in _ENDED]
    least = max(len(guarded) - made["spec"]["maxUnavailable"], 0)
    up = sum(healthy(pod) for pod in guarded)
    made["status"] = {
        "expectedPods": len(guarded),
        "currentHealthy": up,
        "desiredHealthy": least,
        "disruptionsAllowed": max(up - least, 0),
    }
    return made
