"""Effects: writes, reads and reports that `StateMachine` returns.

- The dispatcher makes an API call for each `ApiEffect`. An effect names its object also by UID, so that a write meant for one
  pod never reaches a later pod of the same name.
- `DrainReport`: what a drain reports to the autoscaler. `DrainOrder` is the order that starts a drain.
"""

from typing import Literal

from msgspec import Struct

from slackwater.model.ids import NodeName, PodKey, PodUid, UnixTime
from slackwater.model.nodegroups import GroupName
from slackwater.model.objects import Pod, Taint
from slackwater.model.reasons import UnremovableReason
from slackwater.model.resources import Amounts

Phase = Literal["marking", "marked", "evicting", "delaying", "removing", "leaving", "unmarking", "ended"]


class DrainOrder(Struct, frozen=True, kw_only=True):
    """The order to remove one node. `stamp` is the time that is written into the node's taint.

    `empty`: the node has no pods to move, and is removed only as long as that is so. `ready` and `gpu` describe the node for
    metrics. `destinations` say where the plan expects each pod to go; room is kept there. Empty after a restart. `stops_at`:
    the machine stops then, whatever we do (Unix time), so all pods leave at once, wherever they go; None: it does not.
    """

    node: NodeName
    uid: str
    group: GroupName
    empty: bool
    stamp: UnixTime
    ready: bool = True
    gpu: bool = False
    destinations: tuple[tuple[PodKey, NodeName], ...] = ()
    stops_at: UnixTime | None = None


class DrainEnd(Struct, frozen=True, kw_only=True):
    """Reports the end of a drain. Outcomes: "removed": we removed the node. "gone": another client deleted it. "rolled-back":
    the node stays, with the reason."""

    order: DrainOrder
    outcome: Literal["removed", "gone", "rolled-back"]
    unremovable_reason: UnremovableReason | None
    detail: str
    seconds: float
    evicted: int


class RemoveNode(Struct, frozen=True):
    """Asks the node group's provider to delete the machine of a node. Ends as `NodeRemoved`."""

    node: NodeName
    group: GroupName


class PodEvicted(Struct, frozen=True):
    """Reports that an eviction was accepted, or that the pod was already gone. The autoscaler keeps room for the pod's
    successor for a while."""

    pod: Pod


class FindDestinations(Struct, frozen=True):
    """Asks where these pods of a draining node fit now, by the whole fit on the present state. Ends as `DestinationsFound`."""

    node: NodeName
    pods: tuple[PodUid, ...]


DrainReport = RemoveNode | PodEvicted | DrainEnd | FindDestinations


class Bind(Struct, frozen=True):
    """Creates the Binding of a pod to a node (POST). Ends as `BindEnded`."""

    uid: PodUid
    key: PodKey
    node: NodeName


class Activate(Struct, frozen=True):
    """Patches an annotation of a pending pod: kube-scheduler then tries the pod again within about 100 ms (seen with
    kube-scheduler 1.36)."""

    uid: PodUid
    key: PodKey
    why: str


class OpenGate(Struct, frozen=True):
    """Removes our entry from a pending pod's `spec.schedulingGates`: kube-scheduler then tries the pod at once. May be
    repeated."""

    uid: PodUid
    key: PodKey
    why: str


class Nominate(Struct, frozen=True):
    """Patches status.nominatedNodeName of a pending pod: kube-scheduler then tries that node first and alone (seen with
    kube-scheduler 1.36)."""

    uid: PodUid
    key: PodKey
    node: NodeName


class ReadPod(Struct, frozen=True):
    """Reads the pod (GET), because the watch has not shown how its bind ended. Ends as `PodRead` or `PodGone`."""

    uid: PodUid
    key: PodKey


