"""What can happen to the state machine: the only things `StateMachine.apply` takes. Facts from watches, ends of API calls, and
time."""

from dataclasses import dataclass
from typing import Literal

from slackwater.model.auxiliary import AuxiliaryEvent
from slackwater.model.ids import NodeName, PodKey, PodUid
from slackwater.model.machines import Machine, VirtualMachineMigration
from slackwater.model.objects import DisruptionBudget, Node, Pod


@dataclass(frozen=True, slots=True)
class NodeSeen:
    """A node as the API server has it now."""

    node: Node


@dataclass(frozen=True, slots=True)
class NodeGone:
    """The node is deleted."""

    name: NodeName


@dataclass(frozen=True, slots=True)
class PodSeen:
    """A pod as the API server has it now. Older than what is known (by resource version): ignored."""

    pod: Pod


@dataclass(frozen=True, slots=True)
class PodRead:
    """A pod as a GET found it after `ReadPod` was asked for: unlike a watch event it cannot be older than the question."""

    pod: Pod


@dataclass(frozen=True, slots=True)
class PodGone:
    """The pod is deleted (the watch's word), or was not there when it was asked for (`read`)."""

    uid: PodUid
    key: PodKey
    read: bool = False


@dataclass(frozen=True, slots=True)
class BudgetSeen:
    """A PodDisruptionBudget as the API server has it now."""

    budget: DisruptionBudget


@dataclass(frozen=True, slots=True)
class BudgetGone:
    """The PodDisruptionBudget is deleted."""

    namespace: str
    name: str


#: bound: the API server has the binding. gone: no such pod (or another of the same name). elsewhere: bound to another node.
#: refused: the API server will not have it. unreachable: it could not be asked; nothing happened.
#: unknown: no answer in time; it may have happened or not.
#: unsent: it was given up before anything was sent.
BindOutcome = Literal["bound", "gone", "elsewhere", "refused", "unreachable", "unknown", "unsent"]


@dataclass(frozen=True, slots=True)
class BindEnded:
    """The API call of a `Bind` effect ended."""

    uid: PodUid
    node: NodeName
    outcome: BindOutcome
    detail: str


@dataclass(frozen=True, slots=True)
class Pick:
    """A pod, and the node that kube-scheduler should try first."""

    uid: PodUid
    node: NodeName


@dataclass(frozen=True, slots=True)
class PodsSteered:
    """Steering has chosen. `unfit` are pods that fit nowhere as things are."""

    picks: tuple[Pick, ...]
    unfit: tuple[PodUid, ...] = ()


@dataclass(frozen=True, slots=True)
class SteerEnded:
    """The API calls of a `Steer` effect ended; `written`: the pod says so now. Otherwise it may, where no answer came."""

    uid: PodUid
    node: NodeName
    written: bool
    detail: str = ""


@dataclass(frozen=True, slots=True)
class ActivationLost:
    """A pod could not be touched in time: whoever it was to wake still sleeps."""

    uid: PodUid
    key: PodKey
    why: str


@dataclass(frozen=True, slots=True)
class Ticked:
    """Time passed: holds expire, waits end."""


@dataclass(frozen=True, slots=True)
class Watched:
    """Time has passed in which this replica only watched, instead of `Ticked`: nothing is due, and what is long gone is
    forgotten."""


@dataclass(frozen=True, slots=True)
class TakenOver:
    """Another replica led until now, and this one watched: `Synced` follows. Whatever it took for its own is found again."""


@dataclass(frozen=True, slots=True)
class PodAudited:
    """A pod as a GET of the audit found it, after the cluster state was found to differ: it is taken as it is here.

    Ignored where the cluster state has a newer version, or knows that the pod is gone.
    """

    pod: Pod


@dataclass(frozen=True, slots=True)
class NodeDoubted:
    """Something is wrong with the sums of the node: nothing new is placed there until it has been audited."""

    name: NodeName
    why: str


@dataclass(frozen=True, slots=True)
class NodeAudited:
    """The pods of the node are those that the API server has: its sums are worked out again, and it is doubted no more."""

    name: NodeName


@dataclass(frozen=True, slots=True)
class ObjectUnreadable:
    """An object cannot be read, or what it says could not be applied. `node` is where it counts; None: nowhere.

    What was known of it before stays, and its node is closed until the object is seen again, or is gone.
    """

    uid: str
    name: str  #: "pod shop/web-2", "node n-7"
    node: NodeName | None
    why: str


@dataclass(frozen=True, slots=True)
class Synced:
    """Everything has been listed once: what comes now is news."""


@dataclass(frozen=True, slots=True)
class MachineSeen:
    """A VirtualMachine as the API server has it now."""

    machine: Machine


@dataclass(frozen=True, slots=True)
class MachineGone:
    """The VirtualMachine is deleted."""

    key: PodKey


