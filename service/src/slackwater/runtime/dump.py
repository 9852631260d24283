"""Dumps the state machine's whole state as one value, the answer of `GET /dumpstate`.

`take` copies the mutable state quickly and runs on the event loop; `state_of` does the slow part and may run in a thread.
Entries are sorted by name and amounts are integers (milliCPU, bytes), so two dumps of the same state are equal.
"""

import math
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Final

from msgspec import structs, to_builtins

from slackwater.cluster.holds import Hold, HoldKey
from slackwater.cluster.quarantine import Quarantined
from slackwater.cluster.reservations import Reservation
from slackwater.cluster.vertical_pods import AnnotationPlace, VerticalPodState
from slackwater.controllers.migration.migration_choice import MigrationBackoff
from slackwater.controllers.migration.state import Migration
from slackwater.controllers.placement.tried_nodes import SampleMiss
from slackwater.controllers.preemption.state import Preemption
from slackwater.model.columns import NodeColumns
from slackwater.model.ids import Generation, Instant, NodeName, PodKey, PodUid, Row
from slackwater.model.kubernetes_rules import KubernetesVersion
from slackwater.model.objects import DisruptionBudget, Node, Pod
from slackwater.model.pauses import Pause
from slackwater.model.permits import read_written
from slackwater.model.pod_constraints import Kind
from slackwater.model.resources import NOTHING, RESOURCES, Amounts
from slackwater.model.vertical import Machine, VirtualMachineMigration
from slackwater.runtime.dump_answer import (
    CountedPod,
    DeniedBind,
    DumpedAmounts,
    DumpedBackoff,
    DumpedCleanup,
    DumpedGate,
    DumpedHold,
    DumpedMigration,
    DumpedNode,
    DumpedNomination,
    DumpedObjects,
    DumpedPermit,
    DumpedVersion,
    NodeNumbers,
    PendingPod,
    PermitOnPod,
    PodNumbers,
    QuarantinedNode,
    QueuedMachine,
    State,
    Value,
)
from slackwater.runtime.state_machine import StateMachine

#: The fields of `DumpedPermit` that are those of `VerticalPodState`: amounts, and others.
SAME_AMOUNTS: Final = ("permitted", "resized_from", "has", "lowered_from", "settle_for")
SAME: Final = ("exact", "fenced", "found_on", "doubtful", "odd", "urgent", "attempts", "oscillating")
#: The fields of `DumpedMigration` that are those of `Migration`.
SAME_OF_MIGRATIONS: Final = ("pod", "source", "target_node", "created", "target", "landed")

