"""Dumps the state machine's whole state as one value, the answer of `GET /dumpstate`.

`take` copies the mutable state quickly and runs on the event loop; `state_of` does the slow part and may run in a thread.
Entries are sorted by name and amounts are integers (milliCPU, bytes), so two dumps of the same state are equal.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from msgspec import structs, to_builtins

from slackwater.cluster.holds import Hold, HoldKey
from slackwater.cluster.quarantine import Quarantined
from slackwater.cluster.reservations import Reservation
from slackwater.cluster.sample_misses import SampleMiss
from slackwater.controllers.preemption.preemption import Preemption
from slackwater.model.columns import NodeColumns
from slackwater.model.ids import Generation, Instant, NodeName, PodKey, PodUid, Row
from slackwater.model.kubernetes_rules import KubernetesVersion
from slackwater.model.objects import DisruptionBudget, Node, Pod
from slackwater.model.pauses import Pause
from slackwater.model.pod_constraints import Kind
from slackwater.model.resources import NOTHING, RESOURCES
from slackwater.runtime.dump_answer import (
    CountedPod,
    DeniedBind,
    DumpedGate,
    DumpedHold,
    DumpedNode,
    DumpedNomination,
    DumpedObjects,
    DumpedVersion,
    NodeNumbers,
    PendingPod,
    PodNumbers,
    QuarantinedNode,
    State,
    Value,
)
from slackwater.runtime.dump_vertical import VerticalDump, dumped_amounts, take_vertical, vertical_state
from slackwater.runtime.state_machine import StateMachine

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
    vertical: VerticalDump


def take(state_machine: StateMachine, now: Instant) -> Dump:
    """Copies the state. Runs on the event loop, so that no event changes the state meanwhile."""
    nodes = list(state_machine.state.nodes)
    return Dump(
        now=now,
        generation=state_machine.generation,
        synced=state_machine.synced,
        columns=state_machine.state.ledger.columns.copy(),
        nodes=nodes,
        row_names={row: node.name for row, node in nodes},
        reservations=state_machine.state.reservations.copy(),
        pods=list(state_machine.state.pods),
        holds=list(state_machine.state.holds),
        sample_miss=state_machine.state.sample_misses.items(),
        bind_backoff=state_machine.state.bind_backoff.left(now),
        budgets=list(state_machine.state.budgets),
        preemptions=[(uid, replace(found, waiting=set(found.waiting))) for uid, found in state_machine.preemptions.items()],
        quarantine=list(state_machine.state.quarantine.items()),
        pauses=state_machine.pausing.pauses,
        kubernetes=state_machine.policy.kubernetes,
        vertical=take_vertical(state_machine, now),
    )


def state_of(dump: Dump, *, autoscaler: Value | None = None, configuration: Value | None = None) -> State:
    """The answer, with the autoscaler's last loop and the configuration. This is the slow part; it may run in a thread."""
    vertical = vertical_state(dump.vertical, {uid: reservation.key for uid, reservation in dump.reservations.items()})
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
        **structs.asdict(vertical),
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


def _named(key: PodKey) -> dict[str, Any]:
    return {"namespace": key.namespace, "name": key.name}


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
        ask_in_seconds=None if reservation.deadline is None else round(reservation.deadline - dump.now, 3),
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
        ends_in_seconds=None if math.isinf(hold.deadline) else round(hold.deadline - dump.now, 3),
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
