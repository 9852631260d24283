"""Node groups as their provider reports them: how large each may be and is asked to be, and what it has of nodes.

What flows through: a provider's answer, refreshed once a loop. Deliberately absent: what we remember of a group between loops
(cool-downs, back-off, what was asked of it), and everything that decides.
"""

from dataclasses import dataclass
from typing import Literal, NewType

from slackwater.model.ids import NodeName
from slackwater.model.objects import Node

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

    `node` is the name of its Node, None where the provider does not know it: then the Node is found by `id`.
    """

    id: InstanceId
    state: Literal["creating", "running", "deleting"]
    node: NodeName | None = None
    error: InstanceError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroup:
    """A group as its provider has it now.

    `target` counts what is there, what is on its way and what was asked for. `template` is a node as a new one would be, None
    where the provider cannot say: then a real node of the group is copied.
    """

    name: GroupName
    provider: str
    min_size: int
    max_size: int
    target: int
    instances: tuple[Instance, ...]
    template: Node | None = None
