"""What is read of the world about the one object that is asked about: on the event loop, quickly, as values."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from slackwater.cluster.reservations import Claim
from slackwater.cluster.vertical_pods import Standing
from slackwater.controllers.migration.state import Move
from slackwater.controllers.preemption.state import Preemption
from slackwater.explain.growing import Gated, Grower, Moving
from slackwater.explain.nodes import NodeWord
from slackwater.explain.pods import PodWord
from slackwater.model.ids import Instant, NodeName, PodKey, PodUid
from slackwater.model.objects import Pod
from slackwater.model.reasons import Reason
from slackwater.model.resources import RESOURCES, Amounts, amounts_of
from slackwater.model.unremovable_reasons import Hindrance
from slackwater.ports.protocols import NothingThere
from slackwater.runtime.changes import as_counted
from slackwater.runtime.flows.filter import Seen
from slackwater.runtime.state_machine import World

#: For how long a node has been a candidate for removal, and what holds it back.
HeldBack = tuple[float | None, Sequence[tuple[Hindrance, str]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRead:
    """A pod as it counts, what filter would look at, and whether it would be refused for a missing request."""

    pod: Pod
    seen: Seen
    word: PodWord


def read_pod(world: World, key: PodKey, now: Instant) -> PodRead:
    """Raises `NothingThere`."""
    pod = _pod(world, key)
    claim = world.claims.get(pod.uid)
    seen = world.seen(pod, now)
    counted = pod if pod.ended else as_counted(pod, claim)
    reason = seen.reason
    if reason is Reason.MISSING_REQUEST and pod.kind.scheduler_name != world.policy.scheduler_name:
        reason = Reason.OK  # no filter of ours is asked
    word = PodWord(
        reason=reason,
        denied=seen.denied,
        quarantined=seen.quarantined,
        waits_for=seen.waits_for,
        only_on=seen.only_on,
        detail=pod.vertical_problem or "" if reason is Reason.VERTICAL_UNREADABLE else "",
    )
    if reason is Reason.POD_BOUND_ELSEWHERE and pod.node is None:
        counted = replace(counted, node=None)  # its bind is on the way: that is told, not that it has a node
    return PodRead(pod=counted, seen=seen, word=word)


def read_node(world: World, name: NodeName, held_back: HeldBack) -> NodeWord:
    """Raises `NothingThere`."""
    row = world.nodes.row_of.get(name)
    if row is None:
        raise NothingThere(f"node {name}: is not in the picture")
    columns = world.ledger.columns
    phase = next((drain.phase for drain in world.removals.drains.active if drain.order.node == name), None)
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
    if (doubt := dict(world.quarantine.items()).get(name)) is not None:
        ledger["quarantined"] = doubt.why
    return NodeWord(begun=phase, unneeded_seconds=since, waits=waits, ledger=ledger)


def read_permit(world: World, key: PodKey) -> Grower:
    """Raises `NothingThere`."""
    pod = _pod(world, key)
    claim, standing = world.claims.get(pod.uid), world.standings.get(pod.uid)
    if claim is None or standing is None:
        raise NothingThere(f"permit {key}: the pod does not grow in place, or counts on no node")
    return _grower(world, pod, claim, standing)


def read_migration(world: World, key: PodKey, now: Instant) -> Moving:
    """Of a pod that migrates, or may. Raises `NothingThere`."""
    pod = _pod(world, key)
    grower = read_permit(world, key)
    if pod.vertical is None or pod.vertical.machine is None:
        raise NothingThere(f"migration {key}: the pod is no virtual machine, and migrates never")
    move = next((move for move in world.migrating.moves.values() if _is_about(move, pod.uid)), None)
    choice = world.migrating.choice
    queue = [uid for node, uid, _, _ in choice.queue.entries() if node == grower.node]
    machine = PodKey(key.namespace, pod.vertical.machine)
    until = dict(choice.backoffs()).get(machine)
    before = queue.index(pod.uid) if pod.uid in queue else 0
    return Moving(
        grower=grower,
        phase=None if move is None else _phase(world, move),
        landing=None if move is None else move.landing,
        before=before,
        backing_off=None if until is None or until.until <= now else until.until - now,
    )


def read_gate(world: World, key: PodKey, now: Instant) -> Gated:
    """Raises `NothingThere`."""
    pod = _pod(world, key)
    found: Preemption | None = dict(world.preemptions.items()).get(pod.uid)
    if found is None:
        raise NothingThere(f"gate {key}: no preemption runs for the pod")
    facts = {"sinceSeconds": round(now - found.since, 3), "endsInSeconds": round(found.deadline - now, 3)}
    return Gated(
        pod=pod,
        node=found.node,
        phase=found.phase,
        shut=found.shut,
        waiting=world.preemptions.waits_for(pod.uid),
        facts=facts,
    )


def _pod(world: World, key: PodKey) -> Pod:
    pod = world.pods.by_key(key)
    if pod is None:
        raise NothingThere(f"pod {key}: is not in the picture")
    return pod


def _grower(world: World, pod: Pod, claim: Claim, standing: Standing) -> Grower:
    account = claim.account
    return Grower(
        pod=pod,
        node=claim.node,
        reserved=amounts_of(account.reserved),
        denied=amounts_of(account.capacity_pressure),
        held=amounts_of(account.buffer),
        writing=standing.writing is not None,
        fenced=standing.fenced,
        may_migrate=standing.vertical.migratable,
        facts=_figures(claim, standing),
    )


def _figures(claim: Claim, standing: Standing) -> dict[str, Any]:
    account = claim.account
    return {
        "node": claim.node,
        "reserved": _told(amounts_of(account.reserved)),
        "buffer": _told(amounts_of(account.buffer)),
        "capacityPressure": _told(amounts_of(account.capacity_pressure)),
        "min": _told(amounts_of(account.min)),
        "max": _told(amounts_of(account.max)),
        "has": None if standing.has is None else _told(standing.has),
    }


def _told(amounts: Amounts) -> dict[str, int]:
    return {"milliCPU": amounts.cpu, "bytes": amounts.memory}


def _is_about(move: Move, uid: PodUid) -> bool:
    return uid in (move.pod, move.target)


def _phase(world: World, move: Move) -> str:
    known = world.migrating.objects.get(move.key)
    return (known.phase if known is not None and known.phase else "") or ("created" if move.created else "being created")
