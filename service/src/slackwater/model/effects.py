"""What should be done outside: values that `StateMachine` returns and the dispatcher carries out.

Each names its object by UID as well, so that a write meant for one pod never meets its successor of the same name.
"""

from dataclasses import dataclass
from typing import Literal

from slackwater.model.drains import DrainReport
from slackwater.model.ids import NodeName, PodKey, PodUid
from slackwater.model.objects import Taint
from slackwater.model.resources import Amounts


@dataclass(frozen=True, slots=True)
class Bind:
    """POST the Binding of a pod to a node. Ends as `BindEnded`."""

    uid: PodUid
    key: PodKey
    node: NodeName


@dataclass(frozen=True, slots=True)
class Activate:
    """Patch an annotation of a pending pod: kube-scheduler then tries it again within about 100 ms (seen with kube-scheduler
    1.36)."""

    uid: PodUid
    key: PodKey
    why: str


@dataclass(frozen=True, slots=True)
class OpenGate:
    """Takes our entry out of a pending pod's `spec.schedulingGates`: kube-scheduler then tries it at once. May be repeated."""

    uid: PodUid
    key: PodKey
    why: str


@dataclass(frozen=True, slots=True)
class Nominate:
    """Patch status.nominatedNodeName: kube-scheduler tries that node first and alone (seen with kube-scheduler 1.36)."""

    uid: PodUid
    key: PodKey
    node: NodeName


@dataclass(frozen=True, slots=True)
class Steer:
    """Patch status.nominatedNodeName of a pod that kube-scheduler has not tried yet, if the pod still is what it was in
    `version`; with `opens` our gate is taken out of it then, so that kube-scheduler never sees it without the nomination.

    Ends as `SteerEnded`.
    """

    uid: PodUid
    key: PodKey
    node: NodeName
    version: int
    opens: bool = False


@dataclass(frozen=True, slots=True)
class ReadPod:
    """GET the pod, because the watch has not told what became of it. Ends as `PodRead` or `PodGone`."""

    uid: PodUid
    key: PodKey


@dataclass(frozen=True, slots=True)
class Announce:
    """An Event on a pod, on a node (without a namespace), or on the status object (whose uid nobody here knows), for people.

    Dropped under load; nothing depends on it.
    """

    uid: PodUid
    key: PodKey
    type: Literal["Normal", "Warning"]
    reason: str
    note: str
    about: Literal["Pod", "Node", "ConfigMap"] = "Pod"


@dataclass(frozen=True, slots=True, kw_only=True)
class WritePermit:
    """Sets the permit annotation of a VirtualMachine (`on` machine) or a Pod to `text`, if it is still `before`.

    `uid` and `key` are that object's, `pod` is the pod that it stands for. Ends as `PermitWritten` or `PermitNotWritten`.
    """

    uid: str
    key: PodKey
    on: Literal["machine", "pod"]
    pod: PodUid
    before: str | None
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Resize:
    """Patch `pods/resize` of a plain pod, so that its container requests `to`; limits follow where they equal the request.

    The watch tells what comes of it.
    """

    uid: PodUid
    key: PodKey
    container: str
    to: Amounts
    limits: tuple[bool, bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateMigration:
    """POST a VirtualMachineMigration named `name` for the machine of the pod `uid`, which is to land on `landing`.

    Ends as `MigrationStarted` or `MigrationNotStarted`.
    """

    uid: PodUid
    key: PodKey
    name: str
    machine: str
    target_node: NodeName


@dataclass(frozen=True, slots=True)
class DeleteMigration:
    """DELETE a finished VirtualMachineMigration of ours. Ends as `MigrationDeleteEnded`."""

    uid: str
    key: PodKey


@dataclass(frozen=True, slots=True)
class WritePreempting:
    """Sets annotation `slackwater.dev/preempting` of a pending preemptor to `text`; None takes it away.

    Ends as `PreemptingWritten` or `PreemptingNotWritten`.
    """

    uid: PodUid
    key: PodKey
    text: str | None


@dataclass(frozen=True, slots=True)
class DeleteVictim:
    """Gives a victim the condition DisruptionTarget (reason PreemptionByScheduler), then deletes it. Ends as `VictimEnded`,
    or as `PodGone` where it was gone already."""

    uid: PodUid
    key: PodKey
    preemptor: PodKey


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkNode:
    """Gives a node the taint, in place of one of the same key; with `cordon` it also becomes unschedulable, and an annotation
    remembers that it was not before. Ends as `NodeMarked`."""

    uid: str
    name: NodeName
    taint: Taint
    cordon: bool = False

    @property
    def key(self) -> PodKey:
        return PodKey("", self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnmarkNode:
    """Takes the taint of that key off a node; with `uncordon` it also becomes schedulable again where `MarkNode` had made it
    unschedulable. Ends as `NodeUnmarked`."""

    uid: str
    name: NodeName
    taint_key: str
    uncordon: bool = False

    @property
    def key(self) -> PodKey:
        return PodKey("", self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evict:
    """POST the eviction of a pod, so that its budgets are asked; with `force` its deletion instead. Ends as `EvictionEnded`.

    `grace_seconds` is how long it has to end, None: as long as the pod itself says.
    """

    uid: PodUid
    key: PodKey
    node: NodeName
    grace_seconds: int | None = None
    force: bool = False


#: What is written to a pod on its way to a node.
PlacingEffect = Bind | Activate | OpenGate | Nominate | Steer | ReadPod | WritePreempting
VerticalEffect = WritePermit | Resize | CreateMigration | DeleteMigration
DrainEffect = MarkNode | UnmarkNode | Evict
#: Effects that are calls of the API server.
ApiEffect = PlacingEffect | DeleteVictim | Announce | VerticalEffect | DrainEffect
Effect = ApiEffect | DrainReport
