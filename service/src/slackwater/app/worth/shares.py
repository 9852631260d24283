"""Divides what nodes cost among their pods, by requests.

A pod's share of its node's price is what its requests are worth by the price formula, divided by what is allocatable on the
node is worth. The rest of the price is idle. Amounts are rounded down to whole micros, so shares and idle add up exactly.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from slackwater.app.offline.cluster import Cluster
from slackwater.app.worth.answer import UseAnswer, UseShare
from slackwater.app.worth.use import PodUse, Use
from slackwater.model.ids import NodeName, PodKey
from slackwater.model.objects import Node, Pod
from slackwater.model.pod_constraints import NO_POD_CONSTRAINTS
from slackwater.model.prices import PriceFormula

#: The name of what nobody requests.
IDLE = None


def shares(
    cluster: Cluster, prices: Mapping[NodeName, int], formula: PriceFormula, name_of: Callable[[Pod], str]
) -> Counter[str | None]:
    """What the pods of each name cost, in micros an hour; `IDLE`: the rest. `prices`: of each node. Pods of unknown nodes and
    pods that have ended cost nothing."""
    on_node: dict[NodeName, list[Pod]] = {}
    for pod in cluster.pods:
        if pod.node is not None and not pod.ended:
            on_node.setdefault(pod.node, []).append(pod)
    found = Counter[str | None]()
    for node in cluster.nodes:
        pods = on_node.get(node.name, [])
        parts = _parts(node, pods, prices[node.name], formula)
        found[IDLE] += prices[node.name] - sum(parts)
        for pod, part in zip(pods, parts, strict=True):
            found[name_of(pod)] += part
    return found


def _parts(node: Node, pods: Sequence[Pod], price: int, formula: PriceFormula) -> list[int]:
    """Each pod's share of the price. Pods that request more than the node has share its whole price."""
    values = [formula.of_amounts(_requests(pod)) for pod in pods]
    whole = max(formula.of(node), sum(values), 1)
    return [price * value // whole for value in values]


def _requests(pod: Pod) -> dict[str, int]:
    asks = pod.kind.pod_constraints or NO_POD_CONSTRAINTS
    return {"cpu": pod.kind.requests.cpu, "memory": pod.kind.requests.memory, **dict(asks.scalars)}


def use_answers(cluster: Cluster, use: Use, by_label: str | None) -> tuple[UseAnswer, ...]:
    """What the pods on nodes request and use, by namespace, and by the label if there is one."""
    found = [_use_answer("namespace", cluster, use, lambda pod: pod.key.namespace)]
    if by_label is not None:
        found.append(_use_answer(by_label, cluster, use, lambda pod: dict(pod.labels).get(by_label, "")))
    return tuple(found)


def _use_answer(of: str, cluster: Cluster, use: Use, name_of: Callable[[Pod], str]) -> UseAnswer:
    pods_of: dict[str, list[Pod]] = {}
    for pod in cluster.pods:
        if pod.node is not None and not pod.ended:
            pods_of.setdefault(name_of(pod), []).append(pod)
    rows = [_use_share(name, pods, use.pods) for name, pods in pods_of.items()]
    rows.sort(key=lambda row: (-row.cpu_cores_requested, row.name))
    return UseAnswer(of=of, source=use.source, rows=rows)


def _use_share(name: str, pods: Sequence[Pod], use: Mapping[PodKey, PodUse]) -> UseShare:
    used = [found for pod in pods if (found := use.get(pod.key)) is not None]
    return UseShare(
        name=name,
        pods=len(pods),
        measured=len(used),
        cpu_cores_requested=round(sum(pod.kind.requests.cpu for pod in pods) / 1000, 3),
        cpu_cores_used=round(sum(each.cpu for each in used) / 1000, 3),
        memory_gib_requested=round(sum(pod.kind.requests.memory for pod in pods) / 2**30, 3),
        memory_gib_used=round(sum(each.memory for each in used) / 2**30, 3),
    )
