"""What a drain begins with, and what it reports to the autoscaler: the reports leave the state machine as effects."""

from dataclasses import dataclass
from typing import Literal

from slackwater.model.ids import NodeName, PodKey, UnixTime
from slackwater.model.nodegroups import GroupName
from slackwater.model.objects import Pod
from slackwater.model.unremovable_reasons import UnremovableReason

Phase = Literal["marking", "marked", "evicting", "delaying", "removing", "leaving", "unmarking", "ended"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainOrder:
    """What is to be removed. `empty`: as a node without pods, and only so. `stamp` is the taint's time. `ready` and `gpu`: what
    the node was, for those who count. `destinations`: where the plan sees each pod go, for people; none after a restart."""

    node: NodeName
    uid: str
    group: GroupName
    empty: bool
    stamp: UnixTime
    ready: bool = True
    gpu: bool = False
    destinations: tuple[tuple[PodKey, NodeName], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainEnd:
    """A drain has ended. removed: the node is gone, by our doing. gone: by somebody else's. rolled-back: the node stays, for
    the reason given."""

    order: DrainOrder
    outcome: Literal["removed", "gone", "rolled-back"]
    unremovable_reason: UnremovableReason | None
    detail: str
    seconds: float
    evicted: int


@dataclass(frozen=True, slots=True)
class RemoveNode:
    """Asks the node group's provider to delete the machine of a node. Ends as `NodeRemoved`."""

    node: NodeName
    group: GroupName


@dataclass(frozen=True, slots=True)
class PodEvicted:
    """An eviction was accepted, or the pod was gone: the autoscaler keeps room for its successor for a while."""

    pod: Pod


DrainReport = RemoveNode | PodEvicted | DrainEnd
