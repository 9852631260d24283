"""Node groups as what-if sees them: those of a configuration, with the nodes that labels give them, or those of a live fleet.

What flows through: settings and labels, or what providers said, into one value for each group. Deliberately absent: what a new
node looks like, and planning.
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
    """A group, the Nodes that it had when `group` was true, and how many machines without a Node are on their way.

    `starting` of the Nodes have never been ready for pods: they count as on their way too. `bar`: why it may not grow.
    """

    group: NodeGroup
    nodes: frozenset[NodeName] = frozenset()
    starting: frozenset[NodeName] = frozenset()
    coming: int = 0
    skip_reason: SkipReason | None = None


def labelled_groups(nodes: Sequence[Node], configured: Sequence[GroupSettings]) -> tuple[KnownGroup, ...]:
    """The groups of a configuration; without any those that nodes' labels name, each as large as groups are by default."""
    by_group: dict[str, list[NodeName]] = {}
    for node in nodes:
        if name := node.labels.get(NODE_GROUP):
            by_group.setdefault(name, []).append(node.name)
    entries = configured or [GroupSettings(name=name) for name in sorted(by_group)]
    return tuple(configured_group(entry, by_group) for entry in entries)


def configured_group(entry: GroupSettings, by_group: Mapping[str, Sequence[NodeName]]) -> KnownGroup:
    """A group as the configuration alone tells it, with the nodes that carry its label."""
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
