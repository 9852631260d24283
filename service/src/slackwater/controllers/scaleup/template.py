"""Templates: derives what a new node of a group looks like from the group's real nodes, or from the provider.

- `template_of`: the template of a group.
- `usual_taints`, `usual_labels`, `differing_labels`, `lone_labels`: what the nodes of a group have in common.
- `attaching`, `usual_csi`: how many volumes a new node can attach.

In: a group's nodes and what provider or configuration say. Out: a `Template`, or None. This module does not remember the last
node of a group that has no nodes any more: the caller does, and passes it as the provider's template. Taints about the present
state of one node are in `model.node_taints`.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from slackwater.controllers.scaleup.existing import awaits_devices
from slackwater.controllers.scaleup.groups import Template
from slackwater.fit.filter.node_affinity import judge_node_affinity
from slackwater.fit.filter.taint_toleration import judge_taint_toleration
from slackwater.model.ids import NodeName
from slackwater.model.kubernetes_rules import DEFAULT_VERSION, KubernetesVersion
from slackwater.model.node_taints import DEFAULT_TAINT_RULES, TaintRules, taint_id
from slackwater.model.nodegroups import NodeGroup
from slackwater.model.objects import Node, Pod, Taint, is_daemon
from slackwater.model.pod_constraints import NO_POD_CONSTRAINTS, PodConstraints
from slackwater.model.resources import NOTHING, Amounts
from slackwater.model.storage import CsiNode
from slackwater.snapshot.node_facts import HOSTNAME, NodeFacts
from slackwater_protocol.names import NODE_GROUP, TO_BE_DELETED_TAINT

#: The least number of nodes for which labels are compared.
_FEW: Final = 2


def usual_taints(nodes: Sequence[Node], said: Node | None) -> tuple[Taint, ...]:
    """The taints that most of the nodes have. `said`, the node that configuration or provider describe, counts as one more node
    and decides ties; None if they describe none.

    A taint or label that most nodes lack is no property of the group: a node under repair, or one that somebody labelled by
    hand, changes nothing for its group.
    """
    carriers = Counter(id_ for node in nodes for id_ in {taint_id(taint) for taint in node.taints})
    expected = set() if said is None else {taint_id(taint) for taint in said.taints}
    found: dict[tuple[str, str], Taint] = {}
    for node in nodes if said is None else (*nodes, said):
        for taint in node.taints:
            found.setdefault(taint_id(taint), taint)
    votes, all_votes = carriers + Counter(expected), len(nodes) + (said is not None)
    return tuple(
        taint for id_, taint in found.items() if 2 * votes[id_] > all_votes or (2 * votes[id_] == all_votes and id_ in expected)
    )


def usual_labels(example: Node, nodes: Collection[Node]) -> dict[str, str]:
    """The labels of `example`, without the keys that half of the nodes or more lack."""
    count = Counter(key for node in nodes for key in node.labels)
    return {key: value for key, value in example.labels.items() if 2 * count[key] > len(nodes)}


def differing_labels(nodes: Collection[Node]) -> frozenset[str]:
    """The keys of labels that are no property of the group, because no value is that of most of the nodes."""
    if len(nodes) < _FEW:
        return frozenset()
    values = Counter(pair for node in nodes for pair in node.labels.items())
    shared = {key for (key, _), count in values.items() if 2 * count > len(nodes)}
    return frozenset(key for key, _ in values if key not in shared)


def lone_labels(labels: Sequence[Mapping[str, str]]) -> frozenset[str]:
    """The keys of labels whose values all differ. `labels`: the labels of nodes, each the only node of its group."""
    values: dict[str, list[str]] = {}
    for each in labels:
        for key, value in each.items():
            values.setdefault(key, []).append(value)
    return frozenset(key for key, found in values.items() if len(found) >= _FEW and len(set(found)) == len(found))


def template_of(
    group: NodeGroup,
    nodes: Iterable[Node],
    *,
    pods_on: Callable[[NodeName], Iterable[Pod]],
    daemons: Sequence[Pod] = (),
    system: Amounts = NOTHING,
    taints: TaintRules = DEFAULT_TAINT_RULES,
    kubernetes: KubernetesVersion = DEFAULT_VERSION,
) -> Template | None:
    """The group's template; None if it has no nodes and the provider describes none. `nodes`: the group's nodes. `daemons`: the
    pods that DaemonSets would create.

    The first choice is a ready real node, without its own state: it shows what the kubelet reserves and which DaemonSets run
    there. The second is the node that provider or configuration describe, the third a real node that is not ready. Taints and
    labels are those of most of the group's nodes (`usual_taints`, `usual_labels`). `system` is subtracted from a provider's
    template; in real nodes it is subtracted already.
    """
    models = _models(group, nodes)
    if not models and group.template is None:
        return None
    if models:
        example = min(models, key=lambda node: (-_n_devices(node), node.name))
        there = tuple(pod for pod in pods_on(example.name) if is_daemon(pod) and not pod.deleting and not pod.ended)
        common = replace(example, labels=usual_labels(example, models), taints=usual_taints(models, group.template))
        node = cleaned(common, group, taints)
    else:
        assert group.template is not None
        there, node = (), cleaned(group.template, group, taints)
        labels = {**node.labels, **({NODE_GROUP: group.name} if group.provider == "kwok" else {})}
        node = replace(node, labels=labels, allocatable=node.allocatable.minus(system).not_below_zero())
    owners = {(pod.key.namespace, pod.eviction_facts.owner) for pod in there}
    missing = (pod for pod in daemons if (pod.key.namespace, pod.eviction_facts.owner) not in owners)
    running_pods = (*there, *(_by_itself(pod) for pod in missing if runs_on(pod, node, kubernetes)))
    return Template(node=node, running_pods=running_pods, n_models=len(models), differing=differing_labels(models))


def cleaned(node: Node, group: NodeGroup, taints: TaintRules) -> Node:
    """Makes a template's node from a node: without its name, cordon, own taints and other state of this one node. It gets a
    hostname label, as every kubelet sets one."""
    name = NodeName(f"template-of:{group.name}")
    return replace(
        node,
        name=name,
        uid="",
        resource_version=0,
        labels={**node.labels, HOSTNAME: name},
        taints=tuple(taint for taint in node.taints if not taints.is_own(taint.key)),
        unschedulable=False,
        ready=True,
        images=(),
        provider_id="",
        created_at=None,
    )


def runs_on(daemon: Pod, node: Node, kubernetes: KubernetesVersion = DEFAULT_VERSION) -> bool:
    """Would the DaemonSet controller create the pod `daemon` on the node? The controller judges labels and taints, not room."""
    facts = NodeFacts(kubernetes)
    facts.add([node])
    here = slice(0, 1)
    return not (
        np.any(judge_node_affinity(facts, daemon.kind, here)) or np.any(judge_taint_toleration(facts, daemon.kind, here))
    )


def _models(group: NodeGroup, nodes: Iterable[Node]) -> list[Node]:
    """The real nodes to derive a template from: the ready and complete ones; all nodes, if there is no such node and the
    provider has no template."""
    there = list(nodes)
    good = [node for node in there if _is_usable_example(node, group)]
    return good if good or group.template is not None else there


def _is_usable_example(node: Node, group: NodeGroup) -> bool:
    whole = group.template is None or not awaits_devices(node, group.template)
    leaves = any(taint.key == TO_BE_DELETED_TAINT for taint in node.taints)
    return node.ready and whole and not node.unschedulable and not leaves


def _n_devices(node: Node) -> int:
    """The number of extended resources that the node reports. A node with fewer than others of its group may not have found its
    devices yet."""
    return sum(1 for _, amount in node.scalars if amount)


def _by_itself(daemon: Pod) -> Pod:
    """The DaemonSet pod without its constraints on other pods and volumes. The DaemonSet controller ignores them, and they
    might read labels that the snapshot was built without."""
    asks = daemon.kind.pod_constraints or NO_POD_CONSTRAINTS
    only = PodConstraints(scalars=asks.scalars, host_ports=asks.host_ports, scored=asks.scored)
    return replace(daemon, kind=replace(daemon.kind, pod_constraints=only))


def attaching(template: Template | None, csi_nodes: Sequence[CsiNode], *, said: CsiNode | None) -> Template | None:
    """Returns the template with limits on attachable volumes, as `usual_csi` finds them. `csi_nodes`: the CSINodes of the
    group's nodes that have started.

    Without a limit a new node would seem to attach any number of volumes, and a plan would add too few nodes.
    """
    return None if template is None else replace(template, node=replace(template.node, csi=usual_csi(csi_nodes, said)))


def usual_csi(csi_nodes: Sequence[CsiNode], said: CsiNode | None) -> CsiNode | None:
    """A CSINode with each driver's most frequent limit; of equally frequent limits the smallest. None if no driver is known.

    A driver that no node reports gets its limit from `said`, by the provider. A node on which a driver is still starting does
    not report the driver.
    """
    reported: dict[str, Counter[int | None]] = {}
    for csi_node in csi_nodes:
        for driver, limit in csi_node.drivers:
            reported.setdefault(driver, Counter())[limit] += 1
    limits = {} if said is None else dict(said.drivers)
    limits |= {
        driver: max(counts, key=lambda limit: (counts[limit], _strictness(limit))) for driver, counts in reported.items()
    }
    migrated = Counter(plugin for csi_node in csi_nodes for plugin in csi_node.migrated)
    usual = tuple(sorted(plugin for plugin, count in migrated.items() if 2 * count > len(csi_nodes)))
    return CsiNode(name="", drivers=tuple(sorted(limits.items())), migrated=usual) if limits or usual else None


def _strictness(limit: int | None) -> float:
    """A number that is larger for smaller limits."""
    return float("-inf") if limit is None else -float(limit)
