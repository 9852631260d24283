"""Node groups for a shadow whose configuration names none: those that the labels of nodes name.

In: the cluster's nodes, as the watch has shown them. Out: groups as a provider would report them. A shadow changes no group, so
it needs no provider; of a group that labels alone show it is assumed what `BY_LABELS` says.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from slackwater.app.offline.known_groups import configured_group, group_label
from slackwater.app.settings import Settings
from slackwater.app.settings.autoscaling import NodeGroup as GroupSettings
from slackwater.app.settings.autoscaling import Providers
from slackwater.model.nodegroups import GroupName, Instance, InstanceId, NodeGroup
from slackwater.model.objects import Node

_PROVIDER: Final = "labels"
#: Bounds what many values of a label cost. Further groups are left out.
_MOST: Final = 500
BY_LABELS: Final = (
    f"node groups are those that labels of nodes name, the first {_MOST} of them: each may have from 0 to "
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
        of_group: dict[str, list[Node]] = {}
        for node in self._nodes():
            if (label := group_label(node)) is not None:
                of_group.setdefault(label, []).append(node)
        for label, nodes in of_group.items():
            if GroupName(label) not in self._seen and len(self._seen) < _MOST:
                found = configured_group(GroupSettings(name=label), nodes).group
                self._seen[found.name] = replace(found, provider=_PROVIDER)
        return [_with_nodes(self._seen[name], of_group.get(name, ())) for name in sorted(self._seen)]


def _with_nodes(group: NodeGroup, nodes: Sequence[Node]) -> NodeGroup:
    instances = (Instance(id=InstanceId(node.provider_id or node.name), state="running", node=node.name) for node in nodes)
    return replace(group, target=len(nodes), instances=tuple(instances))
