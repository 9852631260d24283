"""What the node has left: amounts, and ports of its own."""

from slackwater.model.objects import Node, Pod
from slackwater.model.pod_constraints import HostPort
from slackwater.model.reasons import Reason
from tests.laws.fit.rowbyrow.cluster import PlainCluster, asks


def node_ports(cluster: PlainCluster, pod: Pod, node: Node) -> Reason:
    taken = [port for other in cluster.on(node) for port in asks(other).host_ports]
    clash = any(_clash(wanted, port) for wanted in asks(pod).host_ports for port in taken)
    return Reason.HOST_PORTS if clash else Reason.OK


def _clash(one: HostPort, other: HostPort) -> bool:
    if (one.protocol, one.port) != (other.protocol, other.port):
        return False
    return "0.0.0.0" in (one.ip, other.ip) or one.ip == other.ip


def node_resources_fit(cluster: PlainCluster, pod: Pod, node: Node) -> Reason:
    has = _has(node)
    here = list(cluster.on(node))
    short = len(here) + 1 > has.get("pods", 0)
    hopeless = False
    for resource, amount in _wants(pod).items():
        if amount and amount > has.get(resource, 0) - sum(_wants(other).get(resource, 0) for other in here):
            short = True
            hopeless = hopeless or amount > has.get(resource, 0)
    if hopeless:
        return Reason.RESOURCES_ABOVE_NODE
    return Reason.RESOURCES_SHORT if short else Reason.OK


def _has(node: Node) -> dict[str, int]:
    return {"cpu": node.allocatable.cpu, "memory": node.allocatable.memory, **dict(node.scalars)}


def _wants(pod: Pod) -> dict[str, int]:
    return {"cpu": pod.kind.requests.cpu, "memory": pod.kind.requests.memory, **dict(asks(pod).scalars)}
