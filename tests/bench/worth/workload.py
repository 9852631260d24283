"""A cluster of several types in three zones, about half full, as JSON for the API server, and its node groups.

Pure: the same size gives the same cluster. Deployments, some spread over zones or apart from each other and half of them with
a PodDisruptionBudget; StatefulSets that only the nodes of one pool take; Deployments that tolerate spot nodes; pods with GPUs;
three DaemonSets. Each pool has a type that the cluster uses, and one of half its size and price that it does not.
"""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from slackwater_protocol.names import NODE_GROUP

Json = dict[str, Any]

ZONES: Final = ("eu-west-1a", "eu-west-1b", "eu-west-1c")
DAEMONS_NAMESPACE: Final = "infra"
NAMESPACES: Final = ("shop", "search", "batch", "ml", DAEMONS_NAMESPACE)
_SCHEDULER: Final = "slackwater"
_POOL: Final = "example.com/pool"
_GPU: Final = "nvidia.com/gpu"
#: What a node keeps for itself, in milliCPU.
_RESERVED: Final = 90


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeType:
    """`micros`: an hour. `nodes`: how many the cluster begins with."""

    name: str
    pool: str
    cpus: int
    memory_gib: int
    micros: int
    nodes: int = 0


TYPES: Final = (
    NodeType(name="m5.2xlarge", pool="general", cpus=8, memory_gib=31, micros=384_000, nodes=300),
    NodeType(name="r5.2xlarge", pool="memory", cpus=8, memory_gib=62, micros=504_000, nodes=120),
    NodeType(name="m5.4xlarge", pool="spot", cpus=16, memory_gib=62, micros=300_000, nodes=60),
    NodeType(name="g5.2xlarge", pool="gpu", cpus=8, memory_gib=31, micros=1_212_000, nodes=20),
    NodeType(name="m5.xlarge", pool="general", cpus=4, memory_gib=15, micros=192_000),
    NodeType(name="r5.xlarge", pool="memory", cpus=4, memory_gib=31, micros=252_000),
)
#: The cluster's size without a factor.
NODES: Final = sum(each.nodes for each in TYPES)
PRICES: Final[Mapping[str, int]] = {each.name: each.micros for each in TYPES}
_TAINTS: Final[Mapping[str, list[Json]]] = {
    "spot": [{"key": "spot", "value": "true", "effect": "NoSchedule"}],
    "gpu": [{"key": _GPU, "effect": "NoSchedule"}],
}


def node_groups() -> list[Json]:
    """A group for each type in each zone, as in the configuration file."""
    return [
        {
            "name": _group(kind, zone),
            "provider": "kwok",
            "price": f"{kind.micros / 1e6:.6f}",
            "maxSize": 10 * max(kind.nodes, NODES),
            "template": {
                "metadata": {"labels": _labels(kind, zone)},
                "spec": {"taints": _TAINTS.get(kind.pool, [])},
                "status": _status(kind),
            },
        }
        for kind in TYPES
        for zone in ZONES
    ]


def nodes(size: float) -> Iterator[Json]:
    """The nodes that the cluster begins with."""
    for kind in TYPES:
        for number in range(round(kind.nodes * size)):
            name, zone = f"{kind.pool}-{number}", ZONES[number % len(ZONES)]
            labels = {**_labels(kind, zone), "kubernetes.io/hostname": name, NODE_GROUP: _group(kind, zone)}
            metadata = {"name": name, "labels": labels, "annotations": {"kwok.x-k8s.io/node": "fake"}}
            spec = {"providerID": f"kwok://{name}", "taints": _TAINTS.get(kind.pool, [])}
            yield {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec, "status": _status(kind)}


