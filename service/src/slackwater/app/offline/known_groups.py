"""Node groups for what-if, each with its nodes as a `KnownGroup`.

A group comes from the configuration, with the nodes that carry its label, or from a running service (`whatif.question`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from msgspec import structs

from slackwater.app.node_templates import template_node
from slackwater.app.settings.autoscaling import NodeGroup as GroupSettings
from slackwater.app.settings.autoscaling import Template
from slackwater.cluster.nodegroups.status import BoughtNode
from slackwater.controllers.scaleup.groups import SkipReason
from slackwater.model.ids import NodeName
from slackwater.model.nodegroups import CLOUD_CHOOSES, EVEN_ZONES, GroupName, NodeGroup, VariantChoice, choice_of_provider
from slackwater.model.objects import Node
from slackwater_protocol.names import NODE_GROUP


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownGroup:
    """A node group with its Nodes.

    `nodes`: the names of the Nodes that the group had when `group` was read. `starting`: those Nodes that have never been ready
    for pods; they count as upcoming. `bought`: nodes of its last purchase, from which its template is made. `coming`: the
    number of machines on their way that have no Node yet. `skip_reason`: why the group may not grow.
    """

    group: NodeGroup
    nodes: frozenset[NodeName] = frozenset()
    starting: frozenset[NodeName] = frozenset()
    bought: tuple[BoughtNode, ...] = ()
    coming: int = 0
    skip_reason: SkipReason | None = None


#: The labels by which clouds, Karpenter and kops name the group of a node, in the order in which they are looked for.
CLOUD_GROUP_LABELS: Final = (
    "eks.amazonaws.com/nodegroup",
    "cloud.google.com/gke-nodepool",
    "kubernetes.azure.com/agentpool",
    "agentpool",
    "karpenter.sh/nodepool",
    "doks.digitalocean.com/node-pool",
    "kops.k8s.io/instancegroup",
)


def with_group_labels(nodes: Sequence[Node], labels: Sequence[str] = CLOUD_GROUP_LABELS) -> tuple[Node, ...]:
    """The nodes with our group label. A node without it gets the value of the first of `labels` that it has."""
    return tuple(_labelled(node, labels) for node in nodes)


def group_label(node: Node, labels: Sequence[str] = CLOUD_GROUP_LABELS) -> str | None:
    """The group that a label of the node names: ours, or else the first of `labels` that it has."""
    return next((value for key in (NODE_GROUP, *labels) if (value := node.labels.get(key))), None)


def _labelled(node: Node, labels: Sequence[str]) -> Node:
    name = group_label(node, labels)
    if name is None or node.labels.get(NODE_GROUP):
        return node
    return structs.replace(node, labels={**node.labels, NODE_GROUP: name})


def labelled_groups(nodes: Sequence[Node], configured: Sequence[GroupSettings]) -> tuple[KnownGroup, ...]:
    """The groups of the configuration with their nodes. If none is configured: a group with default limits for each value of
    the nodes' group label."""
    by_group: dict[str, list[Node]] = {}
    for node in nodes:
        if name := node.labels.get(NODE_GROUP):
            by_group.setdefault(name, []).append(node)
    entries = configured or [GroupSettings(name=name) for name in sorted(by_group)]
    return tuple(configured_group(entry, by_group.get(entry.name, ())) for entry in entries)


def configured_group(entry: GroupSettings, nodes: Sequence[Node]) -> KnownGroup:
    """The group of one configuration entry. `nodes`: those whose group label names it."""
    names = frozenset(node.name for node in nodes)
    template = template_node(entry.name, entry.template) if entry.template != Template() else None
    choice = _choice(entry, nodes)
    group = NodeGroup(
        name=GroupName(entry.name),
        provider=entry.provider,
        min_size=entry.min_size,
        max_size=entry.max_size,
        target=len(names),
        instances=(),
        template=template,
        choice=choice if template is None else choice.settled_by(template),
        id=entry.id or "",
    )
    skip_reason = None if entry.enabled else SkipReason(kind="switched-off", text="the group is switched off")
    return KnownGroup(group=group, nodes=names, skip_reason=skip_reason)


#: Who chooses the variant of a new node, by the label that names its group, as far as that is not a scaling group of a cloud.
#: Karpenter makes a node for the pods that wait. A GKE pool has an instance group for each zone, and each grows by itself.
_CHOICES: Final = {
    "karpenter.sh/nodepool": VariantChoice("plan", "plan"),
    "cloud.google.com/gke-nodepool": VariantChoice(zones="plan"),
}


def _choice(entry: GroupSettings, nodes: Sequence[Node]) -> VariantChoice:
    """Who chooses the variant of the group's new nodes, by the label that names the group, and else by its provider. A group of
    the default provider, kwok, without a template is one of whose provider nothing is known."""
    of_provider = choice_of_provider(entry.provider, entry.id or entry.name)
    if entry.provider == "kwok":
        if entry.template != Template():
            return of_provider
        of_provider = CLOUD_CHOOSES
    label = next((key for key in CLOUD_GROUP_LABELS for node in nodes if node.labels.get(key) == entry.name), None)
    return of_provider if label is None else _CHOICES.get(label, EVEN_ZONES)
