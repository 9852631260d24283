"""The state of live migrations: starts them, holds room on their target nodes, counts them, and finally deletes their objects.

A migration's object is its VirtualMachineMigration. The migration begins with the decision, before the object exists: from then
on its pressure is accounted for and room on its target node is held. It ends when the object finishes, is deleted, or could not
be created.
"""

from dataclasses import dataclass, replace
from itertools import count
from typing import Final

from slackwater.cluster.cluster_state import ClusterState
from slackwater.cluster.holds import Hold, HoldKey
from slackwater.cluster.reservations import Reservation
from slackwater.controllers.migration.migration_choice import MigrationChoice, machine_key
from slackwater.model.effects import CreateMigration, DeleteMigration, Effect
from slackwater.model.ids import Instant, NodeName, PodKey, PodUid, Row
from slackwater.model.objects import Pod
from slackwater.model.pod_resources import PodResources, migration_ended, migration_found, migration_started
from slackwater.model.resources import NOTHING, Amounts
from slackwater.model.vertical import VirtualMachineMigration

#: How long a target pod may go to its target node only; the pause between two attempts to delete a finished object.
_TARGET_NODE_SECONDS, _CLEANUP_SECONDS = 60.0, 5.0
#: How long the controller may take to begin a migration. After it, the migration is given up.
_BEGIN_SECONDS: Final = 300.0


@dataclass(slots=True)
class Migration:
    """One migration. `pod`: the source pod; None if not known. `amounts`: the room that the target pod will need."""

    key: PodKey
    machine: PodKey
    pod: PodUid | None
    source: NodeName | None
    target_node: NodeName | None
    amounts: Amounts
    created: bool  #: the object exists, as far as we know
    target: PodUid | None = None
    target_since: Instant | None = None
    landed: bool = False  #: the target pod has a reservation, so no room is held for it any more
    uid: str = ""  #: of the object; empty until the watch has shown it
    unbegun_since: Instant | None = None  #: since when the object exists, and the controller has not begun

    def is_late(self, now: Instant) -> bool:
        """Has kube-scheduler had its time to bind the target pod to the target node?"""
        return self.target_since is not None and self.target_since + _TARGET_NODE_SECONDS < now