def workloads(size: float, seed: int, density: int = 1) -> Iterator[Json]:
    """Controllers and PodDisruptionBudgets. `density`: so many times as many pods of most controllers, each that much smaller.
    CPU is milliCPU, memory MiB."""
    draw = random.Random(seed)
    for name, cpu, memory in (("kube-proxy", 100, 128), ("cni", 50, 128), ("node-exporter", 50, 64)):
        yield _controller("DaemonSet", DAEMONS_NAMESPACE, name, cpu, memory, tolerations=[{"operator": "Exists"}])
    for number in range(round(80 * size)):
        namespace, name = draw.choice(("shop", "search")), f"svc-{number}"
        replicas, cpu = draw.choice((2, 3, 5, 8, 12, 20, 30)), draw.choice((250, 500, 1000, 2000))
        memory = draw.choice((256, 1024, 2048, 4096))
        spec = (_spread(name) if number % 3 == 0 else {}) | (_apart(name) if number % 7 == 0 else {})
        each = cpu // density, memory // density
        yield _controller("Deployment", namespace, name, *each, replicas=replicas * density, **spec)
        if number % 2 == 0:
            yield _budget(namespace, name, maxUnavailable=density)
    for number in range(round(12 * size)):
        name = f"db-{number}"
        yield _controller("StatefulSet", "search", name, 3000, 24 << 10, replicas=3, nodeSelector={_POOL: "memory"})
        yield _budget("search", name, minAvailable=2)
    for number in range(round(10 * size)):
        tolerations = [{"key": "spot", "operator": "Exists"}]
        each = 1000 // density, 2048 // density
        yield _controller("Deployment", "batch", f"job-{number}", *each, replicas=40 * density, tolerations=tolerations)
    tolerations = [{"key": _GPU, "operator": "Exists"}]
    replicas = round(20 * size)
    yield _controller("Deployment", "ml", "infer", 4000, 16 << 10, gpus=1, replicas=replicas, tolerations=tolerations)


def path_of(item: Json) -> str:
    """Where an object of `nodes` or `workloads` is created."""
    version, plural = item["apiVersion"], f"{item['kind'].lower()}s"
    if (namespace := item["metadata"].get("namespace")) is None:
        return f"/api/{version}/{plural}"
    return f"/apis/{version}/namespaces/{namespace}/{plural}"


def _group(kind: NodeType, zone: str) -> str:
    return f"{kind.name}-{zone}"


def _labels(kind: NodeType, zone: str) -> dict[str, str]:
    return {
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "karpenter.sh/capacity-type": "spot" if kind.pool == "spot" else "on-demand",
        "node.kubernetes.io/instance-type": kind.name,
        "topology.kubernetes.io/zone": zone,
        _POOL: kind.pool,
    }


def _status(kind: NodeType) -> Json:
    devices = {_GPU: "1"} if kind.pool == "gpu" else {}
    amounts = {"cpu": str(kind.cpus), "memory": f"{kind.memory_gib}Gi", "pods": "58", "ephemeral-storage": "100Gi", **devices}
    return {"capacity": amounts, "allocatable": {**amounts, "cpu": f"{kind.cpus * 1000 - _RESERVED}m"}}


def _controller(
    kind: str, namespace: str, name: str, cpu: int, memory: int, *, replicas: int | None = None, gpus: int = 0, **spec: Any
) -> Json:
    labels, devices = {"app": name}, {_GPU: str(gpus)} if gpus else {}
    resources = {"requests": {"cpu": f"{cpu}m", "memory": f"{memory}Mi", **devices}, "limits": devices}
    container = {"name": "app", "image": f"registry.example/{name}:1", "resources": resources}
    pod = {"schedulerName": _SCHEDULER, "terminationGracePeriodSeconds": 1, "containers": [container], **spec}
    own = {"StatefulSet": {"podManagementPolicy": "Parallel", "serviceName": name}}.get(kind, {})
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
            **({} if replicas is None else {"replicas": replicas}),
            **own,
        },
    }


def _spread(app: str) -> Json:
    each = {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"}
    return {"topologySpreadConstraints": [{**each, "labelSelector": {"matchLabels": {"app": app}}}]}


def _apart(app: str) -> Json:
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": "kubernetes.io/hostname"}
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def _budget(namespace: str, app: str, **spec: int) -> Json:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": app, "namespace": namespace},
        "spec": {"selector": {"matchLabels": {"app": app}}, **spec},
    }
