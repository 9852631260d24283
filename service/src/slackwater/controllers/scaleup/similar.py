"""Similar groups: finds bundles of groups that grow together, so that their sizes stay equal; usually one group for each zone.

The tolerances are Cluster Autoscaler's. There are two deliberate differences from it. Groups of different priority (expander
`priority`) are never similar, since their owner prefers one. And groups need not take the same pods: each pod goes to a group
of the bundle that takes it, so one pod with a volume in one zone does not end the balancing of all others. Labels that differ
from node to node, or whose value is the group's name, are ignored, since no list of keys can name them all.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np

from slackwater.controllers.scaleup.groups import Template
from slackwater.controllers.scaleup.template import lone_labels
from slackwater.controllers.scaleup.template_nodes import TemplateNodes
from slackwater.model.nodegroups import GroupName
from slackwater.model.objects import Node
from slackwater.snapshot.node_facts import CPU, MEMORY, PODS

#: Labels that similar groups may differ in: names, places, and the providers' own labels of groups.
IGNORED_LABELS: Final = frozenset(
    {
        "kubernetes.io/hostname",
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
        "beta.kubernetes.io/fluentd-ds-ready",
        "kops.k8s.io/instancegroup",
        "slackwater.dev/node-group",
        "alpha.eksctl.io/nodegroup-name",
        "eks.amazonaws.com/nodegroup",
        "k8s.amazonaws.com/eniConfig",
        "topology.ebs.csi.aws.com/zone",
        "topology.k8s.aws/zone-id",
        "agentpool",
        "kubernetes.azure.com/agentpool",
        "topology.disk.csi.azure.com/zone",
        "cloud.google.com/gke-nodepool",
        "topology.gke.io/zone",
    }
)
#: How far amounts may differ, in percent of the larger one.
_PERCENT: Final = 5


def bundles(
    template_nodes: TemplateNodes,
    groups: Sequence[int],
    *,
    ranks: Sequence[int | None],
    balance: bool,
    ignored_labels: frozenset[str] = frozenset(),
) -> list[tuple[int, ...]]:
    """Finds the bundles of similar groups among `groups`; a group may be in several. Groups are given by position, sorted in
    each bundle. `ranks`: the priority of each group, None without one. `balance` False: each group is a bundle of its own."""
    if not balance:
        return [(group,) for group in groups]
    labels = _labels(template_nodes, groups, IGNORED_LABELS | ignored_labels)
    classes: dict[object, _Class] = {}
    for group in groups:
        node = template_nodes.node(group)
        taints = tuple(sorted(map(str, node.taints)))
        said = (ranks[group], frozenset(labels[group].items()), taints, _other_resources(node))
        alone = group if template_nodes.all_or_nothing(group) else None
        classes.setdefault((*said, alone), _Class()).add(group, _amounts(template_nodes, group))
    found = [bundle for each in classes.values() for bundle in each.bundles()]
    return sorted(dict.fromkeys(found))


class _Class:
    """Groups that differ in nothing but amounts, by their amounts. Cloud providers sell few sizes, so there are few keys."""

    def __init__(self) -> None:
        self._by_amounts: dict[tuple[int, ...], list[int]] = {}

    def add(self, group: int, amounts: tuple[int, ...]) -> None:
        self._by_amounts.setdefault(amounts, []).append(group)

    def bundles(self) -> Iterator[tuple[int, ...]]:
        table = np.array(list(self._by_amounts), np.int64)
        members = list(self._by_amounts.values())
        for own, amounts in enumerate(table):
            near = (100 * np.abs(table - amounts) <= _PERCENT * np.maximum(table, amounts)).all(axis=1)
            near[own] = True  # needed if DaemonSets request more than the node has: a negative amount is not near itself
            yield tuple(sorted(group for at in np.flatnonzero(near).tolist() for group in members[at]))


def _amounts(template_nodes: TemplateNodes, group: int) -> tuple[int, ...]:
    """The amounts in which similar groups may differ by `_PERCENT`: allocatable CPU and memory, and what the DaemonSets leave
    of CPU, memory and the number of pods."""
    has = template_nodes.node(group).allocatable
    return (has.cpu, has.memory, *(int(template_nodes.empty[line, group]) for line in (CPU, MEMORY, PODS)))


def _labels(template_nodes: TemplateNodes, groups: Sequence[int], ignored: frozenset[str]) -> dict[int, dict[str, str]]:
    """For each group, the labels that are compared."""
    templates = {group: template_nodes.template(group) for group in groups}
    lone = lone_labels([template.node.labels for template in templates.values() if template.n_models == 1])
    shared = {key for each in templates.values() if each.n_models != 1 for key in each.node.labels if key not in each.differing}
    by_node = lone.union(*(template.differing for template in templates.values())) - shared
    return {
        group: _own_labels(template, ignored | by_node, template_nodes.groups[group].name)
        for group, template in templates.items()
    }


def _own_labels(template: Template, ignored: frozenset[str], name: GroupName) -> dict[str, str]:
    own = ignored | template.differing
    return {key: value for key, value in template.node.labels.items() if key not in own and value != name}


def _other_resources(node: Node) -> frozenset[tuple[str, int]]:
    return frozenset(_amounts_except(node.scalars, ("pods", "ephemeral-storage")))


def _amounts_except(scalars: Iterable[tuple[str, int]], names: Sequence[str]) -> Iterable[tuple[str, int]]:
    return ((name, amount) for name, amount in scalars if amount and name not in names)
