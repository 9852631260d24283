"""Events: facts from watches, ends of API calls, and time. `StateMachine.apply` takes these and nothing else."""

from dataclasses import dataclass
from typing import Literal

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
    """A pod as the API server has it now. Ignored if its resource version is older than the known one."""

    pod: Pod


@dataclass(frozen=True, slots=True)
class PodRead:
    """A pod as a GET found it after `ReadPod`. Unlike a watch event it cannot be older than the effect."""

    pod: Pod


@dataclass(frozen=True, slots=True)
class PodGone:
    """The pod is deleted, as the watch shows; with `read`: a GET did not find it."""

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
#: - unknown: no answer came in time; the bind may have happened or not.
#: - unsent: the bind was given up before anything was sent.
BindOutcome = Literal["bound", "gone", "elsewhere", "refused", "unreachable", "unknown", "unsent"]


@dataclass(frozen=True, slots=True)
class BindEnded:
    """The API call of a `Bind` effect ended."""

    uid: PodUid
    node: NodeName
    outcome: BindOutcome
    detail: str


@dataclass(frozen=True, slots=True)
class PodNomination:
    """A pod, and the node that kube-scheduler should try first for it."""

    uid: PodUid
    node: NodeName


@dataclass(frozen=True, slots=True)
class PodsNominated:
    """The nominations that were chosen in advance. `unfit` are pods that fit on no node now."""

    picks: tuple[PodNomination, ...]
    unfit: tuple[PodUid, ...] = ()


@dataclass(frozen=True, slots=True)
class AdvanceNominationEnded:
    """The API calls of a `NominateInAdvance` effect ended. `written`: the pod has the nomination now.

    If it is false the pod may have the nomination nevertheless, where no answer came.
    """

    uid: PodUid
    node: NodeName
    written: bool
    detail: str = ""


@dataclass(frozen=True, slots=True)
class ActivationLost:
    """The API call of an `Activate` effect did not succeed in time, so kube-scheduler does not retry the pod yet."""

    uid: PodUid
    key: PodKey
    why: str


@dataclass(frozen=True, slots=True)
class TimePassed:
    """Time passed: holds expire, waits end."""


@dataclass(frozen=True, slots=True)
class StandbyTimePassed:
    """Time passed while this replica is a standby; comes instead of `TimePassed`.

    Nothing falls due, but entries of pods that are long gone are forgotten.
    """


@dataclass(frozen=True, slots=True)
class LeadershipTaken:
    """This replica takes over from another leader; `Synced` follows.

    The state machine forgets which writes it took for its own, and derives its state from the objects again.
    """


@dataclass(frozen=True, slots=True)
class PodAudited:
    """A pod as a GET of the audit found it, after the audit found that the cluster state differs. The pod is taken over as it
    is here.

    Ignored where the cluster state has a newer version, or knows that the pod is gone.
    """

    pod: Pod


@dataclass(frozen=True, slots=True)
class NodeDoubted:
    """The sums of the node are wrong: no pod is placed there until the node has been audited."""

    name: NodeName
    why: str


@dataclass(frozen=True, slots=True)
class NodeAudited:
    """The cluster state has the same pods on the node as the API server: its sums are computed again, and its quarantine
    ends."""

    name: NodeName


@dataclass(frozen=True, slots=True)
class ObjectUnreadable:
    """An object cannot be decoded, or its content could not be applied. `node` is the node where it counts; None: it counts
    nowhere.

    What was known of the object stays. Its node is quarantined until the object is seen again, or is gone.
    """

    uid: str
    name: str  #: such as "pod shop/web-2", "node n-7"
    node: NodeName | None
    why: str


@dataclass(frozen=True, slots=True)
class Synced:
    """All objects have been listed once: events that follow are changes."""


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
    """The permit annotation was not written: the object is gone, or the API server refused or could not be reached."""

    pod: PodUid
    detail: str


@dataclass(frozen=True, slots=True)
class MigrationStarted:
    """The VirtualMachineMigration for the pod exists: it was created now, or found under its name."""

    pod: PodUid


@dataclass(frozen=True, slots=True)
class MigrationNotStarted:
    """The VirtualMachineMigration for the pod was not created."""

    pod: PodUid
    detail: str


@dataclass(frozen=True, slots=True)
class MigrationDeleteEnded:
    """The API call of a `DeleteMigration` ended; `deleted` where the API server has accepted it."""

    key: PodKey
    deleted: bool


@dataclass(frozen=True, slots=True)
class PreemptingWritten:
    """The preemptor's annotation is `text` now."""

    pod: PodUid
    text: str | None


@dataclass(frozen=True, slots=True)
class PreemptingNotWritten:
    """The preemptor's annotation was not set to `text`."""

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
    """The service is about to stop: nothing new begins, and all our scheduling gates are opened."""


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


#: - accepted: the API server accepted the eviction; the watch shows when the pod is gone.
#: - gone: there was no such pod any more.
#: - blocked: a PodDisruptionBudget allows no disruption now.
#: - refused: the API server refused the eviction.
#: - unreachable: no answer came; the eviction may have happened or not.
EvictionOutcome = Literal["accepted", "gone", "blocked", "refused", "unreachable"]
#: How the removal of a node by its provider ended.
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
    """The provider's call that deletes a node's machine ended. deleted: the provider accepted it. failed: the provider refused
    it.

    unknown: no answer came in time; the deletion may have happened or not.
    """

    name: NodeName
    outcome: RemovalOutcome
    detail: str


AuditEvent = PodAudited | NodeDoubted | NodeAudited | ObjectUnreadable
DrainEvent = NodeMarked | NodeUnmarked | EvictionEnded | NodeRemoved
NominationEvent = PodsNominated | AdvanceNominationEnded
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
Event = OtherEvent | PreemptionEvent | AuditEvent | DrainEvent | NominationEvent
#: What event sources deliver. The state machine takes `Event`; `runtime.auxiliary_intake` takes `AuxiliaryEvent`.
SourceEvent = Event | AuxiliaryEvent