#: How the version of every dump begins.
FAMILY: Final = "slackwater.dev/dumpstate/"
VERSION: Final = f"{FAMILY}v1alpha3"
_NO_KIND: Final = Kind(namespace="", requests=NOTHING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dump:
    """A copy of the state machine's state, taken at `now`. `state_of` writes instants as seconds relative to `now`."""

    now: Instant
    generation: Generation
    synced: bool
    columns: NodeColumns
    nodes: Sequence[tuple[Row, Node]]
    row_names: Mapping[Row, NodeName]
    reservations: Mapping[PodUid, Reservation]
    pods: Sequence[Pod]
    holds: Sequence[tuple[HoldKey, Hold]]
    sample_miss: Sequence[tuple[PodUid, SampleMiss]]
    bind_backoff: Sequence[tuple[PodUid, NodeName, float, bool]]
    budgets: Sequence[DisruptionBudget]
    preemptions: Sequence[tuple[PodUid, Preemption]]
    quarantine: Sequence[tuple[NodeName, Quarantined]]
    pauses: tuple[Pause, ...]
    kubernetes: KubernetesVersion
    vertical_pods: Sequence[tuple[PodUid, VerticalPodState]]
    #: For each pod that grows in place, the object (pod or VirtualMachine) whose annotation contains its permit.
    places: Mapping[PodUid, AnnotationPlace]
    queue: Sequence[tuple[NodeName, PodUid, int | None, int]]
    moves: Sequence[Migration]
    vmms: Sequence[VirtualMachineMigration]
    machines: Sequence[Machine]
    migration_backoffs: Sequence[tuple[PodKey, MigrationBackoff]]
    cleanup: Sequence[tuple[PodKey, Instant]]
    written: Sequence[tuple[PodUid, int, str | None]]
    epoch: int


def take(state_machine: StateMachine, now: Instant) -> Dump:
    """Copies the state. Runs on the event loop, so that no event changes the state meanwhile."""
    state, migrating = state_machine.state, state_machine.migrating
    nodes = list(state.nodes)
    vertical_pods = [(uid, copy(vertical_pod)) for uid, vertical_pod in state.vertical_pods.items()]
    known = ((uid, state.pods.known(uid)) for uid, _ in vertical_pods)
    return Dump(
        now=now,
        generation=state_machine.generation,
        synced=state_machine.synced,
        columns=state.ledger.columns.copy(),
        nodes=nodes,
        row_names={row: node.name for row, node in nodes},
        reservations=state.reservations.copy(),
        pods=list(state.pods),
        holds=list(state.holds),
        sample_miss=state_machine.sample_misses.items(),
        bind_backoff=state.bind_backoff.left(now),
        budgets=list(state.budgets),
        preemptions=[(uid, replace(found, waiting=set(found.waiting))) for uid, found in state_machine.preemptions.items()],
        quarantine=list(state.quarantine.items()),
        pauses=state_machine.pausing.pauses,
        kubernetes=state_machine.policy.kubernetes,
        vertical_pods=vertical_pods,
        places={uid: state.annotations.place_of(pod) for uid, pod in known if pod is not None and pod.vertical is not None},
        queue=migrating.choice.queue.entries(),
        moves=[replace(move) for move in migrating.migrations.values()],
        vmms=list(migrating.objects.values()),
        machines=state.annotations.machines(),
        migration_backoffs=list(migrating.choice.backoffs.items()),
        cleanup=list(migrating.cleanup.items()),
        written=state.annotations.written(),
        epoch=state.vertical_pods.epoch,
    )


def state_of(dump: Dump, *, autoscaler: Value | None = None, configuration: Value | None = None) -> State:
    """The answer, with the autoscaler's last loop and the configuration. This is the slow part; it may run in a thread."""
    names = {uid: reservation.key for uid, reservation in dump.reservations.items()}
    phases = {vmm.key: vmm.phase for vmm in dump.vmms}
    return State(
        version=VERSION,
        kubernetes=DumpedVersion(version=str(dump.kubernetes), feature_gates=dict(dump.kubernetes.gates)),
        generation=dump.generation,
        synced=dump.synced,
        paused={pause.activity: pause.note for pause in dump.pauses},
        nodes=[_node(dump.columns, row, node) for row, node in sorted(dump.nodes, key=lambda item: item[1].name)],
        pods=[
            _counted(dump, uid, reservation)
            for uid, reservation in sorted(dump.reservations.items(), key=lambda item: (item[1].key, item[0]))
        ],
        pending=[_pending(pod) for pod in sorted(dump.pods, key=lambda pod: pod.key) if pod.node is None and not pod.ended],
        holds=[_hold(dump, key, hold) for key, hold in sorted(dump.holds, key=lambda item: (item[1].key, item[0]))],
        quarantine=[
            QuarantinedNode(node=name, why=found.why, since_seconds=round(dump.now - found.since, 3))
            for name, found in sorted(dump.quarantine)
        ],
        nominations=[
            DumpedNomination(**_named(miss.key), uid=uid, node=miss.nominated, tried=sorted(miss.tried))
            for uid, miss in sorted(dump.sample_miss, key=lambda item: (item[1].key, item[0]))
            if miss.nominated is not None
        ],
        denied_binds=[
            DeniedBind(uid=uid, node=node, ends_in_seconds=round(seconds, 3), for_room=for_room)
            for uid, node, seconds, for_room in sorted(dump.bind_backoff)
        ],
        gates=[
            _gate(dump.now, uid, preemption)
            for uid, preemption in sorted(dump.preemptions, key=lambda item: (item[1].pod.key, item[0]))
        ],
        objects=_objects(dump),
        autoscaler=autoscaler,
        configuration=configuration or {},
        epoch=dump.epoch,
        permits=sorted(
            (_permit(dump, uid, vertical_pod, names.get(uid)) for uid, vertical_pod in dump.vertical_pods),
            key=lambda permit: (permit.namespace, permit.name, permit.uid),
        ),
        migration_queue=[
            QueuedMachine(**_named(names.get(uid)), uid=uid, node=node, load1_micro=load, joined=joined)
            for node, uid, load, joined in dump.queue
        ],
        migrations=[_migration(dump, move, phases.get(move.key)) for move in sorted(dump.moves, key=lambda move: move.key)],
        migration_backoffs=[
            DumpedBackoff(**_named(key), failures=backoff.failures, ends_in_seconds=_seconds(backoff.until, dump.now))
            for key, backoff in sorted(dump.migration_backoffs)
        ],
        migration_cleanups=[
            DumpedCleanup(**_named(key), due_in_seconds=_seconds(at, dump.now)) for key, at in sorted(dump.cleanup)
        ],
        permits_on_pods=[PermitOnPod(uid=uid, version=version, text=text) for uid, version, text in sorted(dump.written)],
        virtual_machines=[to_builtins(machine) for machine in sorted(dump.machines, key=lambda machine: machine.key)],
        virtual_machine_migrations=[to_builtins(vmm) for vmm in sorted(dump.vmms, key=lambda vmm: vmm.key)],
    )


def _named(key: PodKey | None) -> dict[str, Any]:
    return {"namespace": "" if key is None else key.namespace, "name": "" if key is None else key.name}


def _objects(dump: Dump) -> DumpedObjects:
    """The API objects that decisions read. Each equivalence group is written once; pods refer to it by index."""
    kinds: dict[Kind, int] = {}
    pods: list[Value] = [
        {**to_builtins(structs.replace(pod, kind=_NO_KIND)), "kind": kinds.setdefault(pod.kind, len(kinds))}
        for pod in sorted(dump.pods, key=lambda pod: (pod.key, pod.uid))
    ]
    return DumpedObjects(
        kinds=[_kind(kind) for kind in kinds],
        nodes=[to_builtins(node) for _, node in sorted(dump.nodes, key=lambda item: item[1].name)],
        pods=pods,
        budgets=[to_builtins(budget) for budget in sorted(dump.budgets, key=lambda b: (b.namespace, b.name))],
    )


def _kind(kind: Kind) -> Value:
    document: dict[str, Any] = to_builtins(kind.whole())
    del document["packed_rules"]  # None: only this process packs rules
    return document


def _node(columns: NodeColumns, row: Row, node: Node) -> DumpedNode:
    cpu, memory = (
        NodeNumbers(**{name: int(getattr(columns, name)[r, row]) for name in NodeNumbers.__struct_fields__})
        for r in range(len(RESOURCES))
    )
    return DumpedNode(name=node.name, cpu=cpu, memory=memory, ready=node.ready, unschedulable=node.unschedulable)


def _counted(dump: Dump, uid: PodUid, reservation: Reservation) -> CountedPod:
    cpu, memory = (
        PodNumbers(**{name: getattr(reservation.pod_resources, name)[r] for name in PodNumbers.__struct_fields__})
        for r in range(len(RESOURCES))
    )
    return CountedPod(
        **_named(reservation.key),
        uid=uid,
        node=reservation.node,
        state=reservation.state,
        ask_in_seconds=_seconds(reservation.deadline, dump.now),
        vertical=reservation.vertical,
        priority=reservation.priority,
        cpu=cpu,
        memory=memory,
    )


def _pending(pod: Pod) -> PendingPod:
    return PendingPod(
        **_named(pod.key),
        uid=pod.uid,
        scheduler_name=pod.kind.scheduler_name,
        priority=pod.priority,
        requests=dumped_amounts(pod.kind.requests),
        message=pod.unschedulable_message,
    )


def _hold(dump: Dump, key: HoldKey, hold: Hold) -> DumpedHold:
    return DumpedHold(
        **_named(hold.key),
        uid=key.uid,
        cause=key.cause,
        node=dump.row_names.get(hold.row),
        amounts=dumped_amounts(hold.amounts),
        ends_in_seconds=_seconds(hold.deadline, dump.now),
        nominee=hold.nominee,
    )


def _gate(now: Instant, uid: PodUid, preemption: Preemption) -> DumpedGate:
    return DumpedGate(
        **_named(preemption.pod.key),
        uid=uid,
        shut=preemption.shut,
        phase=preemption.phase,
        node=preemption.node,
        priority=preemption.pod.priority,
        waiting_for=sorted(preemption.waiting),
        since_seconds=round(now - preemption.since, 3),
        ends_in_seconds=round(preemption.deadline - now, 3),
    )


def _permit(dump: Dump, uid: PodUid, vertical_pod: VerticalPodState, name: PodKey | None) -> DumpedPermit:
    place = dump.places.get(uid)
    written = None if place is None else read_written(place.text)
    same: dict[str, Any] = {name: getattr(vertical_pod, name) for name in SAME}
    same |= {name: _maybe(getattr(vertical_pod, name)) for name in SAME_AMOUNTS}
    return DumpedPermit(
        **_named(name),
        uid=uid,
        on=None if place is None else place.on,
        permit=_maybe(None if written is None else written.permit),
        limit=_maybe(None if written is None else written.permit_limit),
        writing=to_builtins(vertical_pod.writing),
        doubted=[to_builtins(written) for written in vertical_pod.unconfirmed],
        heard_in_seconds=_seconds(vertical_pod.heard_at, dump.now),
        denied_since_seconds=_seconds(vertical_pod.denied_since, dump.now),
        behind=vertical_pod.lagging,
        load=to_builtins(vertical_pod.load),
        written_in_seconds=_seconds(vertical_pod.written_at, dump.now),
        settle_in_seconds=_seconds(vertical_pod.settle_at, dump.now),
        vertical=to_builtins(vertical_pod.vertical),
        **same,
    )


def _migration(dump: Dump, move: Migration, phase: str | None) -> DumpedMigration:
    return DumpedMigration(
        **_named(move.key),
        **{name: getattr(move, name) for name in SAME_OF_MIGRATIONS},
        machine=move.machine.name,
        amounts=dumped_amounts(move.amounts),
        phase=phase,
        target_in_seconds=_seconds(move.target_since, dump.now),
    )


def dumped_amounts(amounts: Amounts) -> DumpedAmounts:
    return DumpedAmounts(cpu=amounts.cpu, memory=amounts.memory)


def _maybe(amounts: Amounts | None) -> DumpedAmounts | None:
    return None if amounts is None else dumped_amounts(amounts)


def _seconds(at: Instant | None, now: Instant) -> float | None:
    return None if at is None or math.isinf(at) else round(at - now, 3)