@dataclass(frozen=True, slots=True)
class MigrationSeen:
    """A VirtualMachineMigration as the API server has it now."""

    migration: VirtualMachineMigration


@dataclass(frozen=True, slots=True)
class MigrationGone:
    """The VirtualMachineMigration is deleted."""

    key: PodKey


@dataclass(frozen=True, slots=True)
class PermitWritten:
    """The permit annotation that stands for the pod is `text` now: we wrote it, or a read after a conflict found it.

    `version` is the resource version of the object that says so.
    """

    pod: PodUid
    text: str | None
    version: int


@dataclass(frozen=True, slots=True)
class PermitNotWritten:
    """The permit annotation could not be written: the object is gone, the API server refused or could not be asked."""

    pod: PodUid
    detail: str


@dataclass(frozen=True, slots=True)
class MigrationStarted:
    """The VirtualMachineMigration for the pod is there: made by us now, or found under its name."""

    pod: PodUid


@dataclass(frozen=True, slots=True)
class MigrationNotStarted:
    """The VirtualMachineMigration for the pod was not made."""

    pod: PodUid
    detail: str


@dataclass(frozen=True, slots=True)
class MigrationDeleteEnded:
    """The API call of a `DeleteMigration` ended; `deleted` where the API server has taken it."""

    key: PodKey
    deleted: bool


@dataclass(frozen=True, slots=True)
class PreemptingWritten:
    """The preemptor's annotation is `text` now."""

    pod: PodUid
    text: str | None


@dataclass(frozen=True, slots=True)
class PreemptingNotWritten:
    """The preemptor's annotation could not be made `text`."""

    pod: PodUid
    text: str | None
    detail: str


#: accepted: the API server has the deletion; the watch tells when the pod is gone. refused: it will not have it.
#: unreachable: no answer in time; it may have happened or not.
VictimOutcome = Literal["accepted", "refused", "unreachable"]


@dataclass(frozen=True, slots=True)
class VictimEnded:
    """The API calls of a `DeleteVictim` ended."""

    uid: PodUid
    outcome: VictimOutcome
    detail: str


@dataclass(frozen=True, slots=True)
class Stopping:
    """The service is about to end: nothing new begins, and no gate stays shut."""


@dataclass(frozen=True, slots=True)
class NodeMarked:
    """The API call of a `MarkNode` ended."""

    name: NodeName
    taint_key: str
    done: bool
    detail: str


@dataclass(frozen=True, slots=True)
class NodeUnmarked:
    """The API call of an `UnmarkNode` ended."""

    name: NodeName
    taint_key: str
    done: bool
    detail: str


#: accepted: the API server has taken it; the watch tells when the pod is gone. gone: there was no such pod any more.
#: blocked: a budget allows no disruption now. refused: it will not have it. unreachable: no answer; nobody knows.
EvictionOutcome = Literal["accepted", "gone", "blocked", "refused", "unreachable"]
#: Of a node, by its provider.
RemovalOutcome = Literal["deleted", "failed", "unknown"]


@dataclass(frozen=True, slots=True)
class EvictionEnded:
    """The API call of an `Evict` ended."""

    uid: PodUid
    node: NodeName
    outcome: EvictionOutcome
    detail: str


@dataclass(frozen=True, slots=True)
class NodeRemoved:
    """The provider was asked to delete a node's machine. deleted: it has taken it. failed: it will not do it.

    unknown: no answer in time; it may have happened or not.
    """

    name: NodeName
    outcome: RemovalOutcome
    detail: str


AuditEvent = PodAudited | NodeDoubted | NodeAudited | ObjectUnreadable
DrainEvent = NodeMarked | NodeUnmarked | EvictionEnded | NodeRemoved
SteeringEvent = PodsSteered | SteerEnded
PreemptionEvent = PreemptingWritten | PreemptingNotWritten | VictimEnded | Stopping
VerticalEvent = (
    MachineSeen
    | MachineGone
    | MigrationSeen
    | MigrationGone
    | PermitWritten
    | PermitNotWritten
    | MigrationStarted
    | MigrationNotStarted
    | MigrationDeleteEnded
)

PodEvent = PodSeen | PodRead | PodGone | BindEnded | ActivationLost
GroundEvent = NodeSeen | NodeGone | BudgetSeen | BudgetGone
#: Something has become true of our own watching or leading.
MomentEvent = Ticked | Watched | TakenOver | Synced
OtherEvent = PodEvent | GroundEvent | MomentEvent | VerticalEvent
Event = OtherEvent | PreemptionEvent | AuditEvent | DrainEvent | SteeringEvent
#: What event sources give out; the state machine takes the first kind.
SourceEvent = Event | AuxiliaryEvent
