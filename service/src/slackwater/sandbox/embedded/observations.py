"""What the scheduler stand-in sees of the cluster: pods and nodes as it last heard of them, and its own in-tree rules.

The rules are the ones that place nearly every pod: cordons, taints, node selectors, anti-affinity to pods of a topology, CPU,
memory and the number of pods. Deliberately absent: the rest of kube-scheduler's plug-ins, and everything that scores.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from slackwater.sandbox.embedded.faults import Json
from slackwater.sandbox.embedded.selectors import selects
from slackwater.sandbox.embedded.store import Key, Stored
from slackwater_protocol.units import byte_count, milli_cpu

_KUBELETS_PODS: Final = 110


@dataclass(frozen=True, slots=True, kw_only=True)
class PodObservation:
    """A pod. `cpu` in millicores, `memory` in bytes: what it requests."""

    key: Key
    uid: str
    raw: bytes
    labels: Mapping[str, str]
    spec: Json
    cpu: int
    memory: int
    priority: int
    node: str
    nominated: str
    alive: bool  #: neither ended nor being deleted


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeObservation:
    """A node, and what of it may be given away."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Json, ...]
    unschedulable: bool
    cpu: int
    memory: int
    pods: int


def pod_observation(stored: Stored) -> PodObservation:
    body = stored.body
    meta, spec, status = body["metadata"], body["spec"], body["status"]
    cpu, memory = _requests(spec, status)
    return PodObservation(
        key=(meta["namespace"], meta["name"]),
        uid=meta["uid"],
        raw=stored.raw,
        labels=meta.get("labels") or {},
        spec=spec,
        cpu=cpu,
        memory=memory,
        priority=spec.get("priority") or 0,
        node=spec.get("nodeName") or "",
        nominated=status.get("nominatedNodeName") or "",
        alive=status.get("phase") not in {"Succeeded", "Failed"} and "deletionTimestamp" not in meta,
    )


def counts(pod: Stored) -> bool:
    """Whether it takes room on its node."""
    return pod.body["status"].get("phase") not in {"Succeeded", "Failed"}


def node_observation(stored: Stored) -> NodeObservation:
    meta, spec, status = stored.body["metadata"], stored.body["spec"], stored.body["status"]
    amounts = status.get("allocatable") or status.get("capacity") or {}
    return NodeObservation(
        name=meta["name"],
        labels=meta.get("labels") or {},
        taints=tuple(spec.get("taints") or ()),
        unschedulable=bool(spec.get("unschedulable")),
        cpu=milli_cpu(str(amounts.get("cpu", "0"))),
        memory=byte_count(str(amounts.get("memory", "0"))),
        pods=int(amounts.get("pods", _KUBELETS_PODS)),
    )


def _requests(spec: Json, status: Json) -> tuple[int, int]:
    granted = {s["name"]: s.get("allocatedResources") or {} for s in status.get("containerStatuses") or ()}
    asked = [_amounts((c.get("resources") or {}).get("requests") or {}) for c in spec["containers"]]
    given = [_amounts(granted.get(c["name"], {})) for c in spec["containers"]]
    apps = [(max(a[0], g[0]), max(a[1], g[1])) for a, g in zip(asked, given, strict=True)]
    inits = [_amounts((c.get("resources") or {}).get("requests") or {}) for c in spec.get("initContainers") or ()]
    sums = (sum(cpu for cpu, _ in apps), sum(memory for _, memory in apps))
    return max([sums[0], *(cpu for cpu, _ in inits)]), max([sums[1], *(memory for _, memory in inits)])


def _amounts(requests: Mapping[str, object]) -> tuple[int, int]:
    return milli_cpu(str(requests.get("cpu", "0"))), byte_count(str(requests.get("memory", "0")))


def allows(pod: PodObservation, node: NodeObservation) -> bool:
    """Whether the node takes the pod whatever runs there: preempting others would change nothing where it does not."""
    tolerations = pod.spec.get("tolerations") or ()
    if node.unschedulable and not _tolerates(tolerations, "node.kubernetes.io/unschedulable", "", "NoSchedule"):
        return False
    for taint in node.taints:
        if taint["effect"] != "PreferNoSchedule" and not _tolerates(
            tolerations, taint["key"], taint.get("value", ""), taint["effect"]
        ):
            return False
    return all(node.labels.get(name) == value for name, value in (pod.spec.get("nodeSelector") or {}).items())


def _tolerates(tolerations: Iterable[Json], key: str, value: str, effect: str) -> bool:
    return any(
        t.get("key", key) == key
        and t.get("effect", effect) == effect
        and (t.get("operator") == "Exists" or t.get("value", "") == value)
        for t in tolerations
    )


def has_room(pod: PodObservation, node: NodeObservation, there: Iterable[PodObservation]) -> bool:
    """Whether it fits beside those."""
    found = list(there)
    return (
        sum(p.cpu for p in found) + pod.cpu <= node.cpu
        and sum(p.memory for p in found) + pod.memory <= node.memory
        and len(found) < node.pods
        and not any(_repels(pod, other) or _repels(other, pod) for other in found)
    )


def _repels(pod: PodObservation, other: PodObservation) -> bool:
    """Required anti-affinity of the one against the other on the same node; every topology is taken for the host."""
    affinity = ((pod.spec.get("affinity") or {}).get("podAntiAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    return pod.key[0] == other.key[0] and any(selects(term.get("labelSelector"), dict(other.labels)) for term in affinity or ())
