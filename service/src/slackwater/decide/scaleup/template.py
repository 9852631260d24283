"""What a new node of a group looks like: a real one of its nodes, cleaned of what is its own, or the provider's word.

A real node that is ready comes first, since it says what the kubelet keeps for itself and which DaemonSets run there; then what
the provider or the configuration says; then a real node that is not ready. Deliberately absent: remembering the node
of a group that has none any more (the caller's, who gives it as the provider's word).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from slackwater.decide.scaleup.existing import awaits_devices
from slackwater.decide.scaleup.groups import Template
from slackwater.decide.scaleup.pending import is_daemon
from slackwater.model.ids import NodeName
from slackwater.model.nodegroups import NodeGroup
from slackwater.model.objects import Node, Pod, Taint
from slackwater.model.particulars import NO_PARTICULARS, Particulars
from slackwater.model.resources import NOTHING, Amounts
from slackwater.simulate.nodefacts import HOSTNAME, NodeFacts
from slackwater.simulate.predicates.node_affinity import judge_node_affinity
from slackwater.simulate.predicates.taint_toleration import judge_taint_toleration
from slackwater_protocol.names import DELETION_CANDIDATE_TAINT, NODE_GROUP, TO_BE_DELETED_TAINT

#: Taints that say how one node is, not what its group is like.
_OWN_TAINTS: Final = frozenset(
    {
        TO_BE_DELETED_TAINT,
        DELETION_CANDIDATE_TAINT,
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
        "node.kubernetes.io/memory-pressure",
        "node.kubernetes.io/disk-pressure",
        "node.kubernetes.io/pid-pressure",
        "node.kubernetes.io/network-unavailable",
        "node.kubernetes.io/unschedulable",
        "node.cloudprovider.kubernetes.io/uninitialized",
        "node.cloudprovider.kubernetes.io/shutdown",
    }
)
_OWN_TAINT_PREFIXES: Final = (
    "startup-taint.cluster-autoscaler.kubernetes.io/",
    "status-taint.cluster-autoscaler.kubernetes.io/",
    "ignore-taint.cluster-autoscaler.kubernetes.io/",
)


def template_of(
    group: NodeGroup,
    nodes: Iterable[Node],
    *,
    pods_on: Callable[[NodeName], Iterable[Pod]],
    daemons: Sequence[Pod] = (),
    system: Amounts = NOTHING,
) -> Template | None:
    """None where nobody knows. `nodes` are the group's, `daemons` the pods that DaemonSets would make.

    `system` is what is set aside on a node of the provider's word; that of real nodes is taken to be gone already.
    """
    example = _example(group, nodes)
    if example is None and group.template is None:
        return None
    if example is not None:
        there = tuple(pod for pod in pods_on(example.name) if is_daemon(pod) and not pod.deleting and not pod.ended)
        node = cleaned(example, group)
    else:
        assert group.template is not None
        there, node = (), cleaned(group.template, group)
        labels = {**node.labels, **({NODE_GROUP: group.name} if group.provider == "kwok" else {})}
        node = replace(node, labels=labels, allocatable=node.allocatable.minus(system).not_below_zero())
    owners = {(pod.key.namespace, pod.ties.owner) for pod in there}
    missing = (pod for pod in daemons if (pod.key.namespace, pod.ties.owner) not in owners)
    return Template(node=node, standing=(*there, *(_by_itself(pod) for pod in missing if runs_on(pod, node))))


def cleaned(node: Node, group: NodeGroup) -> Node:
    """The node without what is its own: name, cordon, what happened to it. A kubelet gives every node its hostname."""
    name = NodeName(f"template-of:{group.name}")
    return replace(
        node,
        name=name,
        uid="",
        resource_version=0,
        labels={**node.labels, HOSTNAME: name},
        taints=tuple(taint for taint in node.taints if not _is_own(taint)),
        unschedulable=False,
        ready=True,
        images=(),
        provider_id="",
        created_at=None,
    )


def runs_on(daemon: Pod, node: Node) -> bool:
    """Would the DaemonSet controller put its pod there? It asks for labels and taints, not for room."""
    facts = NodeFacts()
    facts.add([node])
    here = slice(0, 1)
    return not (
        np.any(judge_node_affinity(facts, daemon.kind, here)) or np.any(judge_taint_toleration(facts, daemon.kind, here))
    )


def _example(group: NodeGroup, nodes: Iterable[Node]) -> Node | None:
    """The real node to copy: one that is as it should be, or any where nobody else knows."""
    found = sorted(nodes, key=lambda node: (not _is_good(node, group), -_n_devices(node), node.name))
    if not found or (group.template is not None and not _is_good(found[0], group)):
        return None
    return found[0]


def _is_good(node: Node, group: NodeGroup) -> bool:
    whole = group.template is None or not awaits_devices(node, group.template)
    leaves = any(taint.key == TO_BE_DELETED_TAINT for taint in node.taints)
    return node.ready and whole and not node.unschedulable and not leaves


def _n_devices(node: Node) -> int:
    """A node that tells of fewer devices than its like may not have found them yet."""
    return sum(1 for _, amount in node.scalars if amount)


def _is_own(taint: Taint) -> bool:
    return taint.key in _OWN_TAINTS or taint.key.startswith(_OWN_TAINT_PREFIXES)


def _by_itself(daemon: Pod) -> Pod:
    """As far as it fills a node: its rules about other pods are not ours to keep, and might read labels unknown so far."""
    asks = daemon.kind.particulars or NO_PARTICULARS
    only = Particulars(scalars=asks.scalars, host_ports=asks.host_ports, scored=asks.scored)
    return replace(daemon, kind=replace(daemon.kind, particulars=only))
