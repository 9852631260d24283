"""Similar groups: finds bundles of groups that grow together, so that their sizes stay equal; usually one group for each zone.

The tolerances are Cluster Autoscaler's. There are three deliberate differences from it. Groups of different priority (expander
`priority`) are never similar, since their owner prefers one. Groups need not take the same pods: each pod goes to a group of
the bundle that takes it, so one pod with a volume in one zone does not end the balancing of all others. And for the same reason
most labels say nothing: only those that change what a machine is or costs make groups unlike. A subnet, a kernel or the name of
a scaling group differs between zones, and no list of labels to ignore can name them all.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

import numpy as np

from slackwater.controllers.scaleup.groups import Template
from slackwater.controllers.scaleup.template_nodes import TemplateNodes
from slackwater.model.objects import Node
from slackwater.snapshot.node_facts import CPU, MEMORY, PODS

#: The labels in which similar groups do not differ: what kind of machine it is, and how it is paid for.
DISTINGUISHING_LABELS: Final = (
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "node.kubernetes.io/windows-build",
    "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/instance-type",
    "karpenter.sh/capacity-type",
    "eks.amazonaws.com/capacityType",
    "cloud.google.com/gke-spot",
    "cloud.google.com/gke-preemptible",
    "cloud.google.com/gke-provisioning",
    "kubernetes.azure.com/scalesetpriority",
    "node.kubernetes.io/lifecycle",
    "nvidia.com/gpu.product",
    "cloud.google.com/gke-accelerator",
    "k8s.amazonaws.com/accelerator",
)
#: How far amounts may differ, in percent of the larger one.
_PERCENT: Final = 5


def bundles(
    template_nodes: TemplateNodes,
    groups: Sequence[int],
    *,
    ranks: Sequence[int | None],
    balance: bool,
    ignored_labels: Collection[str] = (),
) -> list[tuple[int, ...]]:
    """Finds the bundles of similar groups among `groups`; a group may be in several. Groups are given by position, sorted in
    each bundle. `ranks`: the priority of each group, None without one. `balance` False: each group is a bundle of its own."""
    if not balance:
        return [(group,) for group in groups]
    compared = [key for key in DISTINGUISHING_LABELS if key not in ignored_labels]
    classes: dict[object, _Class] = {}
    for group in groups:
        node = template_nodes.node(group)
        taints = tuple(sorted(map(str, node.taints)))
        labels = _labels(template_nodes.template(group), compared)
        said = (ranks[group], labels, taints, _other_resources(node))
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


def _labels(template: Template, compared: Iterable[str]) -> tuple[str | None, ...]:
    """The values of the compared labels; None for one that the group lacks, or of which its nodes have many."""
    return tuple(None if key in template.differing else template.node.labels.get(key) for key in compared)


def _other_resources(node: Node) -> frozenset[tuple[str, int]]:
    return frozenset(_amounts_except(node.scalars, ("pods", "ephemeral-storage")))


def _amounts_except(scalars: Iterable[tuple[str, int]], names: Sequence[str]) -> Iterable[tuple[str, int]]:
    return ((name, amount) for name, amount in scalars if amount and name not in names)
