"""Restores a state machine from a dump: the counterpart of `dump.state_of`.

What is in the dump is restored exactly. What the state machine remembers for seconds only (pods known from filter calls but not
from the watch, deleted pods, refused pods to activate) is not in the dump and starts empty. Preemptions resume from their
annotations, as after a restart. Nodes may get other rows, because the dump lists nodes by name.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import structs

from slackwater.cluster.holds import Hold, HoldKey
from slackwater.cluster.reservations import Reservation
from slackwater.cluster.vertical_pods import VerticalPodState
from slackwater.controllers.migration.migration_choice import MigrationBackoff
from slackwater.controllers.migration.state import Migration
from slackwater.controllers.placement.tried_nodes import SampleMiss
from slackwater.controllers.policy import Policy
from slackwater.model.ids import Generation, Instant, NodeName, PodKey, PodUid, Row
from slackwater.model.objects import DisruptionBudget, Node, Pod
from slackwater.model.permits import Load, PersistedPermit
from slackwater.model.pod_constraints import Kind
from slackwater.model.pod_resources import PodResources
from slackwater.model.resources import RESOURCES, Amounts, amounts_of
from slackwater.model.vertical import Machine, Vertical, VirtualMachineMigration
from slackwater.runtime.dump import VERSION
from slackwater.runtime.dump_answer import DumpedMigration, DumpedPermit, PodNumbers
from slackwater.runtime.state_machine import StateMachine

Json = Mapping[str, Any]

_FORGET_SECONDS: Final = 300.0
#: The fields of `DumpedPermit` that are those of `VerticalPodState`: amounts, and others.
_SAME_AMOUNTS: Final = ("permitted", "resized_from", "has", "lowered_from", "settle_for")
_SAME: Final = ("exact", "fenced", "found_on", "doubtful", "odd", "urgent", "attempts", "oscillating")
#: The fields of `DumpedMigration` that are those of `Migration`.
_SAME_OF_MIGRATIONS: Final = ("pod", "source", "target_node", "created", "target", "landed")
#: The keys of vertical pods and migrations in the document, by the names of the fields.
_KEYS: Final = {field.name: field.encode_name for kind in (DumpedPermit, DumpedMigration) for field in structs.fields(kind)}
#: Placeholder while a pod is converted: the dump has each equivalence group only once.
_NO_KIND: Final = {"namespace": "", "requests": [0, 0]}


class DumpUnreadable(Exception):
    """The document is not a dump of this version. The message says what was read and what is expected."""


def restore(document: Json, policy: Policy, now: Instant) -> StateMachine:
    """A state machine in the state of the document. `now` is added to the document's relative times.

    :raises DumpUnreadable: the document has another version, or lacks a part.
    """
    if document.get("version") != VERSION:
        raise DumpUnreadable(f"version: got {document.get('version')!r}, want {VERSION}")
    try:
        return _Restoring(document, StateMachine(policy), now).whole()
    except (KeyError, TypeError, msgspec.ValidationError) as error:
        raise DumpUnreadable(f"not a dump: {type(error).__name__}: {error}") from error


class _Restoring:
    def __init__(self, document: Json, state_machine: StateMachine, now: Instant) -> None:
        self._document = document
        self._state_machine = state_machine
        self._now = now

    def whole(self) -> StateMachine:
        state_machine = self._state_machine
        self._objects()
        for entry in self._document["pods"]:
            self._reservation(entry)
        for entry in self._document["permits"]:
            self._vertical_pod(entry)
        for entry in self._document["holds"]:
            # Skips room held for preemptors: the restored state machine has no preemption in progress that would end the hold.
            if entry["cause"] != "preemption":
                self._hold(entry)
        for entry in self._document["deniedBinds"]:
            deadline = Instant(self._now + entry["endsInSeconds"])
            uid, node = PodUid(entry["uid"]), NodeName(entry["node"])
            state_machine.state.bind_backoff.add(uid, node, for_room=entry["forRoom"], deadline=deadline)
        for entry in self._document["nominations"]:
            sample_miss = SampleMiss(
                PodKey(entry["namespace"], entry["name"]),
                tried=dict.fromkeys(NodeName(name) for name in entry["tried"]),
                nominated=NodeName(entry["node"]),
                forget_at=Instant(self._now + _FORGET_SECONDS),
            )
            state_machine.sample_misses.put(PodUid(entry["uid"]), sample_miss)
        for entry in self._document["quarantine"]:
            state_machine.state.quarantine.put(
                NodeName(entry["node"]), entry["why"], Instant(self._now - entry["sinceSeconds"])
            )
        self._migrations()
        state_machine.permit_limits.rebuild()
        state_machine.synced = self._document["synced"]
        state_machine.state.vertical_pods.listing = not state_machine.synced
        state_machine.state.vertical_pods.epoch = self._document["epoch"]
        state_machine.generation = Generation(self._document["generation"])
        return state_machine

    def _objects(self) -> None:
        state_machine, objects = self._state_machine, self._document["objects"]
        kinds = [msgspec.convert(kind, Kind) for kind in objects["kinds"]]
        for node in objects["nodes"]:
            state_machine.state.nodes.put(msgspec.convert(node, Node))
        for entry in objects["pods"]:
            pod = msgspec.convert({**entry, "kind": _NO_KIND}, Pod)
            state_machine.state.pods.put(structs.replace(pod, kind=kinds[entry["kind"]]))
        for budget in objects["budgets"]:
            state_machine.state.budgets.put(msgspec.convert(budget, DisruptionBudget))
        for machine in self._document["virtualMachines"]:
            state_machine.state.annotations.machine_seen(msgspec.convert(machine, Machine))
        for entry in self._document["permitsOnPods"]:
            state_machine.state.annotations.note_pod(PodUid(entry["uid"]), entry["text"], entry["version"])

    def _reservation(self, entry: Json) -> None:
        parts = {
            field.name: amounts_of([entry[resource][field.encode_name] for resource in RESOURCES])
            for field in structs.fields(PodNumbers)
        }
        reservation = Reservation(
            key=PodKey(entry["namespace"], entry["name"]),
            node=NodeName(entry["node"]),
            pod_resources=PodResources(**parts),
            state=entry["state"],
            deadline=self._at(entry["askInSeconds"]),
            priority=entry["priority"],
            vertical=entry["vertical"],
        )
        self._state_machine.state.reservations.put(PodUid(entry["uid"]), reservation)

    def _vertical_pod(self, entry: Json) -> None:
        uid = PodUid(entry["uid"])
        same: dict[str, Any] = {name: entry[_KEYS[name]] for name in _SAME}
        same |= {name: _amounts(entry[_KEYS[name]]) for name in _SAME_AMOUNTS}
        vertical_pod = VerticalPodState(
            msgspec.convert(entry["vertical"], Vertical),
            machine=None,
            heard_at=self._at(entry["heardInSeconds"]),
            load=None if entry["load"] is None else msgspec.convert(entry["load"], Load),
            denied_since=self._at(entry["deniedSinceSeconds"]),
            writing=None if entry["writing"] is None else msgspec.convert(entry["writing"], PersistedPermit),
            unconfirmed=tuple(msgspec.convert(written, PersistedPermit) for written in entry["doubted"]),
            lagging=entry["behind"],
            written_at=self._instant_or(entry["writtenInSeconds"], float("-inf")),
            settle_at=self._at(entry["settleInSeconds"]),
            **same,
        )
        self._state_machine.state.vertical_pods.put(uid, entry["namespace"], vertical_pod)

    def _hold(self, entry: Json) -> None:
        hold = Hold(
            key=PodKey(entry["namespace"], entry["name"]),
            row=Row(self._state_machine.state.nodes.row_of[NodeName(entry["node"])]),
            amounts=amounts_of([entry["amounts"][resource] for resource in RESOURCES]),
            deadline=self._instant_or(entry["endsInSeconds"], float("inf")),
            nominee=entry["nominee"],
        )
        holds = self._state_machine.state.holds
        number = len(holds) if entry["cause"] == "former try" else 0
        holds.put(HoldKey(PodUid(entry["uid"]), entry["cause"], number), hold)

    def _migrations(self) -> None:
        migrating = self._state_machine.migrating
        for entry in self._document["virtualMachineMigrations"]:
            migration = msgspec.convert(entry, VirtualMachineMigration)
            migrating.objects[migration.key] = migration
        for entry in self._document["migrations"]:
            migrating.put_migration(
                Migration(
                    key=PodKey(entry["namespace"], entry["name"]),
                    machine=PodKey(entry["namespace"], entry["machine"]),
                    **{name: entry[_KEYS[name]] for name in _SAME_OF_MIGRATIONS},
                    amounts=amounts_of([entry["amounts"][resource] for resource in RESOURCES]),
                    target_since=self._at(entry["targetInSeconds"]),
                )
            )
        for entry in self._document["migrationQueue"]:
            migrating.choice.queue.enter(PodUid(entry["uid"]), NodeName(entry["node"]), entry["load1Micro"], entry["joined"])
        for entry in self._document["migrationBackoffs"]:
            backoff = MigrationBackoff(entry["failures"], Instant(self._now + entry["endsInSeconds"]))
            migrating.choice.backoffs[PodKey(entry["namespace"], entry["name"])] = backoff
        for entry in self._document["migrationCleanups"]:
            migrating.cleanup[PodKey(entry["namespace"], entry["name"])] = Instant(self._now + entry["dueInSeconds"])

    def _at(self, seconds: float | None) -> Instant | None:
        return None if seconds is None else Instant(self._now + seconds)

    def _instant_or(self, seconds: float | None, never: float) -> Instant:
        return Instant(never if seconds is None else self._now + seconds)


def _amounts(entry: Json | None) -> Amounts | None:
    return None if entry is None else amounts_of([entry[resource] for resource in RESOURCES])
