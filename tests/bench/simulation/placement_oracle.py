"""Asks the real plug-ins of kube-scheduler about the places that a plan gives pods.

The cluster is the one after the plan. Of each node that got pods one of them is taken off and waits. So a verdict is about a
node as the plan leaves it, without that pod.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from slackwater.model.ids import NodeName, PodUid
from slackwater.model.objects import Node, Pod
from tests.oracle.real import Real

Obj = dict[str, Any]


def refused(oracle: Real, nodes: Sequence[Node], pods: Sequence[Pod], to: Mapping[PodUid, NodeName]) -> tuple[int, list[str]]:
    """How many moved pods were judged, and what the plug-ins say of each that they refuse on its node. `pods`: on their nodes
    after the plan; `to`: of those that moved. Raises OracleFailed."""
    waiting: dict[NodeName, Pod] = {}
    for pod in pods:
        if pod.uid in to:
            waiting.setdefault(to[pod.uid], pod)
    off = {pod.uid for pod in waiting.values()}
    items = [*map(_node, nodes), *(_pod(pod, waits=pod.uid in off) for pod in pods)]
    lines = {line["pod"]: line for line in oracle.judge({"apiVersion": "v1", "kind": "List", "items": items})}
    found = []
    for name, pod in waiting.items():
        line = lines[f"{pod.key.namespace}/{pod.key.name}"]
        if name not in line["feasible"]:
            found.append(f"{pod.key} on {name}: {line.get('failed') or line['rejected'].get(name)}")
    return len(waiting), found


def _node(node: Node) -> Obj:
    amounts = {"cpu": f"{node.allocatable.cpu}m", "memory": str(node.allocatable.memory)}
    amounts |= {name: str(amount) for name, amount in node.scalars}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": node.name, "labels": dict(node.labels)},
        "spec": {},
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def _pod(pod: Pod, *, waits: bool) -> Obj:
    """The pod as a manifest; those of DaemonSets are named after their node too."""
    kind, requests = pod.kind, {"cpu": f"{pod.kind.requests.cpu}m", "memory": str(pod.kind.requests.memory)}
    spec: Obj = {
        "containers": [{"name": "app", "image": "app:1", "resources": {"requests": requests}}],
        "nodeSelector": dict(kind.node_selector),
        "tolerations": [{"key": each.key, "operator": each.operator} for each in kind.tolerations],
    }
    apart = () if kind.pod_constraints is None else kind.pod_constraints.anti_affinity
    if apart:
        terms = [{"topologyKey": each.topology_key, "labelSelector": {"matchLabels": dict(pod.labels)}} for each in apart]
        spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    name = f"{pod.key.name}.{pod.node}" if kind.namespace == "kube-system" else pod.key.name
    meta = {"name": name, "namespace": kind.namespace, "labels": dict(pod.labels)}
    spec |= {} if waits else {"nodeName": pod.node}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": {}}
