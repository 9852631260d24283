"""Dumps the state machine's whole state as one JSON document, the answer of `GET /dumpstate`.

`take` copies the mutable state quickly and runs on the event loop; `document` does the slow part and may run in a thread.
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
from slackwater.model.ids import Generation, Instant, NodeName, PodUid, Row
from slackwater.model.kubernetes_rules import KubernetesVersion
from slackwater.model.ledger.ledger import PodResources
from slackwater.model.objects import DisruptionBudget, Node, Pod
from slackwater.model.pauses import Pause
from slackwater.model.pod_constraints import Kind
from slackwater.model.resources import NOTHING, RESOURCES
from slackwater.runtime.dump_vertical import VerticalDump, take_vertical, vertical_document
from slackwater.runtime.state_machine import StateMachine

#: How the version of every dump begins.
FAMILY: Final = "slackwater.dev/dumpstate/"
VERSION: Final = f"{FAMILY}v1alpha3"
_NO_KIND: Final = Kind(namespace="", requests=NOTHING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dump:
    """A copy of the state machine's state, taken at `now`. `document` writes instants as seconds relative to `now`."""

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


def document(dump: Dump) -> dict[str, Any]:
    """The dump as a JSON object, which `restore` reads. This is the slow part; it may run in a thread."""
    pods_by_uid = {pod.uid: pod for pod in dump.pods}
    return {
        "version": VERSION,
        "kubernetes": {"version": str(dump.kubernetes), "featureGates": dict(dump.kubernetes.gates)},
        "generation": dump.generation,
        "synced": dump.synced,
        "paused": {pause.activity: pause.note for pause in dump.pauses},
        "nodes": [_node(dump.columns, row, node) for row, node in sorted(dump.nodes, key=lambda item: item[1].name)],
        "pods": [
            _claimed(dump, uid, reservation, pods_by_uid.get(uid))
            for uid, reservation in sorted(dump.reservations.items(), key=lambda item: (item[1].key, item[0]))
        ],
        "pending": [_pending(pod) for pod in sorted(dump.pods, key=lambda pod: pod.key) if pod.node is None and not pod.ended],
        "holds": [_hold(dump, key, hold) for key, hold in sorted(dump.holds, key=lambda item: (item[1].key, item[0]))],
        "nominations": [
            _nomination(uid, sample_miss)
            for uid, sample_miss in sorted(dump.sample_miss, key=lambda item: (item[1].key, item[0]))
            if sample_miss.nominated is not None
        ],
        "deniedBinds": [
            {"uid": uid, "node": node, "endsInSeconds": round(seconds, 3), "forRoom": for_room}
            for uid, node, seconds, for_room in sorted(dump.bind_backoff)
        ],
        "quarantine": [
            {"node": name, "why": found.why, "sinceSeconds": round(dump.now - found.since, 3)}
            for name, found in sorted(dump.quarantine)
        ],
        "gates": [
            _gate(dump.now, uid, preemption)
            for uid, preemption in sorted(dump.preemptions, key=lambda item: (item[1].pod.key, item[0]))
        ],
        **vertical_document(dump.vertical, {uid: reservation.key for uid, reservation in dump.reservations.items()}),
        "objects": _objects(dump),
    }


def _objects(dump: Dump) -> dict[str, Any]:
    """The API objects that decisions read. Each equivalence group is written once; pods refer to it by index."""
    kinds: dict[Kind, int] = {}
    pods = [
        {**to_builtins(structs.replace(pod, kind=_NO_KIND)), "kind": kinds.setdefault(pod.kind, len(kinds))}
        for pod in sorted(dump.pods, key=lambda pod: (pod.key, pod.uid))
    ]
    return {
        "kinds": [_kind(kind) for kind in kinds],
        "nodes": [to_builtins(node) for _, node in sorted(dump.nodes, key=lambda item: item[1].name)],
        "pods": pods,
        "budgets": [to_builtins(budget) for budget in sorted(dump.budgets, key=lambda b: (b.namespace, b.name))],
    }


def _kind(kind: Kind) -> dict[str, Any]:
    document: dict[str, Any] = to_builtins(kind.whole())
    del document["packed_rules"]  # None: only this process packs rules
    return document


def _node(columns: NodeColumns, row: Row, node: Node) -> dict[str, Any]:
    return {
        "name": node.name,
        **{
            resource: {
                "total": int(columns.total[r, row]),
                "watermark": int(columns.watermark[r, row]),
                "reserved": int(columns.reserved[r, row]),
                "buffer": int(columns.buffer[r, row]),
                "capacityPressure": int(columns.capacity_pressure[r, row]),
                "pressureAccountedFor": int(columns.pressure_accounted_for[r, row]),
                "held": int(columns.held[r, row]),
            }
            for r, resource in enumerate(RESOURCES)
        },
        "ready": node.ready,
        "unschedulable": node.unschedulable,
    }


def _claimed(dump: Dump, uid: PodUid, reservation: Reservation, pod: Pod | None) -> dict[str, Any]:
    return {
        "namespace": reservation.key.namespace,
        "name": reservation.key.name,
        "uid": uid,
        "node": reservation.node,
        "state": reservation.state,
        "askInSeconds": None if reservation.deadline is None else round(reservation.deadline - dump.now, 3),
        "vertical": reservation.vertical,
        "priority": reservation.priority,
        **_amounts(reservation.pod_resources),
    }


def _amounts(pod_resources: PodResources) -> dict[str, dict[str, int]]:
    return {
        resource: {
            "reserved": pod_resources.reserved[r],
            "buffer": pod_resources.buffer[r],
            "capacityPressure": pod_resources.capacity_pressure[r],
            "accountedFor": pod_resources.accounted_for[r],
            "min": pod_resources.min[r],
            "max": pod_resources.max[r],
        }
        for r, resource in enumerate(RESOURCES)
    }


def _pending(pod: Pod) -> dict[str, Any]:
    return {
        "namespace": pod.key.namespace,
        "name": pod.key.name,
        "uid": pod.uid,
        "schedulerName": pod.kind.scheduler_name,
        "priority": pod.priority,
        "requests": dict(zip(RESOURCES, pod.kind.requests, strict=True)),
        "message": pod.unschedulable_message,
    }


def _hold(dump: Dump, key: HoldKey, hold: Hold) -> dict[str, Any]:
    return {
        "namespace": hold.key.namespace,
        "name": hold.key.name,
        "uid": key.uid,
        "cause": key.cause,
        "node": dump.row_names.get(hold.row),
        "amounts": dict(zip(RESOURCES, hold.amounts, strict=True)),
        "endsInSeconds": None if math.isinf(hold.deadline) else round(hold.deadline - dump.now, 3),
        "nominee": hold.nominee,
    }


def _nomination(uid: PodUid, sample_miss: SampleMiss) -> dict[str, Any]:
    return {
        "namespace": sample_miss.key.namespace,
        "name": sample_miss.key.name,
        "uid": uid,
        "node": sample_miss.nominated,
        "tried": sorted(sample_miss.tried),
    }


def _gate(now: Instant, uid: PodUid, preemption: Preemption) -> dict[str, Any]:
    return {
        "namespace": preemption.pod.key.namespace,
        "name": preemption.pod.key.name,
        "uid": uid,
        "shut": preemption.shut,
        "phase": preemption.phase,
        "node": preemption.node,
        "priority": preemption.pod.priority,
        "waitingFor": sorted(preemption.waiting),
        "sinceSeconds": round(now - preemption.since, 3),
        "endsInSeconds": round(preemption.deadline - now, 3),
    }
