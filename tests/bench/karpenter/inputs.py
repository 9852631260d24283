"""The same types, prices and pods for both sides: as Karpenter's file of instance types, as our node groups, as Deployments.

Pure. The types are those of `burst`, each in one zone and on demand. Money is micros of USD an hour.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from tests.bench.simulation.mixes import Variant, Workload, burst

Json = dict[str, Any]

_TYPE: Final = "node.kubernetes.io/instance-type"
_ZONE: Final = "topology.kubernetes.io/zone"
_CAPACITY_TYPE: Final = "karpenter.sh/capacity-type"
_NODE_CLASS: Final = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}
#: What Karpenter's kwok provider takes off a node's capacity: milliCPU and bytes.
RESERVED: Final = (100, 10 << 20)
#: Deployments of the burst, and the prices of types.
WORKLOADS: Final = burst().workloads
VARIANTS: Final = burst().variants
PRICES: Final[Mapping[str, int]] = {each.name: each.price for each in VARIANTS}


def types_up_to(cpus: int) -> tuple[Variant, ...]:
    """Those that have at most so many CPUs."""
    return tuple(each for each in VARIANTS if each.allocatable[0] + RESERVED[0] <= 1000 * cpus)


def instance_types(variants: Iterable[Variant]) -> list[Json]:
    """What Karpenter's kwok provider reads from INSTANCE_TYPES_FILE_PATH, and our provider karpenter with `allocatable`."""
    return [
        {
            "name": each.name,
            "architecture": "amd64",
            "operatingSystems": ["linux"],
            "resources": _capacity(each),
            "allocatable": _allocatable(each),
            "offerings": [
                {
                    "Price": each.price / 1e6,
                    "Available": True,
                    "Requirements": [
                        {"key": key, "operator": "In", "values": [value]}
                        for key, value in {_CAPACITY_TYPE: "on-demand", _ZONE: each.zone}.items()
                    ],
                }
            ],
        }
        for each in variants
    ]


def node_pool(policy: str, *, handed_over: bool = False) -> list[Json]:
    """A NodeClass, and a NodePool that takes every type on demand; all that is not said is Karpenter's default. `policy`: its
    consolidationPolicy. `handed_over`: Karpenter only serves the NodeClaims of others."""
    stop = {"nodes": "0"}
    requirements = [{"key": _CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]}]
    template = {"spec": {"nodeClassRef": _NODE_CLASS, "requirements": requirements}}
    return [
        {"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "default"}},
        {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodePool",
            "metadata": {"name": "default"},
            "spec": {
                "template": template,
                "disruption": {
                    "consolidationPolicy": policy,
                    "consolidateAfter": "0s",
                    **({"budgets": [{"nodes": "100%"}, stop]} if handed_over else {}),
                },
                **({"limits": stop} if handed_over else {}),
            },
        },
    ]


def node_groups(variants: Iterable[Variant]) -> list[Json]:
    """The same types as node groups of ours, one each."""
    return [
        {
            "name": each.name,
            "provider": "kwok",
            "price": f"{each.price / 1e6:.6f}",
            "template": {
                "metadata": {"labels": {_TYPE: each.name, _ZONE: each.zone, _CAPACITY_TYPE: "on-demand"}},
                "status": {"capacity": _capacity(each), "allocatable": _allocatable(each)},
            },
        }
        for each in variants
    ]


def deployments(workloads: Sequence[Workload], pods: int, scheduler: str) -> list[Json]:
    """One a workload, with `pods` in all as evenly as they divide."""
    return [
        _deployment(f"app-{number}", each, pods // len(workloads) + (number < pods % len(workloads)), scheduler)
        for number, each in enumerate(workloads)
    ]


def bill(nodes: Iterable[Json], prices: Mapping[str, int]) -> tuple[int, Counter[str]]:
    """What the nodes cost an hour, and how many there are of each type. KeyError for a node of an unknown type."""
    types = Counter(str(node["metadata"]["labels"][_TYPE]) for node in nodes)
    return sum(prices[name] * count for name, count in types.items()), types


def _deployment(name: str, workload: Workload, replicas: int, scheduler: str) -> Json:
    cpu, memory, *_ = workload.amounts
    container = {
        "name": "app",
        "image": "registry.example/app:1",
        "resources": {"requests": {"cpu": f"{cpu}m", "memory": str(memory)}},
    }
    labels = {"app": name}
    spec = {"schedulerName": scheduler, "terminationGracePeriodSeconds": 1, "containers": [container]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


def _capacity(variant: Variant) -> dict[str, str]:
    cpu, memory, pods, _ = variant.allocatable
    return {"cpu": f"{cpu + RESERVED[0]}m", "memory": str(memory + RESERVED[1]), "pods": str(pods)}


def _allocatable(variant: Variant) -> dict[str, str]:
    cpu, memory, pods, _ = variant.allocatable
    return {"cpu": f"{cpu}m", "memory": str(memory), "pods": str(pods)}