class Announce(Struct, frozen=True):
    """Publishes an Event for people: on a pod, on a node (without a namespace), or on the status ConfigMap (whose UID is not
    known here).

    It may be dropped under load; nothing depends on it.
    """

    uid: PodUid
    key: PodKey
    type: Literal["Normal", "Warning"]
    reason: str
    note: str
    about: Literal["Pod", "Node", "ConfigMap"] = "Pod"


class WritePermit(Struct, frozen=True, kw_only=True):
    """Sets the permit annotation of a VirtualMachine or a Pod (`on`) to `text`, if its text is still `before`.

    `uid` and `key` name the annotated object, `pod` the pod whose permit it is. Ends as `PermitWritten` or `PermitNotWritten`.
    """

    uid: str
    key: PodKey
    on: Literal["machine", "pod"]
    pod: PodUid
    before: str | None
    text: str


class Resize(Struct, frozen=True, kw_only=True):
    """Patches `pods/resize` of a plain pod: the container then requests `to`, and limits that equal the request change with it.

    The watch shows the result.
    """

    uid: PodUid
    key: PodKey
    container: str
    to: Amounts
    limits: tuple[bool, bool]


class CreateMigration(Struct, frozen=True, kw_only=True):
    """Creates a VirtualMachineMigration named `name` for the machine of the pod `uid`, to `target_node` (POST).

    Ends as `MigrationStarted` or `MigrationNotStarted`.
    """

    uid: PodUid
    key: PodKey
    name: str
    machine: str
    target_node: NodeName


class DeleteMigration(Struct, frozen=True):
    """Deletes a finished VirtualMachineMigration of ours. Ends as `MigrationDeleteEnded`."""

    uid: str
    key: PodKey


class WritePreempting(Struct, frozen=True):
    """Sets the annotation `slackwater.dev/preempting` of a pending preemptor to `text`; None removes it.

    Ends as `PreemptingWritten` or `PreemptingNotWritten`.
    """

    uid: PodUid
    key: PodKey
    text: str | None


class DeleteVictim(Struct, frozen=True):
    """Sets the condition DisruptionTarget (reason PreemptionByScheduler) on a victim, then deletes the victim.

    Ends as `VictimEnded`, or as `PodGone` if the victim was already gone.
    """

    uid: PodUid
    key: PodKey
    preemptor: PodKey


class MarkNode(Struct, frozen=True, kw_only=True):
    """Puts the taint on a node, in place of one with the same key. With `cordon` it also makes a schedulable node
    unschedulable, and an annotation then says that we did so. Ends as `NodeMarked`."""

    uid: str
    name: NodeName
    taint: Taint
    cordon: bool = False

    @property
    def key(self) -> PodKey:
        return PodKey("", self.name)


class UnmarkNode(Struct, frozen=True, kw_only=True):
    """Removes the taint with that key from a node. With `uncordon` it also makes the node schedulable again if `MarkNode` had
    made it unschedulable. Ends as `NodeUnmarked`."""

    uid: str
    name: NodeName
    taint_key: str
    uncordon: bool = False

    @property
    def key(self) -> PodKey:
        return PodKey("", self.name)


class Evict(Struct, frozen=True, kw_only=True):
    """Creates the eviction of a pod (POST), which its PodDisruptionBudgets may block; with `force` deletes the pod instead.
    Ends as `EvictionEnded`.

    `grace_seconds` is how long the pod has to end; None: as long as its own spec says.
    """

    uid: PodUid
    key: PodKey
    node: NodeName
    grace_seconds: int | None = None
    force: bool = False


#: The effects on a single pod that is placed, or makes room for one.
PodEffect = Bind | Activate | OpenGate | Nominate | ReadPod | WritePreempting | DeleteVictim
VerticalEffect = WritePermit | Resize | CreateMigration | DeleteMigration
DrainEffect = MarkNode | UnmarkNode | Evict
#: Effects that are calls of the API server.
ApiEffect = PodEffect | Announce | VerticalEffect | DrainEffect
Effect = ApiEffect | DrainReport
