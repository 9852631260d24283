"""Reads from the state machine what explanations need about one object, and returns it as values for the planning process.

The functions run on the event loop, so each is quick. They change nothing, and raise `NothingThere` for an unknown object.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import structs

from slackwater.cluster.reservations import Reservation
from slackwater.cluster.vertical_pods import VerticalPodState
from slackwater.controllers.migration.state import Migration
from slackwater.controllers.preemption.state import Preemption
from slackwater.explain.nodes import NodeContext
from slackwater.explain.pods import PodContext
from slackwater.explain.workloads import GatedPreemptor, GrowingPod, MigratingPod
from slackwater.model.columns import NodeColumns
from slackwater.model.ids import Instant, NodeName, PodKey
from slackwater.model.objects import Pod
from slackwater.model.reasons import Reason, UnremovableReason
from slackwater.model.resources import RESOURCES, Amounts, amounts_of
from slackwater.ports.protocols import NothingThere
from slackwater.runtime.change_collector import as_counted
from slackwater.runtime.state_machine import StateMachine

#: For how many seconds a node has been a candidate for removal (None: it is none), and the reasons that keep it, with texts.
HeldBack = tuple[float | None, Sequence[tuple[UnremovableReason, str]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PodFacts:
    """A pod with its node and amounts as the reservations count them, and the state machine's findings on it."""

    pod: Pod
    word: PodContext


def read_pod(state_machine: StateMachine, key: PodKey, now: Instant) -> tuple[PodFacts, NodeColumns]:
    """Reads a pod, and the ledger's columns by which filter would judge nodes for it. Raises `NothingThere`."""
    pod = _pod(state_machine, key)
    reservation = state_machine.state.reservations.get(pod.uid)
    seen = state_machine.seen(pod, now)
    counted = pod if pod.ended else as_counted(pod, reservation)
    reason = seen.reason
    word = PodContext(
        reason=reason,
        denied=seen.denied,
        quarantined=seen.quarantined,
        waits_for=seen.waits_for,
        only_on=seen.only_on,
        detail=pod.vertical_problem or "" if reason is Reason.VERTICAL_UNREADABLE else "",
    )
    if reason is Reason.POD_BOUND_ELSEWHERE and pod.node is None:
        counted = structs.replace(counted, node=None)  # its bind is under way, so it must not be explained as a bound pod
    return PodFacts(pod=counted, word=word), seen.columns


def read_node(state_machine: StateMachine, name: NodeName, held_back: HeldBack) -> NodeContext:
    """Reads a node's ledger entries and its removal, if one is under way. Raises `NothingThere`."""
    row = state_machine.state.nodes.row_of.get(name)
    if row is None:
        raise NothingThere(f"node {name}: is not in the cluster state")
    columns = state_machine.state.ledger.columns
    phase = next((drain.phase for drain in state_machine.drains.active if drain.order.node == name), None)
    since, waits = held_back
    ledger: dict[str, Any] = {
        str(resource): {
            "total": int(columns.total[line, row]),
            "reserved": int(columns.reserved[line, row]),
            "buffer": int(columns.buffer[line, row]),
            "watermark": int(columns.watermark[line, row]),
            "capacityPressure": int(columns.capacity_pressure[line, row]),
            "held": int(columns.held[line, row]),
        }
        for line, resource in enumerate(RESOURCES)
    }
    if (doubt := dict(state_machine.state.quarantine.items()).get(name)) is not None:
        ledger["quarantined"] = doubt.why
    return NodeContext(begun=phase, unneeded_seconds=since, waits=waits, ledger=ledger)


def read_permit(state_machine: StateMachine, key: PodKey) -> GrowingPod:
    """Reads a pod that grows in place. Raises `NothingThere`, also if the pod does not grow or has no reservation."""
    pod = _pod(state_machine, key)
    reservation, vertical_pod = state_machine.state.reservations.get(pod.uid), state_machine.state.vertical_pods.get(pod.uid)
    if reservation is None or vertical_pod is None:
        raise NothingThere(f"permit {key}: the pod does not grow in place, or counts on no node")
    pod_resources = reservation.pod_resources
    return GrowingPod(
        pod=pod,
        node=reservation.node,
        reserved=amounts_of(pod_resources.reserved),
        denied=amounts_of(pod_resources.capacity_pressure),
        held=amounts_of(pod_resources.buffer),
        writing=vertical_pod.writing is not None,
        fenced=vertical_pod.fenced,
        may_migrate=pod.migratable,
        facts=_figures(reservation, vertical_pod),
    )


def read_migration(state_machine: StateMachine, key: PodKey, now: Instant) -> MigratingPod:
    """Reads a pod that migrates, or that may migrate. Raises `NothingThere`, also if the pod is no virtual machine."""
    pod = _pod(state_machine, key)
    grower = read_permit(state_machine, key)
    if pod.vertical is None or pod.vertical.machine is None:
        raise NothingThere(f"migration {key}: the pod is no virtual machine, and migrates never")
    migration = next((each for each in state_machine.migrating.migrations.values() if pod.uid in (each.pod, each.target)), None)
    choice = state_machine.migrating.choice
    queue = [uid for node, uid, _, _ in choice.queue.entries() if node == grower.node]
    machine = PodKey(key.namespace, pod.vertical.machine)
    until = choice.backoffs.get(machine)
    before = queue.index(pod.uid) if pod.uid in queue else 0
    return MigratingPod(
        grower=grower,
        phase=None if migration is None else _phase(state_machine, migration),
        target_node=None if migration is None else migration.target_node,
        before=before,
        backing_off=None if until is None or until.until <= now else until.until - now,
    )


def read_gate(state_machine: StateMachine, key: PodKey, now: Instant) -> GatedPreemptor:
    """Reads a pod for which a preemption is under way. Raises `NothingThere` if the pod is unknown or no preemption runs."""
    pod = _pod(state_machine, key)
    found: Preemption | None = dict(state_machine.preemptions.items()).get(pod.uid)
    if found is None:
        raise NothingThere(f"gate {key}: no preemption runs for the pod")
    facts = {"sinceSeconds": round(now - found.since, 3), "endsInSeconds": round(found.deadline - now, 3)}
    return GatedPreemptor(
        pod=pod,
        node=found.node,
        phase=found.phase,
        shut=found.shut,
        waiting=state_machine.preemptions.waits_for(pod.uid),
        facts=facts,
    )


def _pod(state_machine: StateMachine, key: PodKey) -> Pod:
    pod = state_machine.state.pods.by_key(key)
    if pod is None:
        raise NothingThere(f"pod {key}: is not in the cluster state")
    return pod


def _figures(reservation: Reservation, vertical_pod: VerticalPodState) -> dict[str, Any]:
    pod_resources = reservation.pod_resources
    return {
        "node": reservation.node,
        "reserved": _amounts(amounts_of(pod_resources.reserved)),
        "buffer": _amounts(amounts_of(pod_resources.buffer)),
        "capacityPressure": _amounts(amounts_of(pod_resources.capacity_pressure)),
        "min": _amounts(amounts_of(pod_resources.min)),
        "max": _amounts(amounts_of(pod_resources.max)),
        "has": None if vertical_pod.has is None else _amounts(vertical_pod.has),
    }


def _amounts(amounts: Amounts) -> dict[str, int]:
    return {"milliCPU": amounts.cpu, "bytes": amounts.memory}


def _phase(state_machine: StateMachine, migration: Migration) -> str:
    known = state_machine.migrating.objects.get(migration.key)
    return (known.phase if known is not None and known.phase else "") or ("created" if migration.created else "being created")
