"""What of the dump concerns workloads that grow in place: permits, the migration queue, migrations. See `dump.py`.

Instants are told as seconds from the moment of the dump: those that have passed are negative.
"""

import math
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

from msgspec import to_builtins

from slackwater.cluster.annotations import Place
from slackwater.cluster.vertical_pods import Standing
from slackwater.controllers.migration.choice import Backoff
from slackwater.controllers.migration.state import Move
from slackwater.model.ids import Instant, NodeName, PodKey, PodUid
from slackwater.model.machines import Machine, Migration
from slackwater.model.permit_annotation import read_written
from slackwater.model.resources import RESOURCES, Amounts
from slackwater.runtime.state_machine import World


@dataclass(frozen=True, slots=True, kw_only=True)
class VerticalDump:
    """A copy. `places`: where each permit stands."""

    now: Instant
    standings: Sequence[tuple[PodUid, Standing]]
    places: Mapping[PodUid, Place]
    queue: Sequence[tuple[NodeName, PodUid, int | None, int]]
    moves: Sequence[Move]
    objects: Sequence[Migration]
    machines: Sequence[Machine]
    backoffs: Sequence[tuple[PodKey, Backoff]]
    cleanup: Sequence[tuple[PodKey, Instant]]
    written: Sequence[tuple[PodUid, int, str | None]]
    epoch: int


def take_vertical(world: World, now: Instant) -> VerticalDump:
    standings = [(uid, copy(standing)) for uid, standing in world.standings.items()]
    pods = {uid: pod for uid, _ in standings if (pod := world.pods.known(uid)) is not None and pod.vertical is not None}
    choice = world.migrating.choice
    return VerticalDump(
        now=now,
        standings=standings,
        places={uid: world.annotations.place_of(pod) for uid, pod in pods.items()},
        queue=choice.queue.entries(),
        moves=[replace(move) for move in world.migrating.moves.values()],
        objects=list(world.migrating.objects.values()),
        machines=world.annotations.machines(),
        backoffs=choice.backoffs(),
        cleanup=world.migrating.cleanups(),
        written=world.annotations.written(),
        epoch=world.standings.epoch,
    )


def vertical_document(dump: VerticalDump, names: Mapping[PodUid, PodKey]) -> dict[str, Any]:
    """The sections as JSON values."""
    phases = {migration.key: migration.phase for migration in dump.objects}
    return {
        "epoch": dump.epoch,
        "permits": sorted((_permit(dump, uid, standing, names.get(uid)) for uid, standing in dump.standings), key=_by_name),
        "migrationQueue": [
            {"node": node, **_named(names.get(uid)), "uid": uid, "load1Micro": load, "joined": joined}
            for node, uid, load, joined in dump.queue
        ],
        "migrations": sorted((_move(dump, move, phases.get(move.key)) for move in dump.moves), key=_by_name),
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


def _permit(dump: VerticalDump, uid: PodUid, standing: Standing, name: PodKey | None) -> dict[str, Any]:
    place = dump.places.get(uid)
    written = None if place is None else read_written(place.text)
    return {
        **_named(name),
        "uid": uid,
        "on": None if place is None else place.on,
        "permit": None if written is None else _amounts(written.permit),
        "ceiling": None if written is None else _amounts(written.ceiling),
        "writing": None if standing.writing is None else to_builtins(standing.writing),
        "doubted": [to_builtins(written) for written in standing.doubted],
        "heardInSeconds": _seconds(standing.heard_at, dump.now),
        "deniedSinceSeconds": _seconds(standing.denied_since, dump.now),
        "exact": standing.exact,
        "fenced": standing.fenced,
        "foundOn": standing.found_on,
        "doubtful": standing.doubtful,
        "permitted": None if standing.permitted is None else _amounts(standing.permitted),
        "resizedFrom": None if standing.resized_from is None else _amounts(standing.resized_from),
        "has": None if standing.has is None else _amounts(standing.has),
        "load": None if standing.load is None else to_builtins(standing.load),
        "odd": standing.odd,
        "urgent": standing.urgent,
        "behind": standing.behind,
        "attempts": standing.attempts,
        "restless": standing.restless,
        "loweredFrom": None if standing.lowered_from is None else _amounts(standing.lowered_from),
        "writtenInSeconds": _seconds(standing.written_at, dump.now),
        "settleInSeconds": _seconds(standing.settle_at, dump.now),
        "settleFor": None if standing.settle_for is None else _amounts(standing.settle_for),
        "vertical": to_builtins(standing.vertical),
    }


def _move(dump: VerticalDump, move: Move, phase: str | None) -> dict[str, Any]:
    return {
        **_named(move.key),
        "machine": move.machine.name,
        "pod": move.pod,
        "source": move.source,
        "landing": move.landing,
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
