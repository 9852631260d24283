"""Events: what watches showed, how API calls ended, and that time passed. `StateMachine.apply` takes these and nothing else."""

from typing import Literal, NamedTuple

from msgspec import Struct

from slackwater.model.auxiliary import AuxiliaryEvent
from slackwater.model.ids import Instant, NodeName, PodKey, PodUid
from slackwater.model.objects import DisruptionBudget, Node, Pod
from slackwater.model.pauses import Pause
from slackwater.model.resources import Amounts
from slackwater.model.vertical import Machine, VirtualMachineMigration


class NodeSeen(Struct, frozen=True):
    """A node as the API server has it now."""

    node: Node


class NodeGone(Struct, frozen=True):
    """The node is deleted."""

    name: NodeName


class PodSeen(Struct, frozen=True):
    """A pod as the API server has it now. Ignored if its resource version is older than that in the cluster state."""

    pod: Pod


class PodRead(Struct, frozen=True):
    """A pod as a GET found it after `ReadPod`. Unlike a watch event it cannot be older than the effect."""

    pod: Pod


class PodGone(Struct, frozen=True):
    """The pod is deleted, as the watch shows. With `read`: a GET did not find it."""

    uid: PodUid
    key: PodKey
    read: bool = False


class ComingNodes(NamedTuple):
    """New nodes of a group that are on their way, in the order in which they are expected. `labels` and `allocatable`: what all
    of them have. `nodes`: the pods that each was bought for."""

    labels: tuple[tuple[str, str], ...]
    allocatable: Amounts
    nodes: tuple[tuple[PodUid, ...], ...]


class NodesPlanned(Struct, frozen=True):
    """A plan, made of the cluster as it was at `as_of`, expects these nodes and no others."""

    coming: tuple[ComingNodes, ...]
    as_of: Instant


class BudgetSeen(Struct, frozen=True):
    """A PodDisruptionBudget as the API server has it now."""

    budget: DisruptionBudget


class BudgetGone(Struct, frozen=True):
    """The PodDisruptionBudget is deleted."""

    namespace: str
    name: str


class PausesSeen(Struct, frozen=True):
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


class BindEnded(Struct, frozen=True):
    """The API call of a `Bind` effect ended."""

    uid: PodUid
    node: NodeName
    outcome: BindOutcome
    detail: str


class ActivationLost(Struct, frozen=True):
    """The API call of an `Activate` effect failed or took too long, so kube-scheduler does not retry the pod yet."""

    uid: PodUid
    key: PodKey
    why: str


class TimePassed(Struct, frozen=True):
    """Time passed, so holds may expire and waits may end."""


class StandbyTimePassed(Struct, frozen=True):
    """Time passed while this replica is a standby; comes instead of `TimePassed`.

    Holds and waits do not end, but entries of pods that are long gone are forgotten.
    """


class LeadershipTaken(Struct, frozen=True):
    """This replica takes over from another leader; `Synced` follows.

    The state machine forgets which writes were its own, and derives its state from the objects again.
    """


class PodAudited(Struct, frozen=True):
    """A pod as the audit read it (GET), because it differs from the cluster state. The cluster state takes over this pod.

    Ignored if the cluster state has a newer version, or knows that the pod is gone.
    """

    pod: Pod


class NodeDoubted(Struct, frozen=True):
    """The sums of the node are wrong: no pod is placed there until the node has been audited."""

    name: NodeName
    why: str


class NodeAudited(Struct, frozen=True):
    """The audit found that the cluster state has the same pods on the node as the API server. The node's sums are computed
    again, and its quarantine ends."""

    name: NodeName


class ObjectUnreadable(Struct, frozen=True):
    """An object cannot be decoded, or its content could not be applied. `node` is the node on which the object counts; None if
    it counts on none: it is a pod that is pending, has ended or is gone.

    The cluster state keeps what it has of the object. The object's node is quarantined until the object can be read or counts
    no more.
    """

    uid: str
    name: str  #: such as "pod shop/web-2", "node n-7"
    node: NodeName | None
    why: str


class Synced(Struct, frozen=True):
    """All objects have been listed once. From now on, events are changes."""


class MachineSeen(Struct, frozen=True):
    """A VirtualMachine as the API server has it now."""

    machine: Machine


class MachineGone(Struct, frozen=True):
    """The VirtualMachine is deleted."""

    key: PodKey


class MigrationSeen(Struct, frozen=True):
    """A VirtualMachineMigration as the API server has it now."""

    migration: VirtualMachineMigration


class MigrationGone(Struct, frozen=True):
    """The VirtualMachineMigration is deleted."""

    key: PodKey


class PermitWritten(Struct, frozen=True):
    """The pod's permit annotation is `text` now: our write set it, or a read after a conflict found it.

    `version` is the resource version of the annotated object.
    """

    pod: PodUid
    text: str | None
    version: int


class PermitNotWritten(Struct, frozen=True):
    """The permit annotation was not written: the object is gone, the API server refused, or it could not be reached."""

    pod: PodUid
    detail: str


class MigrationStarted(Struct, frozen=True):
    """The VirtualMachineMigration for the pod was created."""

    pod: PodUid


class MigrationNotStarted(Struct, frozen=True):
    """The VirtualMachineMigration for the pod was not created."""

    pod: PodUid
    detail: str


class MigrationDeleteEnded(Struct, frozen=True):
    """The API call of a `DeleteMigration` ended. `deleted`: the API server has accepted the deletion."""

    key: PodKey
    deleted: bool


class PreemptingWritten(Struct, frozen=True):
    """The preemptor's annotation `slackwater.dev/preempting` is `text` now."""

    pod: PodUid
    text: str | None


class PreemptingNotWritten(Struct, frozen=True):
    """The preemptor's annotation `slackwater.dev/preempting` was not set to `text`."""

    pod: PodUid
    text: str | None
    detail: str


#: - accepted: the API server has the deletion; the watch shows when the pod is gone.
#: - refused: the API server refused the deletion.
#: - unreachable: no answer came in time; the deletion may have happened or not.
VictimOutcome = Literal["accepted", "refused", "unreachable"]


class VictimEnded(Struct, frozen=True):
    """The API calls of a `DeleteVictim` ended."""

    uid: PodUid
    outcome: VictimOutcome
    detail: str


class Stopping(Struct, frozen=True):
    """The service is about to stop: it begins nothing new, and opens all its scheduling gates."""


class NodeMarked(Struct, frozen=True):
    """The API call of a `MarkNode` ended. `done`: the node has the taint now."""

    name: NodeName
    taint_key: str
    done: bool
    detail: str


class NodeUnmarked(Struct, frozen=True):
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


class EvictionEnded(Struct, frozen=True):
    """The API call of an `Evict` ended."""

    uid: PodUid
    node: NodeName
    outcome: EvictionOutcome
    detail: str


class NodeRemoved(Struct, frozen=True):
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


class DestinationsFound(Struct, frozen=True):
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
#: Events about this replica itself: time, leadership, initial listing, what it has planned.
ServiceEvent = TimePassed | StandbyTimePassed | LeadershipTaken | Synced | NodesPlanned
Event = PodEvent | ObjectEvent | ServiceEvent | VerticalEvent | PreemptionEvent | AuditEvent | DrainEvent
#: What event sources deliver. The state machine takes `Event`; `runtime.auxiliary_intake` takes `AuxiliaryEvent`.
SourceEvent = Event | AuxiliaryEvent
