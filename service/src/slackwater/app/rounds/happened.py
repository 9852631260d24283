"""What happens in the rounds, as values that an observer gets at once, each with its time."""

from collections.abc import Callable
from dataclasses import dataclass

from slackwater.controllers.scaledown.state import Removable
from slackwater.model.ids import NodeName, UnixTime
from slackwater.model.nodegroups import GroupName
from slackwater.model.objects import Pod


@dataclass(frozen=True, slots=True)
class Ordered:
    """Machines of a group were ordered, for these pods. `replacing`: for a move of a consolidation."""

    at: UnixTime
    group: GroupName
    nodes: tuple[NodeName, ...]
    pods: tuple[Pod, ...]
    replacing: bool


@dataclass(frozen=True, slots=True)
class Came:
    """Nodes came."""

    at: UnixTime
    nodes: tuple[NodeName, ...]


@dataclass(frozen=True, slots=True)
class RemovalBegan:
    """The removal of a node began. `replaced`: a move of a consolidation replaces it."""

    at: UnixTime
    removable: Removable
    replaced: bool


@dataclass(frozen=True, slots=True)
class RemovalEnded:
    """The removal of a node ended. `problem`: why it was given up; "" if the node is gone."""

    at: UnixTime
    node: NodeName
    problem: str


@dataclass(frozen=True, slots=True)
class Bound:
    """A pod that waited got a node."""

    at: UnixTime
    pod: Pod


Happened = Ordered | Came | RemovalBegan | RemovalEnded | Bound
Observer = Callable[[Happened], None]


def nobody(_: Happened) -> None:
    """The observer of rounds that nobody observes."""
