"""Writes the sections of the dump (`dump`) for vertical pods, which resize in place: permits, the migration queue, migrations.

Instants are written as seconds from the moment of the dump; past instants are negative.
"""

import math
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Final

from msgspec import to_builtins

from slackwater.cluster.annotations import AnnotationPlace
from slackwater.cluster.vertical_pods import VerticalPodState
from slackwater.controllers.migration.migration_choice import MigrationBackoff
from slackwater.controllers.migration.state import Migration
from slackwater.model.ids import Instant, NodeName, PodKey, PodUid
from slackwater.model.permits import read_written
from slackwater.model.resources import Amounts
from slackwater.model.vertical import Machine, VirtualMachineMigration
from slackwater.runtime.dump_answer import (
    DumpedAmounts,
    DumpedBackoff,
    DumpedCleanup,
    DumpedMigration,
    DumpedPermit,
    PermitOnPod,
    QueuedMachine,
    VerticalState,
)
from slackwater.runtime.state_machine import StateMachine

#: The fields of `DumpedPermit` that are those of `VerticalPodState`: amounts, and others.
_SAME_AMOUNTS: Final = ("permitted", "resized_from", "has", "lowered_from", "settle_for")
_SAME: Final = ("exact", "fenced", "found_on", "doubtful", "odd", "urgent", "attempts", "oscillating")


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


def vertical_state(dump: VerticalDump, names: Mapping[PodUid, PodKey]) -> VerticalState:
    """The sections. `names`: the key of each pod that has a reservation."""
    phases = {migration.key: migration.phase for migration in dump.objects}
    return VerticalState(
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
            for key, backoff in sorted(dump.backoffs)
        ],
        migration_cleanups=[
            DumpedCleanup(**_named(key), due_in_seconds=_seconds(at, dump.now)) for key, at in sorted(dump.cleanup)
        ],
        permits_on_pods=[PermitOnPod(uid=uid, version=version, text=text) for uid, version, text in sorted(dump.written)],
        virtual_machines=[to_builtins(machine) for machine in sorted(dump.machines, key=lambda machine: machine.key)],
        virtual_machine_migrations=[
            to_builtins(migration) for migration in sorted(dump.objects, key=lambda migration: migration.key)
        ],
    )


def _named(key: PodKey | None) -> dict[str, Any]:
    return {"namespace": "" if key is None else key.namespace, "name": "" if key is None else key.name}


def _permit(dump: VerticalDump, uid: PodUid, vertical_pod: VerticalPodState, name: PodKey | None) -> DumpedPermit:
    place = dump.places.get(uid)
    written = None if place is None else read_written(place.text)
    same: dict[str, Any] = {name: getattr(vertical_pod, name) for name in _SAME}
    same |= {name: _maybe(getattr(vertical_pod, name)) for name in _SAME_AMOUNTS}
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


def _migration(dump: VerticalDump, move: Migration, phase: str | None) -> DumpedMigration:
    return DumpedMigration(
        **_named(move.key),
        machine=move.machine.name,
        pod=move.pod,
        source=move.source,
        target_node=move.target_node,
        amounts=dumped_amounts(move.amounts),
        created=move.created,
        phase=phase,
        target=move.target,
        target_in_seconds=_seconds(move.target_since, dump.now),
        landed=move.landed,
    )


def dumped_amounts(amounts: Amounts) -> DumpedAmounts:
    return DumpedAmounts(cpu=amounts.cpu, memory=amounts.memory)


def _maybe(amounts: Amounts | None) -> DumpedAmounts | None:
    return None if amounts is None else dumped_amounts(amounts)


def _seconds(at: Instant | None, now: Instant) -> float | None:
    return None if at is None or math.isinf(at) else round(at - now, 3)
