"""Node groups for a shadow whose configuration names none: those that the labels of nodes name.

In: the cluster's nodes, as the watch has shown them. Out: groups as a provider would report them. A shadow changes no group, so
it needs no provider; of a group that labels alone show it is assumed what `BY_LABELS` says.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from slackwater.app.offline.known_groups import KnownGroup, labelled_groups, with_group_labels
from slackwater.app.settings import Settings
from slackwater.app.settings.autoscaling import NodeGroup as GroupSettings
from slackwater.app.settings.autoscaling import Providers
from slackwater.model.ids import NodeName
from slackwater.model.nodegroups import GroupName, Instance, InstanceId, NodeGroup
from slackwater.model.objects import Node

_PROVIDER: Final = "labels"
#: Bounds what many values of a label cost. Further groups are left out, and the note says so.
_MOST: Final = 500
BY_LABELS: Final = (
    "node groups are those that labels of nodes name: each may have from 0 to "
    f"{GroupSettings(name='any').max_size} nodes, and a new node is as the group's present ones are"
)


def by_labels(settings: Settings) -> bool:
    """Are a shadow's groups found by labels, because the configuration names neither groups nor a provider?"""
    autoscaler = settings.autoscaler
    return settings.mode == "shadow" and not autoscaler.node_groups and autoscaler.providers == Providers()


class LabelledGroups:
    """Implements `ports.protocols.GroupReader`. A group without nodes stays known for the life of the process."""

    name: Final = _PROVIDER

    def __init__(self, nodes: Callable[[], Sequence[Node]]) -> None:
        self._nodes = nodes
        self._seen: dict[GroupName, NodeGroup] = {}

    async def groups(self, *, timeout_seconds: float) -> Sequence[NodeGroup]:
        nodes = {node.name: node for node in self._nodes()}
        self._seen = {name: replace(group, target=0, instances=()) for name, group in self._seen.items()}
        for found in labelled_groups(with_group_labels(tuple(nodes.values())), ()):
            if found.group.name in self._seen or len(self._seen) < _MOST:
                self._seen[found.group.name] = _with_instances(found, nodes)
        return [self._seen[name] for name in sorted(self._seen)]


def _with_instances(found: KnownGroup, nodes: dict[NodeName, Node]) -> NodeGroup:
    instances = (
        Instance(id=InstanceId(nodes[name].provider_id or name), state="running", node=name) for name in sorted(found.nodes)
    )
    return replace(found.group, provider=_PROVIDER, instances=tuple(instances))