class Migrating:
    """All migrations under way, by the key of their VirtualMachineMigration."""

    def __init__(self, cluster_state: ClusterState) -> None:
        self._state = cluster_state
        self.migrations: dict[PodKey, Migration] = {}
        self._by_machine: dict[PodKey, PodKey] = {}
        self._by_source: dict[PodUid, PodKey] = {}
        self.objects: dict[PodKey, VirtualMachineMigration] = {}
        self.choice = MigrationChoice(
            cluster_state,
            busy=self._by_machine.keys(),
            routes=lambda: [(migration.source, migration.target_node) for migration in self.migrations.values()],
        )
        #: When to delete each object that has finished or was given up; it is tried again until it is gone.
        self.cleanup: dict[PodKey, Instant] = {}
        #: The UIDs of objects that were given up because the controller had not begun.
        self._given_up: set[str] = set()

    def is_leaving(self, uid: PodUid) -> bool:
        return uid in self._by_source

    def is_notified(self, pod: Pod) -> bool:
        """Does the pod itself name its migration, as the source? Then its agent may not change the pod's resources any more."""
        ref = pod.vertical.migration if pod.vertical is not None else None
        return ref is not None and self._by_source.get(pod.uid) == PodKey(pod.key.namespace, ref.name)

    def start(self, pod: Pod, target_node: NodeName) -> list[Effect]:
        """Begins a migration: accounts for the pressure, and holds room on the target node. Returns the effect that creates the
        object."""
        reservation = self._state.reservations.get(pod.uid)
        assert reservation is not None
        assert pod.vertical is not None
        assert pod.vertical.machine is not None
        pod_resources = migration_started(reservation.pod_resources)
        self._state.reservations.recount(pod.uid, pod_resources)
        name = f"schedplugin-{pod.key.name}"  # Neon's name, with a number if there is an object of this name
        keys = (PodKey(pod.key.namespace, name if number == 1 else f"{name}-{number}") for number in count(1))
        migration = Migration(
            key=next(key for key in keys if key not in self.objects),
            machine=machine_key(pod),
            pod=pod.uid,
            source=reservation.node,
            target_node=target_node,
            amounts=pod_resources.reserved,
            created=False,
        )
        self._enter(migration)
        self.choice.queue.drop(pod.uid)
        self._state.event_counts.migrations_decided += 1
        return [
            CreateMigration(
                uid=pod.uid, key=pod.key, name=migration.key.name, machine=pod.vertical.machine, target_node=target_node
            )
        ]

    def _enter(self, migration: Migration) -> None:
        self.put_migration(migration)
        self.restore_target_hold(migration)
        self._expect(migration)

    def _expect(self, migration: Migration) -> None:
        """Counts the target pod for all that the source pod has reserved, because the source may still grow to it. This ends
        with the first request of the target pod's agent."""
        reservations, pods, vertical_pods = self._state.reservations, self._state.pods, self._state.vertical_pods
        source = None if migration.pod is None else reservations.get(migration.pod)
        vertical_pods.arriving[migration.key] = migration.amounts if source is None else source.pod_resources.reserved
        for uid in vertical_pods.of_machine(migration.machine):
            reservation, pod, vertical_pod = reservations.get(uid), pods.get(uid), vertical_pods.get(uid)
            if reservation is not None and pod is not None and vertical_pod is not None and vertical_pod.heard_at is None:
                ref = vertical_pod.vertical.migration
                if ref is not None and ref.role == "target" and ref.name == migration.key.name:
                    reservations.recount(uid, vertical_pods.expecting(reservation.pod_resources, pod))

    def leaving_pod_changed(self, uid: PodUid) -> None:
        """Updates a leaving pod whose resources changed: `accounted_for` stays Reserved + CapacityPressure, without Buffer."""
        reservation = self._state.reservations.get(uid)
        if reservation is not None and uid in self._by_source:
            pod_resources = reservation.pod_resources
            counted = pod_resources.reserved.minus(pod_resources.buffer).plus(pod_resources.capacity_pressure)
            self._state.reservations.recount(uid, replace(pod_resources, accounted_for=counted))
            self._expect(self.migrations[self._by_source[uid]])

    # --- events -----------------------------------------------------------------------------------------------------------

    def started(self, pod: PodUid) -> None:
        """Notes that the object of this source pod's migration was created."""
        migration = self.migrations.get(self._by_source.get(pod, _NO_KEY))
        if migration is not None and not migration.created:
            migration.created = True
            self._state.event_counts.migrations_created += 1

    def not_started(self, pod: PodUid, now: Instant) -> None:
        """Undoes the decision to migrate this source pod, because the object could not be created. The machine backs off."""
        migration = self.migrations.get(self._by_source.get(pod, _NO_KEY))
        self._state.event_counts.migration_create_fails += 1
        if migration is not None and migration.key not in self.objects:
            self.choice.back_off(migration.machine, now)
            self._leave(migration)

    def seen(self, vmm: VirtualMachineMigration, now: Instant) -> list[Effect]:
        """Handles the present state of a VirtualMachineMigration, whoever created it. Returns the effects to carry out."""
        known = self.objects.get(vmm.key)
        self.objects[vmm.key] = vmm
        migration = self.migrations.get(vmm.key)
        if migration is not None and not _is_object_of(vmm, migration):
            self.choice.back_off(migration.machine, now)
            self._leave(migration)
            migration = None
        if vmm.finished:
            return self._finished(vmm, migration, known, now)
        if vmm.begun:
            self._given_up.discard(vmm.uid)
        if migration is None and vmm.machine and vmm.uid not in self._given_up:
            migration = self._adopt(vmm)
        if migration is not None:
            migration.created, migration.uid = True, vmm.uid
        return []

    def _finished(
        self, vmm: VirtualMachineMigration, migration: Migration | None, known: VirtualMachineMigration | None, now: Instant
    ) -> list[Effect]:
        succeeded = vmm.phase == "Succeeded"
        if migration is not None:
            self._leave(migration, relieving=succeeded)
        elif succeeded and (source := self._state.pods.by_key(PodKey(vmm.key.namespace, vmm.source_pod))) is not None:
            self._keep_pressure_accounted(source)
        machine = PodKey(vmm.key.namespace, vmm.machine)
        if known is None or not known.finished:
            if succeeded:
                self.choice.succeeded(machine)
            else:
                self.choice.back_off(machine, now)
        if vmm.ours and not vmm.deleting and vmm.key not in self.cleanup:
            self.cleanup[vmm.key] = Instant(now + _CLEANUP_SECONDS)
            return [DeleteMigration(vmm.uid, vmm.key)]
        return []

    def _adopt(self, vmm: VirtualMachineMigration) -> Migration:
        """Begins to track a migration that we did not decide, or that began before this process did."""
        pod = self._source_of(vmm)
        reservation = None if pod is None else self._state.reservations.get(pod.uid)
        migration = Migration(
            key=vmm.key,
            machine=PodKey(vmm.key.namespace, vmm.machine),
            pod=None,
            source=None,
            target_node=vmm.target_node,
            amounts=NOTHING,
            created=True,
            uid=vmm.uid,
        )
        if pod is not None and reservation is not None:
            self._note_source(migration, pod, reservation)
            self.choice.queue.drop(pod.uid)
        self._enter(migration)
        return migration

    def _note_source(self, migration: Migration, pod: Pod, reservation: Reservation) -> None:
        self._state.reservations.recount(pod.uid, migration_found(reservation.pod_resources))
        migration.pod, migration.source, migration.amounts = pod.uid, reservation.node, _in_use(pod, reservation.pod_resources)

    def _source_of(self, vmm: VirtualMachineMigration) -> Pod | None:
        """The source pod that the object names. Before it names one: the machine's pod that names no migration, or this one."""
        if vmm.source_pod:
            return self._state.pods.by_key(PodKey(vmm.key.namespace, vmm.source_pod))
        for uid in self._state.vertical_pods.of_machine(PodKey(vmm.key.namespace, vmm.machine)):
            vertical_pod, pod = self._state.vertical_pods.get(uid), self._state.pods.get(uid)
            ref = None if vertical_pod is None else vertical_pod.vertical.migration
            if pod is not None and (ref is None or (ref.role == "source" and ref.name == vmm.key.name)):
                return pod
        return None

    def gone(self, key: PodKey) -> None:
        """Ends the migration whose object was deleted."""
        if (vmm := self.objects.pop(key, None)) is not None:
            self._given_up.discard(vmm.uid)
        self.cleanup.pop(key, None)
        migration = self.migrations.get(key)
        if migration is not None:
            self._leave(migration)
        self._state.vertical_pods.arriving.pop(key, None)

    def _keep_pressure_accounted(self, source: Pod) -> None:
        """Keeps a source pod's pressure accounted for after its machine has arrived, so that no other machine leaves."""
        reservation = self._state.reservations.get(source.uid)
        if reservation is not None and reservation.pod_resources.accounted_for == NOTHING:
            self._state.reservations.recount(source.uid, migration_found(reservation.pod_resources))

    def _leave(self, migration: Migration, *, relieving: bool = False) -> None:
        """Ends the migration and drops its hold. `relieving`: its source pod is about to go, and stays accounted for."""
        del self.migrations[migration.key]
        if migration.key not in self.objects:
            self._state.vertical_pods.arriving.pop(migration.key, None)
        self._state.holds.drop(_hold_key(migration.key))
        # Another migration of the same machine may exist, created by somebody else; that one goes on.
        other = next((other for other in self.migrations.values() if other.machine == migration.machine), None)
        if other is not None:
            self._by_machine[migration.machine] = other.key
        else:
            self._by_machine.pop(migration.machine, None)
        if other is not None and other.pod is not None and other.pod == migration.pod:
            self._by_source[other.pod] = other.key
        elif migration.pod is not None:
            self._by_source.pop(migration.pod, None)
            reservation = self._state.reservations.get(migration.pod)
            if reservation is not None and not relieving:
                self._state.reservations.recount(migration.pod, migration_ended(reservation.pod_resources))

    def deletion_ended(self, key: PodKey, *, deleted: bool, now: Instant) -> None:
        vmm = self.objects.get(key)
        phase = vmm.phase if vmm is not None and vmm.finished else ""
        counts = self._state.event_counts.migrations_deleted if deleted else self._state.event_counts.migration_delete_fails
        counts[phase] += 1
        if key in self.cleanup:
            self.cleanup[key] = Instant(now + _CLEANUP_SECONDS)

    # --- pods -------------------------------------------------------------------------------------------------------------

    def pod_seen(self, pod: Pod, now: Instant) -> None:
        """Handles the present state of a machine's pod, which may be the source of a migration, its target, or neither."""
        vertical = pod.vertical
        if vertical is None or vertical.machine is None:
            return
        ref = vertical.migration
        vmm = None if ref is None else self.objects.get(PodKey(pod.key.namespace, ref.name))
        migration = None if ref is None else self.migrations.get(PodKey(pod.key.namespace, ref.name))
        if vmm is not None and vmm.phase == "Succeeded" and not self._is_target(pod, vmm):
            self._keep_pressure_accounted(pod)
        elif ref is None and pod.uid not in self._by_source:
            # The pod belongs to no migration, so its pressure stays on the node.
            reservation = self._state.reservations.get(pod.uid)
            if reservation is not None and reservation.pod_resources.accounted_for != NOTHING:
                self._state.reservations.recount(pod.uid, migration_ended(reservation.pod_resources))
        if migration is not None and self._is_target(pod, vmm):
            if migration.target != pod.uid:
                migration.target, migration.target_since = pod.uid, now
            if pod.uid in self._state.reservations:
                migration.landed = True
                self._state.holds.drop(_hold_key(migration.key))
        elif migration is not None and migration.pod is None and pod.node is not None and not self._is_target(pod, vmm):
            self._source_found(pod, migration)
        if pod.uid in self.choice.queue and not (pod.migratable and ref is None):
            self.choice.queue.drop(pod.uid)

    @staticmethod
    def _is_target(pod: Pod, vmm: VirtualMachineMigration | None) -> bool:
        """Is the pod the target? The object's status decides if it names the pod; else the pod's owner reference."""
        if vmm is not None and pod.key.name in {vmm.source_pod, vmm.target_pod}:
            return pod.key.name == vmm.target_pod
        return pod.vertical is not None and pod.vertical.is_target

    def _source_found(self, pod: Pod, migration: Migration) -> None:
        reservation = self._state.reservations.get(pod.uid)
        if reservation is not None:
            self._note_source(migration, pod, reservation)
            self._enter(migration)

    def pod_gone(self, uid: PodUid) -> None:
        """Handles a pod that no longer counts. If it was a source, the migration goes on until its object ends; without an
        object it ends now. If it was a target, nothing changes, since another target pod may come."""
        self.choice.queue.drop(uid)
        key = self._by_source.pop(uid, None)
        if key is not None and not self.migrations[key].created:
            self._leave(self.migrations[key])
        elif key is not None:
            self.migrations[key].pod = None

    def target_node_of(self, pod: Pod, now: Instant) -> Migration | None:
        """The migration of which the pod is the target, while room on the target node is held for it; else None."""
        ref = pod.vertical.migration if pod.vertical is not None else None
        migration = None if ref is None else self.migrations.get(PodKey(pod.key.namespace, ref.name))
        if migration is None or migration.target_node is None or migration.landed:
            return None
        if not self._is_target(pod, self.objects.get(migration.key)):
            return None
        if migration.is_late(now):
            return None  # kube-scheduler did not bind it there in time, so any node will do
        return migration

    def drop_target_hold(self, migration: Migration) -> Row | None:
        """Drops the hold on the target node while filter judges the target pod. Returns the node's row; None if it is gone."""
        self._state.holds.drop(_hold_key(migration.key))
        return self._target_row(migration)

    def _target_row(self, migration: Migration) -> Row | None:
        return None if migration.target_node is None else self._state.nodes.row_of.get(migration.target_node)

    def restore_target_hold(self, migration: Migration) -> None:
        """Holds room on the target node, unless the target pod has a hold of its own or is placed."""
        row = self._target_row(migration)
        if row is None or migration.landed or migration.target in self._state.reservations:
            return
        if migration.target is None or HoldKey(migration.target) not in self._state.holds:
            self._state.holds.put(_hold_key(migration.key), Hold(key=migration.key, row=row, amounts=migration.amounts))

    def reset(self) -> None:
        """Ends every migration, and drops what is held and accounted for. Keeps `objects`, for `found_again`."""
        self._given_up.clear()
        for migration in list(self.migrations.values()):
            self._leave(migration)

    def found_again(self) -> None:
        """Tracks the migration of each unfinished object again."""
        for vmm in self.objects.values():
            if not vmm.finished and vmm.machine:
                self._adopt(vmm)

    def put_migration(self, migration: Migration) -> None:
        """Adds a migration without a hold; in a dump the hold is an entry of its own."""
        self.migrations[migration.key] = migration
        self._state.vertical_pods.arriving[migration.key] = migration.amounts
        self._by_machine[migration.machine] = migration.key
        if migration.pod is not None:
            self._by_source[migration.pod] = migration.key

    # --- time -------------------------------------------------------------------------------------------------------------

    def tick(self, now: Instant) -> list[Effect]:
        """Keeps the holds on target nodes as long as they are needed, and gives up migrations that do not begin. Returns
        effects that delete the objects of finished migrations and of those given up."""
        for migration in [each for each in self.migrations.values() if self._is_overdue(each, now)]:
            self._give_up(migration, now)
        for migration in self.migrations.values():
            if migration.is_late(now):
                self._state.holds.drop(_hold_key(migration.key))
            elif self._state.holds.get(_hold_key(migration.key)) is None:
                self.restore_target_hold(migration)
        self.choice.expire(now)
        effects: list[Effect] = []
        for key, at in self.cleanup.items():
            vmm = self.objects.get(key)
            ended = vmm is not None and (vmm.finished or vmm.uid in self._given_up)
            if at <= now and vmm is not None and ended and not vmm.deleting:
                self.cleanup[key] = Instant(now + _CLEANUP_SECONDS)
                effects.append(DeleteMigration(vmm.uid, key))
        return effects

    def _is_overdue(self, migration: Migration, now: Instant) -> bool:
        """Has the controller had its time to begin the migration?"""
        vmm = self.objects.get(migration.key)
        if not migration.created or (vmm is not None and vmm.begun):
            migration.unbegun_since = None
            return False
        migration.unbegun_since = now if migration.unbegun_since is None else migration.unbegun_since
        return now - migration.unbegun_since >= _BEGIN_SECONDS

    def _give_up(self, migration: Migration, now: Instant) -> None:
        """Ends a migration that its controller has not begun: gives the room back, and avoids the target node for a while. The
        object is deleted if it is ours."""
        self.choice.back_off(migration.machine, now)
        self.choice.avoid(migration.machine, migration.target_node)
        vmm = self.objects.get(migration.key)
        if vmm is not None:
            self._given_up.add(vmm.uid)
            if vmm.ours:
                self.cleanup[migration.key] = now
        self._leave(migration)


def _is_object_of(vmm: VirtualMachineMigration, migration: Migration) -> bool:
    """Is the object that of the migration? Until the watch has shown that one, the object has to say what we write. A finished
    object existed before ours was created."""
    if migration.uid:
        return migration.uid == vmm.uid
    as_written = vmm.ours and (vmm.machine, vmm.target_node) == (migration.machine.name, migration.target_node)
    return as_written and (migration.created or not vmm.finished)


_NO_KEY: Final = PodKey("", "")


def _in_use(pod: Pod, pod_resources: PodResources) -> Amounts:
    """The room that the target pod must have: Reserved without Buffer, or what the machine uses if that is more."""
    certain = pod_resources.reserved.minus(pod_resources.buffer)
    return certain if pod.vertical is None else certain.at_least(pod.vertical.using.at_most(pod_resources.reserved))


def _hold_key(key: PodKey) -> HoldKey:
    """The key of the hold on a target node. It has the migration's name, since the target pod may not exist yet."""
    return HoldKey(PodUid(str(key)), "migration")
