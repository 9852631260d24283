"""Divides what nodes cost among their pods, by requests.

A pod's share of its node's price is what its requests are worth by the price formula, divided by what is allocatable on the
node is worth. The rest of the price is idle. Amounts are rounded down to whole micros, so shares and idle add up exactly.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from slackwater.app.offline.cluster import Cluster
from slackwater.model.ids import NodeName
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
