"""Node groups as what-if uses them, one `KnownGroup` each.

A group comes either from the configuration, with the nodes that carry its label, or from a running service (`whatif.live`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from slackwater.app.clouds import template_node
from slackwater.app.settings.autoscaling import NodeGroup as GroupSettings
from slackwater.controllers.scaleup.groups import SkipReason
from slackwater.model.ids import NodeName
from slackwater.model.nodegroups import GroupName, NodeGroup
from slackwater.model.objects import Node
from slackwater_protocol.names import NODE_GROUP


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownGroup:
    """A node group with its Nodes.

    `nodes`: the names of the Nodes that the group had when `group` was read. `starting`: those Nodes that have never been ready
    for pods; they count as upcoming. `coming`: the number of machines on their way that have no Node yet. `skip_reason`: why
    the group may not grow.
    """

    group: NodeGroup
    nodes: frozenset[NodeName] = frozenset()
    starting: frozenset[NodeName] = frozenset()
    coming: int = 0
    skip_reason: SkipReason | None = None


def labelled_groups(nodes: Sequence[Node], configured: Sequence[GroupSettings]) -> tuple[KnownGroup, ...]:
    """The groups of the configuration with their nodes. If none is configured: a group with default limits for each value of
    the nodes' group label."""
    by_group: dict[str, list[NodeName]] = {}
    for node in nodes:
        if name := node.labels.get(NODE_GROUP):
            by_group.setdefault(name, []).append(node.name)
    entries = configured or [GroupSettings(name=name) for name in sorted(by_group)]
    return tuple(configured_group(entry, by_group) for entry in entries)


def configured_group(entry: GroupSettings, by_group: Mapping[str, Sequence[NodeName]]) -> KnownGroup:
    """The group of one configuration entry. `by_group` has the names of the nodes by the value of their group label."""
    says = entry.template.status.capacity or entry.template.status.allocatable
    names = frozenset(by_group.get(entry.name, ()))
    group = NodeGroup(
        name=GroupName(entry.name),
        provider=entry.provider,
        min_size=entry.min_size,
        max_size=entry.max_size,
        target=len(names),
        instances=(),
        template=template_node(entry.name, entry.template) if says else None,
    )
    skip_reason = None if entry.enabled else SkipReason(kind="switched-off", text="the group is switched off")
    return KnownGroup(group=group, nodes=names, skip_reason=skip_reason)
