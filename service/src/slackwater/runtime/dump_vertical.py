"""Writes the sections of the dump (`dump`) for vertical pods, which resize in place: permits, the migration queue, migrations.

Instants are written as seconds from the moment of the dump; past instants are negative.
"""

import math
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

from msgspec import to_builtins

from slackwater.cluster.annotations import AnnotationPlace
from slackwater.cluster.vertical_pods import VerticalPodState
from slackwater.controllers.migration.migration_choice import MigrationBackoff
from slackwater.controllers.migration.state import Migration
from slackwater.model.ids import Instant, NodeName, PodKey, PodUid
from slackwater.model.permits import read_written
from slackwater.model.resources import RESOURCES, Amounts
from slackwater.model.vertical import Machine, VirtualMachineMigration
from slackwater.runtime.state_machine import StateMachine


@dataclass(frozen=True, slots=True, kw_only=True)
class VerticalDump:
    """A copy of the state of vertical pods. `places`: for each pod, the object (pod or VirtualMachine) whose annotation
    contains its permit."""

    now: Instant
    vertical_pods: Sequence[tuple[PodUid, VerticalPodState]]
    places: Mapping[PodUid, AnnotationPlace]
    queue: Sequence[tuple[NodeName, PodUid, int | None, int]]
    moves: Sequence[Migration]
    objects: Sequence[VirtualMachineMigration]
    machines: Sequence[Machine]
    backoffs: Sequence[tuple[PodKey, MigrationBackoff]]
    cleanup: Sequence[tuple[PodKey, Instant]]
    written: Sequence[tuple[PodUid, int, str | None]]
    epoch: int


def take_vertical(state_machine: StateMachine, now: Instant) -> VerticalDump:
    vertical_pods = [(uid, copy(vertical_pod)) for uid, vertical_pod in state_machine.state.vertical_pods.items()]
    pods = {
        uid: pod
        for uid, _ in vertical_pods
        if (pod := state_machine.state.pods.known(uid)) is not None and pod.vertical is not None
    }
    choice = state_machine.migrating.choice
    return VerticalDump(
        now=now,
        vertical_pods=vertical_pods,
        places={uid: state_machine.state.annotations.place_of(pod) for uid, pod in pods.items()},
        queue=choice.queue.entries(),
        moves=[replace(move) for move in state_machine.migrating.migrations.values()],
        objects=list(state_machine.migrating.objects.values()),
        machines=state_machine.state.annotations.machines(),
        backoffs=choice.backoffs(),
        cleanup=state_machine.migrating.cleanups(),
        written=state_machine.state.annotations.written(),
        epoch=state_machine.state.vertical_pods.epoch,
    )


def vertical_document(dump: VerticalDump, names: Mapping[PodUid, PodKey]) -> dict[str, Any]:
    """The sections as JSON values. `names`: the key of each pod that has a reservation."""
    phases = {migration.key: migration.phase for migration in dump.objects}
    return {
        "epoch": dump.epoch,
        "permits": sorted(
            (_permit(dump, uid, vertical_pod, names.get(uid)) for uid, vertical_pod in dump.vertical_pods), key=_by_name
        ),
        "migrationQueue": [
            {"node": node, **_named(names.get(uid)), "uid": uid, "load1Micro": load, "joined": joined}
            for node, uid, load, joined in dump.queue
        ],
        "migrations": sorted((_migration(dump, move, phases.get(move.key)) for move in dump.moves), key=_by_name),
        "migrationBackoffs": [
            {**_named(key), "failures": backoff.failures, "endsInSeconds": _seconds(backoff.until, dump.now)}
            for key, backoff in sorted(dump.backoffs)
        ],
        "migrationCleanups": [{**_named(key), "dueInSeconds": _seconds(at, dump.now)} for key, at in sorted(dump.cleanup)],
        "permitsOnPods": [{"uid": uid, "version": version, "text": text} for uid, version, text in sorted(dump.written)],
        "virtualMachines": [to_builtins(machine) for machine in sorted(dump.machines, key=lambda machine: machine.key)],
        "virtualMachineMigrations": [
            to_builtins(migration) for migration in sorted(dump.objects, key=lambda migration: migration.key)
        ],
    }


def _by_name(entry: Mapping[str, Any]) -> tuple[str, str, str]:
    return entry["namespace"], entry["name"], str(entry.get("uid", ""))


def _named(key: PodKey | None) -> dict[str, str]:
    return {"namespace": "" if key is None else key.namespace, "name": "" if key is None else key.name}


def _permit(dump: VerticalDump, uid: PodUid, vertical_pod: VerticalPodState, name: PodKey | None) -> dict[str, Any]:
    place = dump.places.get(uid)
    written = None if place is None else read_written(place.text)
    return {
        **_named(name),
        "uid": uid,
        "on": None if place is None else place.on,
        "permit": None if written is None else _amounts(written.permit),
        "limit": None if written is None else _amounts(written.permit_limit),
        "writing": None if vertical_pod.writing is None else to_builtins(vertical_pod.writing),
        "doubted": [to_builtins(written) for written in vertical_pod.unconfirmed],
        "heardInSeconds": _seconds(vertical_pod.heard_at, dump.now),
        "deniedSinceSeconds": _seconds(vertical_pod.denied_since, dump.now),
        "exact": vertical_pod.exact,
        "fenced": vertical_pod.fenced,
        "foundOn": vertical_pod.found_on,
        "doubtful": vertical_pod.doubtful,
        "permitted": None if vertical_pod.permitted is None else _amounts(vertical_pod.permitted),
        "resizedFrom": None if vertical_pod.resized_from is None else _amounts(vertical_pod.resized_from),
        "has": None if vertical_pod.has is None else _amounts(vertical_pod.has),
        "load": None if vertical_pod.load is None else to_builtins(vertical_pod.load),
        "odd": vertical_pod.odd,
        "urgent": vertical_pod.urgent,
        "behind": vertical_pod.lagging,
        "attempts": vertical_pod.attempts,
        "oscillating": vertical_pod.oscillating,
        "loweredFrom": None if vertical_pod.lowered_from is None else _amounts(vertical_pod.lowered_from),
        "writtenInSeconds": _seconds(vertical_pod.written_at, dump.now),
        "settleInSeconds": _seconds(vertical_pod.settle_at, dump.now),
        "settleFor": None if vertical_pod.settle_for is None else _amounts(vertical_pod.settle_for),
        "vertical": to_builtins(vertical_pod.vertical),
    }


def _migration(dump: VerticalDump, move: Migration, phase: str | None) -> dict[str, Any]:
    return {
        **_named(move.key),
        "machine": move.machine.name,
        "pod": move.pod,
        "source": move.source,
        "targetNode": move.target_node,
        "amounts": _amounts(move.amounts),
        "created": move.created,
        "phase": phase,
        "target": move.target,
        "targetInSeconds": _seconds(move.target_since, dump.now),
        "landed": move.landed,
    }


def _amounts(amounts: Amounts) -> dict[str, int]:
    return dict(zip(RESOURCES, amounts, strict=True))


def _seconds(at: Instant | None, now: Instant) -> float | None:
    return None if at is None or math.isinf(at) else round(at - now, 3)
