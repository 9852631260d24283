"""The answer of `GET /dumpstate`: the classes whose values `dump` makes, and whose JSON `restore` reads.

Keys may be added without a new version. Objects of the API server have no detailed schema: they follow the values of
`slackwater.model` and are there only so that a dump can be loaded again. Seconds count from the dump; those that have passed
are negative.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta

from slackwater.cluster.holds import Cause
from slackwater.cluster.reservations import ReservationState
from slackwater.controllers.preemption.state import Phase
from slackwater.model.ids import NodeName, PodKey, PodUid
from slackwater.model.json_answer import JsonAnswer, written

#: An object of the API server, as JSON values.
Value = Mapping[str, Any]


class DumpedAmounts(JsonAnswer, frozen=True, kw_only=True):
    """milliCPU and bytes."""

    cpu: int
    memory: int


class DumpedVersion(JsonAnswer, frozen=True, kw_only=True):
    """The version of kube-scheduler whose rules hold, and the feature gates that were set."""

    version: str
    feature_gates: Mapping[str, bool]


class NodeNumbers(JsonAnswer, frozen=True, kw_only=True):
    """The accounting of one resource of a node."""

    total: int
    watermark: int
    reserved: int
    buffer: int
    capacity_pressure: int
    pressure_accounted_for: int
    held: int


class DumpedNode(JsonAnswer, frozen=True, kw_only=True):
    """A node."""

    name: NodeName
    cpu: NodeNumbers
    memory: NodeNumbers
    ready: bool
    unschedulable: bool


class PodNumbers(JsonAnswer, frozen=True, kw_only=True):
    """The accounting of one resource of a pod."""

    reserved: int
    buffer: int
    capacity_pressure: int
    accounted_for: Annotated[int, Meta(description="The pod's part of its node's pressureAccountedFor.")]
    min: int
    max: int


class NamedObject(JsonAnswer, frozen=True, kw_only=True):
    """An object by its name."""

    namespace: str
    name: str


def named(key: PodKey | None) -> dict[str, str]:
    """The fields of `NamedObject`; empty texts if the object is not known any more."""
    return {"namespace": "" if key is None else key.namespace, "name": "" if key is None else key.name}


class NamedPod(NamedObject, frozen=True, kw_only=True):
    """A pod by its name and UID."""

    uid: PodUid


class CountedPod(NamedPod, frozen=True, kw_only=True):
    """A pod that counts on a node."""

    node: NodeName
    state: ReservationState
    ask_in_seconds: Annotated[float | None, Meta(description="When the pod is read, if the watch has not shown it until then.")]
    vertical: Annotated[bool, Meta(description="It grows in place: a VM, or a plain pod with bounds.")]
    priority: int
    cpu: PodNumbers
    memory: PodNumbers


class PendingPod(NamedPod, frozen=True, kw_only=True):
    """A pod without a node."""

    scheduler_name: str
    priority: int
    requests: DumpedAmounts
    message: str | None


class DumpedHold(NamedPod, frozen=True, kw_only=True):
    """Room that is held for a pod."""

    cause: Annotated[
        Cause,
        Meta(
            description="What the room waits for: a bind, that of a former try, a preemption, the pod on a new node that was "
            "bought for it, the drain of the pod's node, its migration."
        ),
    ]
    node: NodeName | None
    amounts: DumpedAmounts
    ends_in_seconds: Annotated[
        float | None, Meta(description="Null for a migration's target node: it ends with the migration.")
    ]
    nominee: Annotated[
        int | None,
        Meta(
            description="The pod's priority, while the node was only named to kube-scheduler: more important pods do not count "
            "the room as held. Null for all others."
        ),
    ]


class QuarantinedNode(JsonAnswer, frozen=True, kw_only=True):
    """A node whose sums are in doubt."""

    node: NodeName
    why: str
    since_seconds: float


class DumpedNomination(NamedPod, frozen=True, kw_only=True):
    """A nomination under way."""

    node: NodeName
    tried: Annotated[list[NodeName], Meta(description="Nodes tried so far.")]


class DeniedBind(JsonAnswer, frozen=True, kw_only=True):
    """A denied bind that is remembered."""

    uid: PodUid
    node: NodeName
    ends_in_seconds: float
    for_room: Annotated[bool, Meta(description="There was no room: forgotten as soon as some appears.")]


class DumpedGate(NamedPod, frozen=True, kw_only=True):
    """A preemption: a pending pod that others have to leave for."""

    shut: Annotated[bool, Meta(description="filter answers `gated`.")]
    phase: Annotated[
        Phase,
        Meta(description="How far it is. agreed: kube-scheduler preempts. opened: all are gone. returned: to bind."),
    ]
    node: Annotated[NodeName, Meta(description="Where room is made, and kept.")]
    priority: int
    waiting_for: Annotated[list[PodUid], Meta(description="UIDs of the pods that have to leave.")]
    since_seconds: float
    ends_in_seconds: Annotated[float, Meta(description="It is given up then.")]


class DumpedPermit(NamedPod, frozen=True, kw_only=True):
    """What is known of a counted pod that grows in place. Seconds count from the dump; those that have passed are negative."""

    on: Annotated[Literal["machine", "pod"] | None, Meta(description="The object that carries the annotation.")]
    permit: Annotated[DumpedAmounts | None, Meta(description="As written; null where there is no annotation that can be read.")]
    limit: DumpedAmounts | None
    writing: Annotated[Value | None, Meta(description="What a write under way says.")]
    doubted: Annotated[
        list[Value],
        Meta(description="What writes that failed said, the least and the most: it may stand there all the same."),
    ]
    heard_in_seconds: Annotated[float | None, Meta(description="The agent's last request to this process.")]
    denied_since_seconds: float | None
    exact: Annotated[bool, Meta(description="Counted by what is known, not by a guess after a restart.")]
    fenced: Annotated[
        bool,
        Meta(
            description="Whether every permit write of a former process has ended, so that none can change the annotation any "
            "more."
        ),
    ]
    found_on: Annotated[str | None, Meta(description="The annotation that it counts by until its agent is heard.")]
    doubtful: Annotated[bool, Meta(description="That annotation may have arrived late: until then all of it is Buffer.")]
    permitted: Annotated[
        DumpedAmounts | None,
        Meta(description="Of a plain pod: its permit, to which its node may not have resized it yet."),
    ]
    resized_from: DumpedAmounts | None
    has: Annotated[
        DumpedAmounts | None,
        Meta(description="The most that its agent has: its last permit, less what it has given back since."),
    ]
    load: Annotated[Value | None, Meta(description="What the agent last measured.")]
    odd: Annotated[bool, Meta(description="Whether the agent has asked for an amount that is no multiple of its compute unit.")]
    urgent: Annotated[bool, Meta(description="An answer waits for the permit limit to be written.")]
    behind: Annotated[
        bool, Meta(description="Has grown into room that is still written as others'; answered when that is written.")
    ]
    attempts: int
    oscillating: Annotated[int, Meta(description="How often in a row its permit limit was lowered too soon.")]
    lowered_from: DumpedAmounts | None
    written_in_seconds: float | None
    settle_in_seconds: Annotated[float | None, Meta(description="When the annotation is written lazily.")]
    settle_for: DumpedAmounts | None
    vertical: Annotated[Value, Meta(description="The workload as the pod's annotations and labels tell it.")]


class QueuedMachine(NamedPod, frozen=True, kw_only=True):
    """A machine that may leave its node."""

    node: NodeName
    load1_micro: Annotated[int | None, Meta(description="The one-minute load in millionths; null where none was reported.")]
    joined: Annotated[int, Meta(description="Of equal loads, the lower one leaves first.")]


class DumpedMigration(NamedObject, frozen=True, kw_only=True):
    """A migration; `namespace` and `name` are the VirtualMachineMigration's."""

    machine: str
    pod: Annotated[PodUid | None, Meta(description="UID of the pod that leaves; null where it is not known.")]
    source: NodeName | None
    target_node: Annotated[NodeName | None, Meta(description="The node on which room is kept.")]
    amounts: DumpedAmounts
    created: Annotated[bool, Meta(description="The object is there.")]
    phase: str | None
    target: Annotated[PodUid | None, Meta(description="UID of the pod that arrives.")]
    target_in_seconds: float | None
    landed: bool


