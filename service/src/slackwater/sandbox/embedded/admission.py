"""Turns the body of a create request into the object to store: adds names, UIDs and defaults, and refuses invalid objects.

Pods get the defaults that schedulers, kubelets or our decoder read. Deliberately absent: the rest of Kubernetes' validation.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from random import Random
from typing import Final
from uuid import UUID

from slackwater.sandbox.embedded.faults import Json, bad_request, invalid
from slackwater.sandbox.embedded.kinds import NODES, PODS, ResourceKind

_NAME_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
#: How many seconds a pod tolerates a node that is not ready; the default of Kubernetes' admission plug-in.
_TOLERATION_SECONDS: Final = 300
_GATED: Final = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
}


def rfc3339(seconds: float) -> str:
    """The Unix time in Kubernetes' format: whole seconds, UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Admission:
    """Turns the body of a create request into the object to store, as the API server does on create: checks the object and
    fills in its name, UID, creation timestamp and defaults. `rng` makes UIDs and names; `wall` returns the Unix time for
    timestamps."""

    def __init__(self, rng: Random, wall: Callable[[], float]) -> None:
        self._rng = rng
        self._wall = wall

    def new(self, kind: ResourceKind, namespace: str, body: Json) -> Json:
        """Returns the object to store for a create request, without its resource version. Raises `Fault` (400, 422)."""
        meta = dict(body.get("metadata") or {})
        if kind.namespaced and meta.get("namespace", namespace) != namespace:
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
        if not meta.get("name") and meta.get("generateName"):
            meta["name"] = meta["generateName"] + "".join(self._rng.choices(_NAME_LETTERS, k=5))
        if not meta.get("name"):
            raise invalid(kind.kind, "", [("metadata.name", "Required value: name or generateName is required")])
        meta["uid"] = str(UUID(int=self._rng.getrandbits(128), version=4))
        meta["creationTimestamp"] = rfc3339(self._wall())
        if kind.namespaced:
            meta["namespace"] = namespace
        if kind.counted:
            meta["generation"] = 1
        made = {**body, "apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta}
        if kind is PODS:
            return _new_pod(made, rfc3339(self._wall()))
        if kind is NODES:
            return {**made, "spec": made.get("spec") or {}, "status": made.get("status") or {}}
        if kind.halves and not kind.custom:
            made.setdefault("status", {})
        elif kind.halves:
            made.pop("status", None)
        return made


def _new_pod(body: Json, now: str) -> Json:
    name, spec = body["metadata"]["name"], dict(body.get("spec") or {})
    if not spec.get("containers"):
        raise invalid("Pod", name, [("spec.containers", "Required value")])
    spec["containers"] = [_new_container(container) for container in spec["containers"]]
    if spec.get("initContainers"):
        spec["initContainers"] = [_new_container(container) for container in spec["initContainers"]]
    defaults = {
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
        "priority": 0,
        "securityContext": {},
    }
    spec = {**defaults, **spec}
    spec["tolerations"] = [*(spec.get("tolerations") or ()), *_default_tolerations(spec.get("tolerations") or ())]
    status: Json = {"phase": "Pending", "qosClass": qos_class(spec)}
    if spec.get("schedulingGates"):
        status["conditions"] = [{**_GATED, "lastProbeTime": None, "lastTransitionTime": now}]
    return {**body, "spec": spec, "status": status}


def _default_tolerations(given: Sequence[Json]) -> list[Json]:
    """The default tolerations of a pod, except those for taints that the pod's own tolerations cover."""
    taints = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
    return [
        {"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _TOLERATION_SECONDS}
        for taint in taints
        if not any(known.get("key") in {taint, None} and known.get("effect") in {"NoExecute", None} for known in given)
    ]


def _new_container(container: Json) -> Json:
    resources = dict(container.get("resources") or {})
    if limits := resources.get("limits"):
        resources["requests"] = {**limits, **(resources.get("requests") or {})}
    defaults = {
        "imagePullPolicy": "Always",
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
    }
    return {**defaults, **container, "resources": resources}


def qos_class(spec: Json) -> str:
    """Kubernetes' quality of service class of a pod with this spec."""
    containers = [*spec["containers"], *(spec.get("initContainers") or ())]
    some = [c["resources"] for c in containers if c["resources"].get("requests") or c["resources"].get("limits")]
    if not some:
        return "BestEffort"
    whole = all(
        (r := c["resources"]).get("limits", {}).keys() >= {"cpu", "memory"} and r.get("requests", r["limits"]) == r["limits"]
        for c in containers
    )
    return "Guaranteed" if whole else "Burstable"
