"""Node groups as their provider reports them: their sizes and their instances.

A provider's answer, refreshed once a loop, becomes these values. Deliberately absent: what we remember of a group between loops
(cool-downs, back-off, requested sizes), and all decisions.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, NewType

from slackwater.model.ids import NodeName
from slackwater.model.objects import Node
from slackwater_protocol.names import NODE_GROUP

GroupName = NewType("GroupName", str)
#: The provider's name of a machine, which a Node carries as `spec.providerID`.
InstanceId = NewType("InstanceId", str)

#: - out-of-resources: the provider has no more of these for now.
#: - quota: the quota of the account is used up.
#: - other: anything else.
InstanceErrorKind = Literal["out-of-resources", "quota", "other"]


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceError:
    """Why an instance was not created: `code` is the provider's error code, `message` its text."""

    kind: InstanceErrorKind
    code: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """A machine of a group, whether its node has registered or not.

    `node` is the name of its Node, None where the provider does not know it: then the Node is found by `id`. creating: the
    machine is being created; with an `error` it will not come by itself. running: the machine exists, its Node may still be
    missing.
    """

    id: InstanceId
    state: Literal["creating", "running", "deleting"]
    node: NodeName | None = None
    error: InstanceError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOptions:
    """A provider's options for one group. Where a field is None, the configuration's value applies."""

    utilization_threshold: float | None = None
    gpu_utilization_threshold: float | None = None
    unneeded_seconds: float | None = None
    unready_seconds: float | None = None
    #: An instance that has not come after this time counts as lost.
    provision_seconds: float | None = None
    ignore_daemon_sets: bool | None = None
    #: The group is either empty or at its maximum.
    all_or_nothing: bool | None = None


NO_OPTIONS: Final = GroupOptions()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroup:
    """A node group as its provider has it now.

    `target` counts existing, upcoming and requested instances, but none that is being deleted. `template` is a node as a new
    one would be, None where the provider cannot say: then a real node of the group is copied.
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
    """Maps a node to its group: the group that its label names, else the group whose provider knows its machine.

    The label counts only where it names one of the groups, so that a node copied from another cluster belongs to none.
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
