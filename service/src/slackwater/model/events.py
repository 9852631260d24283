"""Events: what watches showed, how API calls ended, and that time passed. `StateMachine.apply` takes these and nothing else."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from slackwater.model.auxiliary import AuxiliaryEvent
from slackwater.model.ids import NodeName, PodKey, PodUid
from slackwater.model.objects import DisruptionBudget, Node, Pod
from slackwater.model.pauses import Pause
from slackwater.model.vertical import Machine, VirtualMachineMigration


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
    """A pod as the API server has it now. Ignored if its resource version is older than that in the cluster state."""

    pod: Pod


@dataclass(frozen=True, slots=True)
class PodRead:
    """A pod as a GET found it after `ReadPod`. Unlike a watch event it cannot be older than the effect."""

    pod: Pod


@dataclass(frozen=True, slots=True)
class PodGone:
    """The pod is deleted, as the watch shows. With `read`: a GET did not find it."""

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


@dataclass(frozen=True, slots=True)
class PausesSeen:
    """The activities that are paused, as the API server has them now."""

    pauses: tuple[Pause, ...]


#: - bound: the API server has the binding.
#: - gone: there is no such pod (or another of the same name).
#: - elsewhere: the pod is bound to another node.
#: - refused: the API server refused the binding.
#: - unreachable: the API server could not be reached; nothing happened.
#: - unknown: no answer came within the time limit; the bind may have happened or not.
#: - unsent: the bind was abandoned before anything was sent.
BindOutcome = Literal["bound", "gone", "elsewhere", "refused", "unreachable", "unknown", "unsent"]


@dataclass(frozen=True, slots=True)
class BindEnded:
    """The API call of a `Bind` effect ended."""

    uid: PodUid
    node: NodeName
    outcome: BindOutcome
    detail: str


@dataclass(frozen=True, slots=True)
class ActivationLost:
    """The API call of an `Activate` effect failed or took too long, so kube-scheduler does not retry the pod yet."""

    uid: PodUid
    key: PodKey
    why: str


@dataclass(frozen=True, slots=True)
class TimePassed:
    """Time passed, so holds may expire and waits may end."""


@dataclass(frozen=True, slots=True)
class StandbyTimePassed:
    """Time passed while this replica is a standby; comes instead of `TimePassed`.

    Holds and waits do not end, but entries of pods that are long gone are forgotten.
    """


@dataclass(frozen=True, slots=True)
class LeadershipTaken:
    """This replica takes over from another leader; `Synced` follows.

    The state machine forgets which writes were its own, and derives its state from the objects again.
    """


@dataclass(frozen=True, slots=True)
class PodAudited:
    """A pod as the audit read it (GET), because it differs from the cluster state. The cluster state takes over this pod.

    Ignored if the cluster state has a newer version, or knows that the pod is gone.
    """

    pod: Pod


@dataclass(frozen=True, slots=True)
class NodeDoubted:
    """The sums of the node are wrong: no pod is placed there until the node has been audited."""

    name: NodeName
    why: str


@dataclass(frozen=True, slots=True)
class NodeAudited:
    """The audit found that the cluster state has the same pods on the node as the API server. The node's sums are computed
    again, and its quarantine ends."""

    name: NodeName


@dataclass(frozen=True, slots=True)
class ObjectUnreadable:
    """An object cannot be decoded, or its content could not be applied. `node` is the node on which the object counts; None if
    it counts on none: it is a pod that is pending, has ended or is gone.

    The cluster state keeps what it has of the object. The object's node is quarantined until the object can be read or counts
    no more.
    """

    uid: str
    name: str  #: such as "pod shop/web-2", "node n-7"
    node: NodeName | None
    why: str


@dataclass(frozen=True, slots=True)
class Synced:
    """All objects have been listed once. From now on, events are changes."""


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
    """The pod's permit annotation is `text` now: our write set it, or a read after a conflict found it.

    `version` is the resource version of the annotated object.
    """

    pod: PodUid
    text: str | None
    version: int


@dataclass(frozen=True, slots=True)
class PermitNotWritten:
    """The permit annotation was not written: the object is gone, the API server refused, or it could not be reached."""

    pod: PodUid
    detail: str


@dataclass(frozen=True, slots=True)
class MigrationStarted:
    """The VirtualMachineMigration for the pod was created."""

    pod: PodUid


@dataclass(frozen=True, slots=True)
class MigrationNotStarted:
    """The VirtualMachineMigration for the pod was not created."""

    pod: PodUid
    detail: str


@dataclass(frozen=True, slots=True)
class MigrationDeleteEnded:
    """The API call of a `DeleteMigration` ended. `deleted`: the API server has accepted the deletion."""

    key: PodKey
    deleted: bool


@dataclass(frozen=True, slots=True)
class PreemptingWritten:
    """The preemptor's annotation `slackwater.dev/preempting` is `text` now."""

    pod: PodUid
    text: str | None


