"""What the row-by-row predicates look at: plain lists of nodes and pods. No columns, no kinds by number, nothing kept."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from slackwater.app.offline import Cluster
from slackwater.model.objects import Node, Pod
from slackwater.model.pod_constraints import NO_POD_CONSTRAINTS, PodConstraints
from slackwater.model.storage import Claim, Storage


@dataclass(frozen=True, slots=True)
class PlainCluster:
    """Nodes, the pods that stand on them, namespaces with their labels, storage."""

    nodes: tuple[Node, ...]
    running_pods: tuple[Pod, ...]
    namespaces: Mapping[str, Mapping[str, str]]
    storage: Storage

    @classmethod
    def of(cls, cluster: Cluster) -> "PlainCluster":
        names = {node.name for node in cluster.nodes}
        running_pods = tuple(pod for pod in cluster.pods if pod.node in names and not pod.ended)
        return cls(cluster.nodes, running_pods, cluster.namespaces, cluster.storage)

    def on(self, node: Node) -> Iterator[Pod]:
        return (pod for pod in self.running_pods if pod.node == node.name)

    def node_of(self, pod: Pod) -> Node:
        return next(node for node in self.nodes if node.name == pod.node)

    def claims(self, pod: Pod) -> Iterator[Claim]:
        """The pod's claims, in its order, as far as they exist."""
        known = self.storage.claims or {}
        for mount in asks(pod).claims:
            if (pod.key.namespace, mount.claim) in known:
                yield known[pod.key.namespace, mount.claim]


def asks(pod: Pod) -> PodConstraints:
    return pod.kind.pod_constraints or NO_POD_CONSTRAINTS
