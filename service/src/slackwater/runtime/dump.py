"""Dumps the state machine's whole state as one value, the answer of `GET /dumpstate`.

`Dump` copies the mutable state quickly and runs on the event loop; `state_of` does the slow part and may run in a thread.
Entries are sorted by name and amounts are integers (milliCPU, bytes), so two dumps of the same state are equal.
"""

import math
from copy import copy
from dataclasses import replace
from typing import Any, Final, TypeVar

from msgspec import structs, to_builtins

from slackwater.cluster.holds import Hold, HoldKey
from slackwater.cluster.reservations import Reservation
from slackwater.cluster.vertical_pods import VerticalPodState
from slackwater.controllers.migration.state import Migration
from slackwater.controllers.preemption.state import Preemption
from slackwater.model.columns import NodeColumns
from slackwater.model.ids import Instant, PodKey, PodUid, Row
from slackwater.model.json_answer import JsonAnswer
from slackwater.model.objects import Node, Pod
from slackwater.model.permits import read_written
from slackwater.model.pod_constraints import Kind
from slackwater.model.resources import NOTHING, RESOURCES, Amounts
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
    named,
)
from slackwater.runtime.state_machine import StateMachine

#: How the version of every dump begins.
FAMILY: Final = "slackwater.dev/dumpstate/"
VERSION: Final = f"{FAMILY}v1alpha3"
_NO_KIND: Final = Kind(namespace="", requests=NOTHING)
_Part = TypeVar("_Part", bound=JsonAnswer)


class Dump:
    """A copy of the state machine's state, taken at `now`. `state_of` writes instants as seconds relative to `now`."""

    def __init__(self, state_machine: StateMachine, now: Instant) -> None:
        """Copies the state. Runs on the event loop, so that no event changes the state meanwhile."""
        state, migrating = state_machine.state, state_machine.migrating
        self.now = now
        self.generation = state_machine.generation
        self.synced = state_machine.synced
        self.columns = state.ledger.columns.copy()
        self.nodes = list(state.nodes)
        self.row_names = {row: node.name for row, node in self.nodes}
        self.reservations = state.reservations.copy()
        self.pods = list(state.pods)
        self.holds = list(state.holds)
        self.sample_miss = state_machine.sample_misses.items()
        self.bind_backoff = state.bind_backoff.left(now)
        self.budgets = list(state.budgets)
        preemptions = state_machine.preemptions.items()
        self.preemptions = [(uid, replace(found, waiting=set(found.waiting))) for uid, found in preemptions]
        self.quarantine = list(state.quarantine.items())
        self.pauses = state_machine.pauses
        self.kubernetes = state_machine.policy.kubernetes
        self.vertical_pods = [(uid, copy(vertical_pod)) for uid, vertical_pod in state.vertical_pods.items()]
        known = ((uid, state.pods.known(uid)) for uid, _ in self.vertical_pods)
        #: For each pod that grows in place, the object (pod or VirtualMachine) whose annotation contains its permit.
        self.places = {
            uid: state.annotations.place_of(pod) for uid, pod in known if pod is not None and pod.vertical is not None
        }
        self.queue = migrating.choice.queue.entries()
        self.moves = [replace(move) for move in migrating.migrations.values()]
        self.vmms = list(migrating.objects.values())
        self.machines = state.annotations.machines()
        self.migration_backoffs = list(migrating.choice.backoffs.items())
        self.cleanup = list(migrating.cleanup.items())
        self.written = state.annotations.written()
        self.epoch = state.vertical_pods.epoch


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
        pending=[_pending(pod) for pod in sorted(dump.pods, key=lambda pod: pod.key) if pod.pending],
        holds=[_hold(dump, key, hold) for key, hold in sorted(dump.holds, key=lambda item: (item[1].key, item[0]))],
        quarantine=[
            QuarantinedNode(node=name, why=found.why, since_seconds=round(dump.now - found.since, 3))
            for name, found in sorted(dump.quarantine)
        ],
        nominations=[
            DumpedNomination(**named(miss.key), uid=uid, node=miss.nominated, tried=sorted(miss.tried))
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
            QueuedMachine(**named(names.get(uid)), uid=uid, node=node, load1_micro=load, joined=joined)
            for node, uid, load, joined in dump.queue
        ],
        migrations=[_migration(dump, move, phases.get(move.key)) for move in sorted(dump.moves, key=lambda move: move.key)],
        migration_backoffs=[
            DumpedBackoff(**named(key), failures=backoff.failures, ends_in_seconds=_seconds(backoff.until, dump.now))
            for key, backoff in sorted(dump.migration_backoffs)
        ],
        migration_cleanups=[
            DumpedCleanup(**named(key), due_in_seconds=_seconds(at, dump.now)) for key, at in sorted(dump.cleanup)
        ],
        permits_on_pods=[PermitOnPod(uid=uid, version=version, text=text) for uid, version, text in sorted(dump.written)],
        virtual_machines=[to_builtins(machine) for machine in sorted(dump.machines, key=lambda machine: machine.key)],
        virtual_machine_migrations=[to_builtins(vmm) for vmm in sorted(dump.vmms, key=lambda vmm: vmm.key)],
    )


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