@dataclass(frozen=True, slots=True)
class PreemptingNotWritten:
    """The preemptor's annotation `slackwater.dev/preempting` was not set to `text`."""

    pod: PodUid
    text: str | None
    detail: str


#: - accepted: the API server has the deletion; the watch shows when the pod is gone.
#: - refused: the API server refused the deletion.
#: - unreachable: no answer came in time; the deletion may have happened or not.
VictimOutcome = Literal["accepted", "refused", "unreachable"]


@dataclass(frozen=True, slots=True)
class VictimEnded:
    """The API calls of a `DeleteVictim` ended."""

    uid: PodUid
    outcome: VictimOutcome
    detail: str


@dataclass(frozen=True, slots=True)
class Stopping:
    """The service is about to stop: it begins nothing new, and opens all its scheduling gates."""


@dataclass(frozen=True, slots=True)
class NodeMarked:
    """The API call of a `MarkNode` ended. `done`: the node has the taint now."""

    name: NodeName
    taint_key: str
    done: bool
    detail: str


@dataclass(frozen=True, slots=True)
class NodeUnmarked:
    """The API call of an `UnmarkNode` ended. `done`: the node does not have the taint any more."""

    name: NodeName
    taint_key: str
    done: bool
    detail: str


#: - accepted: the API server accepted the eviction; the watch shows when the pod is gone.
#: - gone: there was no such pod any more.
#: - blocked: a PodDisruptionBudget allows no disruption now.
#: - refused: the API server refused the eviction.
#: - unreachable: no answer came; the eviction may have happened or not.
EvictionOutcome = Literal["accepted", "gone", "blocked", "refused", "unreachable"]
#: How a provider's call that deletes a node's machine ended.
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
    """The provider's call that deletes a node's machine ended. Outcomes: "deleted": the provider accepted the deletion.
    "failed": it refused. "unknown": no answer came in time; the deletion may have happened or not."""

    name: NodeName
    outcome: RemovalOutcome
    detail: str


class Destination(NamedTuple):
    """Where a pod of a draining node fits. `node`: None if it fits nowhere; `why` says why then."""

    uid: PodUid
    node: NodeName | None
    why: str = ""


@dataclass(frozen=True, slots=True)
class DestinationsFound:
    """A `FindDestinations` of the draining node ended. `problem`: why there is no answer; empty if there is one."""

    node: NodeName
    found: tuple[Destination, ...]
    problem: str = ""


AuditEvent = PodAudited | NodeDoubted | NodeAudited | ObjectUnreadable
DrainEvent = NodeMarked | NodeUnmarked | EvictionEnded | NodeRemoved | DestinationsFound
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
ObjectEvent = NodeSeen | NodeGone | BudgetSeen | BudgetGone | PausesSeen
#: Events about this replica itself: time, leadership, initial listing.
ServiceEvent = TimePassed | StandbyTimePassed | LeadershipTaken | Synced
OtherEvent = PodEvent | ObjectEvent | ServiceEvent | VerticalEvent
Event = OtherEvent | PreemptionEvent | AuditEvent | DrainEvent
#: What event sources deliver. The state machine takes `Event`; `runtime.auxiliary_intake` takes `AuxiliaryEvent`.
SourceEvent = Event | AuxiliaryEvent
