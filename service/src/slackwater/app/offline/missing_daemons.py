"""Makes the pods that the DaemonSets of a file would run on its nodes and that the file lacks.

In: the pod that each DaemonSet would create, the nodes and the pods. Out: the pods that are missing, and a remark for people
about each DaemonSet.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from msgspec import structs

from slackwater.app.offline.admission import Admission
from slackwater.app.offline.missing_pods import refuse_too_many, remarks_on
from slackwater.controllers.scaleup.template import accepting
from slackwater.controllers.slack.headroom_limits import requests_of
from slackwater.fit.plugins.node_affinity import names_asked
from slackwater.model.eviction_facts import Owner
from slackwater.model.ids import NodeName, PodKey, PodUid
from slackwater.model.kubernetes_rules import KubernetesVersion
from slackwater.model.objects import Node, Pod
from slackwater.model.pod_constraints import NodeSelectorTerm
from slackwater.model.selectors import Requirement
from slackwater.snapshot.node_facts import NodeFacts
from slackwater.snapshot.node_selector import NAME_FIELD


def missing_daemons(
    daemons: Sequence[Pod],
    nodes: Sequence[Node],
    pods: Sequence[Pod],
    kubernetes: KubernetesVersion,
    admission: Admission,
) -> tuple[list[Pod], dict[PodKey, str]]:
    """The pods of DaemonSets that nodes lack, and remarks. A pod is on its node if there is room beside the pods of the file;
    otherwise it is pending, with the affinity that the DaemonSet controller gives it."""
    if not daemons:
        return [], {}
    facts, room = NodeFacts(kubernetes), _Room(nodes, pods)
    facts.add(nodes)
    there: set[tuple[str, Owner | None, str]] = {
        (pod.key.namespace, pod.eviction_facts.owner, name)
        for pod in pods
        if not pod.ended and pod.eviction_facts.owner is not None and pod.eviction_facts.owner.kind == "DaemonSet"
        for name in ((pod.node,) if pod.node is not None else names_asked(pod.kind) or ())
    }
    found, remarks = list[Pod](), dict[PodKey, str]()
    for daemon in daemons:
        names = [nodes[row].name for row in np.flatnonzero(accepting(daemon, facts)).tolist()]
        owner = (daemon.key.namespace, daemon.eviction_facts.owner)
        names = [name for name in names if (*owner, name) not in there]
        refuse_too_many("the file", f"DaemonSet {daemon.key}", len(found), len(names))
        names = admission.daemons(daemon.key, names)
        made = [_on(daemon, name, room) for name in names]
        remarks |= remarks_on(f"DaemonSet {daemon.key}", [pod.key for pod in made])
        found += made
        there |= {(*owner, name) for name in names}
    return found, remarks


def _on(daemon: Pod, node: NodeName, room: "_Room") -> Pod:
    name = f"{daemon.key.name}-missing-{node}"
    key, uid = PodKey(daemon.key.namespace, name), PodUid(f"Pod/{daemon.key.namespace}/{name}")
    if room.take(node, daemon):
        return structs.replace(daemon, key=key, uid=uid, node=node)
    term = NodeSelectorTerm(labels=(), fields=(Requirement(NAME_FIELD, "In", (node,)),))
    return structs.replace(daemon, key=key, uid=uid, kind=replace(daemon.kind, node_affinity=(term,)))


class _Room:
    """What nodes have left: CPU, memory and the other resources, by name. It is counted when first asked for."""

    def __init__(self, nodes: Sequence[Node], pods: Sequence[Pod]) -> None:
        self._nodes, self._pods = nodes, pods
        self._left: dict[NodeName, dict[str, int]] = {}

    def take(self, node: NodeName, pod: Pod) -> bool:
        """Takes what the pod requests of the node's room. Returns False if the node has less."""
        if not self._left:
            for each in self._nodes:
                amounts = {"cpu": each.allocatable.cpu, "memory": each.allocatable.memory}
                self._left[each.name] = {**dict(each.scalars), **amounts}
            for placed in self._pods:
                if placed.node in self._left and not placed.ended:
                    self._subtract(placed.node, placed)
        left, asks = self._left[node], {"pods": 1, **requests_of(pod.kind)}
        fits = all(left.get(name, 0) >= amount for name, amount in asks.items())
        if fits:
            self._subtract(node, pod)
        return fits

    def _subtract(self, node: NodeName, pod: Pod) -> None:
        left = self._left[node]
        for name, amount in {"pods": 1, **requests_of(pod.kind)}.items():
            left[name] = left.get(name, 0) - amount