def _of(kind: type[_Part], source: object, **others: Any) -> _Part:
    """A `kind` with the fields `others`, and in its other fields what `source` has by the same names."""
    same = {name: getattr(source, name) for name in kind.__struct_fields__ if name not in others}
    return kind(**others, **{name: _plain(value) for name, value in same.items()})


def _plain(value: object) -> Any:
    return dumped_amounts(value) if isinstance(value, Amounts) else to_builtins(value)


def dumped_amounts(amounts: Amounts) -> DumpedAmounts:
    return DumpedAmounts(cpu=amounts.cpu, memory=amounts.memory)


def _node(columns: NodeColumns, row: Row, node: Node) -> DumpedNode:
    cpu, memory = (
        NodeNumbers(**{name: int(getattr(columns, name)[r, row]) for name in NodeNumbers.__struct_fields__})
        for r in range(len(RESOURCES))
    )
    return _of(DumpedNode, node, cpu=cpu, memory=memory)


def _counted(dump: Dump, uid: PodUid, reservation: Reservation) -> CountedPod:
    cpu, memory = (
        PodNumbers(**{name: getattr(reservation.pod_resources, name)[r] for name in PodNumbers.__struct_fields__})
        for r in range(len(RESOURCES))
    )
    ask_in_seconds = _seconds(reservation.deadline, dump.now)
    return _of(
        CountedPod, reservation, **named(reservation.key), uid=uid, ask_in_seconds=ask_in_seconds, cpu=cpu, memory=memory
    )


def _pending(pod: Pod) -> PendingPod:
    kind, message = pod.kind, pod.unschedulable_message
    return _of(
        PendingPod, pod, **named(pod.key), scheduler_name=kind.scheduler_name, requests=_plain(kind.requests), message=message
    )


def _hold(dump: Dump, key: HoldKey, hold: Hold) -> DumpedHold:
    node, ends_in_seconds = dump.row_names.get(hold.row), _seconds(hold.deadline, dump.now)
    return _of(DumpedHold, hold, **named(hold.key), uid=key.uid, cause=key.cause, node=node, ends_in_seconds=ends_in_seconds)


def _gate(now: Instant, uid: PodUid, preemption: Preemption) -> DumpedGate:
    return _of(
        DumpedGate,
        preemption,
        **named(preemption.pod.key),
        uid=uid,
        priority=preemption.pod.priority,
        waiting_for=sorted(preemption.waiting),
        since_seconds=round(now - preemption.since, 3),
        ends_in_seconds=round(preemption.deadline - now, 3),
    )


def _permit(dump: Dump, uid: PodUid, vertical_pod: VerticalPodState, name: PodKey | None) -> DumpedPermit:
    place = dump.places.get(uid)
    written = None if place is None else read_written(place.text)
    return _of(
        DumpedPermit,
        vertical_pod,
        **named(name),
        uid=uid,
        on=None if place is None else place.on,
        permit=None if written is None else dumped_amounts(written.permit),
        limit=None if written is None else dumped_amounts(written.permit_limit),
        doubted=[to_builtins(written) for written in vertical_pod.unconfirmed],
        heard_in_seconds=_seconds(vertical_pod.heard_at, dump.now),
        denied_since_seconds=_seconds(vertical_pod.denied_since, dump.now),
        behind=vertical_pod.lagging,
        written_in_seconds=_seconds(vertical_pod.written_at, dump.now),
        settle_in_seconds=_seconds(vertical_pod.settle_at, dump.now),
    )


def _migration(dump: Dump, move: Migration, phase: str | None) -> DumpedMigration:
    target_in_seconds = _seconds(move.target_since, dump.now)
    return _of(
        DumpedMigration,
        move,
        **named(move.key),
        machine=move.machine.name,
        phase=phase,
        target_in_seconds=target_in_seconds,
    )


def _seconds(at: Instant | None, now: Instant) -> float | None:
    return None if at is None or math.isinf(at) else round(at - now, 3)