class DumpedBackoff(NamedObject, frozen=True, kw_only=True):
    """A VirtualMachine that could not leave, and how long others come first."""

    failures: int
    ends_in_seconds: float | None


class DumpedCleanup(NamedObject, frozen=True, kw_only=True):
    """A finished migration that is being deleted, and when that is tried again."""

    due_in_seconds: float | None


class PermitOnPod(JsonAnswer, frozen=True, kw_only=True):
    """What a write of a permit on a pod answered."""

    uid: PodUid
    version: int
    text: str | None


class DumpedObjects(JsonAnswer, frozen=True, kw_only=True):
    """What the API server reported, as far as some decision reads it: enough to load the dump again."""

    kinds: Annotated[list[Value], Meta(description="Each kind of pods once.")]
    nodes: list[Value]
    pods: Annotated[list[Value], Meta(description="Pods; `kind` is an index.")]
    budgets: Annotated[list[Value], Meta(description="PodDisruptionBudgets.")]


class State(JsonAnswer, frozen=True, kw_only=True):
    """The whole state; quantities are milliCPU and bytes."""

    epoch: Annotated[int, Meta(description="Of this process: it stands in each annotation that it writes.")]
    permits: Annotated[list[DumpedPermit], Meta(description="What is known of each counted pod that grows in place.")]
    migration_queue: Annotated[
        list[QueuedMachine],
        Meta(description="For each node, the machines that may migrate away, in the order in which they leave."),
    ]
    migrations: Annotated[list[DumpedMigration], Meta(description="Migrations that were decided or found, until they end.")]
    migration_backoffs: list[DumpedBackoff]
    migration_cleanups: list[DumpedCleanup]
    permits_on_pods: Annotated[
        list[PermitOnPod], Meta(description="Each counts until the watch shows the pod at that version.")
    ]
    virtual_machines: Annotated[list[Value], Meta(description="VirtualMachines, as far as some decision reads them.")]
    virtual_machine_migrations: Annotated[
        list[Value], Meta(description="VirtualMachineMigrations, by whomever they were created.")
    ]
    version: str
    kubernetes: DumpedVersion
    generation: int
    synced: bool
    paused: Annotated[Mapping[str, str], Meta(description="Activities that a person has paused, and the note of each.")]
    nodes: list[DumpedNode]
    pods: list[CountedPod]
    pending: list[PendingPod]
    holds: Annotated[list[DumpedHold], Meta(description="Room kept on nodes for pods that are not bound there yet.")]
    quarantine: Annotated[list[QuarantinedNode], Meta(description="Nodes whose sums are in doubt: nothing new is put there.")]
    nominations: list[DumpedNomination]
    denied_binds: list[DeniedBind]
    gates: list[DumpedGate]
    objects: DumpedObjects
    autoscaler: Annotated[
        Value | None,
        Meta(description="What the last loop of the autoscaler saw and did; null where it does not run, or before its first."),
    ] = written(None)
    configuration: Annotated[Value, Meta(description="The configuration in force.")] = written({})
