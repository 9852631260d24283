"""Node groups as their provider reports them: how large each may be and is asked to be, and what it has of nodes.

What flows through: a provider's answer, refreshed once a loop. Deliberately absent: what we remember of a group between loops
(cool-downs, back-off, what was asked of it), and everything that decides.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, NewType

from slackwater.model.ids import NodeName
from slackwater.model.objects import Node
from slackwater_protocol.names import NODE_GROUP

GroupName = NewType("GroupName", str)
#: How the provider names a machine: what a Node carries as `spec.providerID`.
InstanceId = NewType("InstanceId", str)

#: out-of-resources: the provider has no more of these for now. quota: the account may have no more. other: anything else.
InstanceErrorKind = Literal["out-of-resources", "quota", "other"]


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceError:
    """Why an instance was not created: `code` is the provider's own word for it, `message` its text."""

    kind: InstanceErrorKind
    code: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """A machine of a group, whether its node has registered or not.

    `node` is the name of its Node, None where the provider does not know it: then the Node is found by `id`. creating: it is
    on its way, with an `error` it will not come by itself. running: the machine is there, its Node may still be missing.
    """

    id: InstanceId
    state: Literal["creating", "running", "deleting"]
    node: NodeName | None = None
    error: InstanceError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOptions:
    """What a provider says of one group's own rules; None where it says nothing, then the configuration's hold."""

    utilization_threshold: float | None = None
    gpu_utilization_threshold: float | None = None
    unneeded_seconds: float | None = None
    unready_seconds: float | None = None
    #: For how long an instance may be on its way before it counts as lost.
    provision_seconds: float | None = None
    ignore_daemon_sets: bool | None = None
    #: The group is either empty or at its maximum.
    all_or_nothing: bool | None = None


NO_OPTIONS: Final = GroupOptions()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroup:
    """A group as its provider has it now.

    `target` counts what is there, what is on its way and what was asked for; what is being deleted no more. `template` is a
    node as a new one would be, None where the provider cannot say: then a real node of the group is copied.
    """

    name: GroupName
    provider: str
    min_size: int
    max_size: int
    target: int
    instances: tuple[Instance, ...]
    template: Node | None = None
    options: GroupOptions = NO_OPTIONS


class Membership:
    """Which group a node belongs to: the one its label names, else the one whose provider knows its machine.

    The label counts only where it names one of the groups, so that a node which was copied from elsewhere belongs to nobody.
    """

    def __init__(self, groups: Iterable[NodeGroup]) -> None:
        known = tuple(groups)
        self._names = frozenset(group.name for group in known)
        self._by_id = {instance.id: group.name for group in known for instance in group.instances}

    def group_of(self, node: Node) -> GroupName | None:
        label = GroupName(node.labels.get(NODE_GROUP, ""))
        if label in self._names:
            return label
        return self._by_id.get(InstanceId(node.provider_id)) if node.provider_id else None
