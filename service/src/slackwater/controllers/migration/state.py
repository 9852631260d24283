"""Live migrations: which start, where they land, what they are counted for, and that nothing of them stays behind.

A move begins with the decision, long before the VirtualMachineMigration exists: from then on its pressure is accounted for and
its landing place is held. It ends with the object, or when it could not be made.
"""

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from slackwater.cluster.cluster_state import Books
from slackwater.controllers.migration.choice import MigrationChoice, machine_key
from slackwater.model.columns import Rows
from slackwater.model.effects import CreateMigration, DeleteMigration, Effect
from slackwater.model.ids import Instant, NodeName, PodKey, PodUid, Row
from slackwater.model.ledger.account import Account
from slackwater.model.ledger.transitions import migration_ended, migration_found, migration_started
from slackwater.model.machines import Migration
from slackwater.model.objects import Pod
from slackwater.model.resources import NOTHING, Amounts

#: How long a target pod is kept to its landing place, if kube-scheduler does not bring it there.
_LANDING_SECONDS: Final = 60.0
#: Between two attempts to delete a finished migration.
_CLEANUP_SECONDS: Final = 5.0


@dataclass(slots=True)
class Move:
    """One migration. `pod` is the source, None where it is not known; `amounts` are what its target will need."""

    key: PodKey
    machine: PodKey
    pod: PodUid | None
    source: NodeName | None
    landing: NodeName | None
    amounts: Amounts
    created: bool  #: the object has been made, as far as we know
    target: PodUid | None = None
    target_since: Instant | None = None
    landed: bool = False  #: the target counts on a node: nothing is held for it any more


class Migrating:
    """All moves, by the name of their VirtualMachineMigration."""

    def __init__(self, books: Books) -> None:
        self._nodes = books.nodes
        self._pods = books.pods
        self._claims = books.claims
        self._holds = books.holds
        self._standings = books.standings
        self._tally = books.tally
        self.moves: dict[PodKey, Move] = {}
        self._by_machine: dict[PodKey, PodKey] = {}
        self._by_source: dict[PodUid, PodKey] = {}
        self.objects: dict[PodKey, Migration] = {}
        self.choice = MigrationChoice(
            books,
            busy=self._by_machine.keys(),
            routes=lambda: [(move.source, move.landing) for move in self.moves.values()],
        )
        #: When to delete a finished object, again if need be.
        self._cleanup: dict[PodKey, Instant] = {}

    def is_leaving(self, uid: PodUid) -> bool:
        return uid in self._by_source

    def is_told(self, pod: Pod) -> bool:
        """The pod itself shows its migration: its agent may change nothing any more."""
        ref = pod.vertical.migration if pod.vertical is not None else None
        return ref is not None and self._by_source.get(pod.uid) == PodKey(pod.key.namespace, ref.name)

    def start(self, pod: Pod, landing: NodeName) -> list[Effect]:
        """The decision stands: accounts for the pressure, holds the landing place, asks for the object."""
        claim = self._claims.get(pod.uid)
        assert claim is not None
        assert pod.vertical is not None
        assert pod.vertical.machine is not None
        account = migration_started(claim.account)
        self._claims.recount(pod.uid, account)
        move = Move(
            key=PodKey(pod.key.namespace, f"schedplugin-{pod.key.name}"),
            machine=machine_key(pod),
            pod=pod.uid,
            source=claim.node,
            landing=landing,
            amounts=account.reserved,
            created=False,
        )
        self._enter(move)
        self.choice.queue.drop(pod.uid)
        self._tally.migrations_decided += 1
        return [CreateMigration(uid=pod.uid, key=pod.key, name=move.key.name, machine=pod.vertical.machine, landing=landing)]

    def _enter(self, move: Move) -> None:
        self.put_move(move)
        self._hold_landing(move)
        self._expect(move)

    def _expect(self, move: Move) -> None:
        """A target counts what its source may still grow to, as far as anybody knows."""
        source = None if move.pod is None else self._claims.get(move.pod)
        self._standings.arriving[move.key] = move.amounts if source is None else source.account.reserved
        for uid in self._standings.of_machine(move.machine):
            claim, pod, standing = self._claims.get(uid), self._pods.get(uid), self._standings.get(uid)
            if claim is not None and pod is not None and standing is not None and standing.heard_at is None:
                ref = standing.vertical.migration
                if ref is not None and ref.role == "target" and ref.name == move.key.name:
                    self._claims.recount(uid, self._standings.expecting(claim.account, pod))

    def _hold_landing(self, move: Move) -> None:
        row = None if move.landing is None else self._nodes.row_of.get(move.landing)
        if row is not None and not move.landed:
            rows: Rows = np.array([row], np.intp)
            self._holds.put(_holder(move.key), move.key, rows, move.amounts, Instant(math.inf))

    def still_leaving(self, uid: PodUid) -> None:
        """The account of a leaving pod has changed: what is accounted for stays Reserved + CapacityPressure."""
        claim = self._claims.get(uid)
        if claim is not None and uid in self._by_source:
            account = claim.account
            counted = account.reserved.minus(account.buffer).plus(account.capacity_pressure)
            self._claims.recount(uid, replace(account, accounted_for=counted))
            self._expect(self.moves[self._by_source[uid]])

    # --- how it goes on ---------------------------------------------------------------------------------------------------

    def started(self, pod: PodUid) -> None:
        """The object is there."""
        move = self.moves.get(self._by_source.get(pod, _NO_KEY))
        if move is not None and not move.created:
            move.created = True
            self._tally.migrations_created += 1

    def not_started(self, pod: PodUid, now: Instant) -> None:
        """The object could not be made: as if nothing had been decided, but for a pause."""
        move = self.moves.get(self._by_source.get(pod, _NO_KEY))
        self._tally.migration_create_fails += 1
        if move is not None and move.key not in self.objects:
            self.choice.back_off(move.machine, now)
            self._leave(move)

    def seen(self, migration: Migration, now: Instant) -> list[Effect]:
        """A VirtualMachineMigration as it is now, whoever made it."""
        known = self.objects.get(migration.key)
        self.objects[migration.key] = migration
        move = self.moves.get(migration.key)
        if migration.finished:
            return self._finished(migration, move, known, now)
        if move is None and migration.machine:
            move = self._adopt(migration)
        if move is not None:
            move.created = True
        return []

    def _finished(self, migration: Migration, move: Move | None, known: Migration | None, now: Instant) -> list[Effect]:
        succeeded = migration.phase == "Succeeded"
        if move is not None:
            self._leave(move, relieving=succeeded)
        elif succeeded and (source := self._pods.by_key(PodKey(migration.key.namespace, migration.source_pod))) is not None:
            self._about_to_go(source)
        machine = PodKey(migration.key.namespace, migration.machine)
        if known is None or not known.finished:
            if succeeded:
                self.choice.succeeded(machine)
            else:
                self.choice.back_off(machine, now)
        if migration.ours and not migration.deleting and migration.key not in self._cleanup:
            self._cleanup[migration.key] = Instant(now + _CLEANUP_SECONDS)
            return [DeleteMigration(migration.uid, migration.key)]
        return []

    def _adopt(self, migration: Migration) -> Move:
        """A migration that runs without our doing, or since before our time."""
        pod = self._source_of(migration)
        claim = None if pod is None else self._claims.get(pod.uid)
        move = Move(
            key=migration.key,
            machine=PodKey(migration.key.namespace, migration.machine),
            pod=None,
            source=None,
            landing=migration.landing,
            amounts=NOTHING,
            created=True,
        )
        if pod is not None and claim is not None:
            self._claims.recount(pod.uid, migration_found(claim.account))
            self.choice.queue.drop(pod.uid)
            move.pod, move.source, move.amounts = pod.uid, claim.node, _in_use(pod, claim.account)
        self._enter(move)
        return move

    def _source_of(self, migration: Migration) -> Pod | None:
        """The pod that the migration names, or (before it names one) that names the migration."""
        if migration.source_pod:
            return self._pods.by_key(PodKey(migration.key.namespace, migration.source_pod))
        for uid in self._standings.of_machine(PodKey(migration.key.namespace, migration.machine)):
            standing, pod = self._standings.get(uid), self._pods.get(uid)
            ref = None if standing is None else standing.vertical.migration
            if pod is not None and (ref is None or (ref.role == "source" and ref.name == migration.key.name)):
                return pod
        return None

    def gone(self, key: PodKey) -> None:
        """The object is deleted."""
        self.objects.pop(key, None)
        self._cleanup.pop(key, None)
        move = self.moves.get(key)
        if move is not None:
            self._leave(move)
        self._standings.arriving.pop(key, None)

    def _about_to_go(self, source: Pod) -> None:
        """Its machine has arrived elsewhere, and it still counts: nobody else has to leave for the pressure that it is."""
        claim = self._claims.get(source.uid)
        if claim is not None and claim.account.accounted_for == NOTHING:
            self._claims.recount(source.uid, migration_found(claim.account))

    def _leave(self, move: Move, *, relieving: bool = False) -> None:
        """The move is over, however: nothing is held any more. With `relieving` its source is about to go, and what it accounts
        for goes with it; else nothing is accounted for."""
        del self.moves[move.key]
        if move.key not in self.objects:
            self._standings.arriving.pop(move.key, None)
        self._holds.drop(_holder(move.key))
        # Somebody may have asked for another migration of the same machine: then that one goes on.
        other = next((other for other in self.moves.values() if other.machine == move.machine), None)
        if other is not None:
            self._by_machine[move.machine] = other.key
        else:
            self._by_machine.pop(move.machine, None)
        if other is not None and other.pod is not None and other.pod == move.pod:
            self._by_source[other.pod] = other.key
        elif move.pod is not None:
            self._by_source.pop(move.pod, None)
            claim = self._claims.get(move.pod)
            if claim is not None and not relieving:
                self._claims.recount(move.pod, migration_ended(claim.account))

    def deletion_ended(self, key: PodKey, *, deleted: bool, now: Instant) -> None:
        migration = self.objects.get(key)
        phase = migration.phase if migration is not None and migration.finished else ""
        counts = self._tally.migrations_deleted if deleted else self._tally.migration_delete_fails
        counts[phase] += 1
        if key in self._cleanup:
            self._cleanup[key] = Instant(now + _CLEANUP_SECONDS)

    # --- pods -------------------------------------------------------------------------------------------------------------

    def pod_seen(self, pod: Pod, now: Instant) -> None:
        """A pod of a machine, as the watch shows it: the source of a move, its target, or nothing to us."""
        vertical = pod.vertical
        if vertical is None or vertical.machine is None:
            return
        ref = vertical.migration
        migration = None if ref is None else self.objects.get(PodKey(pod.key.namespace, ref.name))
        move = None if ref is None else self.moves.get(PodKey(pod.key.namespace, ref.name))
        if migration is not None and migration.phase == "Succeeded" and not self._is_target(pod, migration):
            self._about_to_go(pod)
        elif ref is None and pod.uid not in self._by_source:
            self._stays(pod)
        if move is not None and self._is_target(pod, migration):
            self._target_seen(pod, move, now)
        elif move is not None and move.pod is None and pod.node is not None and not self._is_target(pod, migration):
            self._source_found(pod, move)
        if pod.uid in self.choice.queue and not (vertical.migratable and ref is None):
            self.choice.queue.drop(pod.uid)

    def _stays(self, pod: Pod) -> None:
        """It belongs to no migration: what it was to relieve stays where it is."""
        claim = self._claims.get(pod.uid)
        if claim is not None and claim.account.accounted_for != NOTHING:
            self._claims.recount(pod.uid, migration_ended(claim.account))

    @staticmethod
    def _is_target(pod: Pod, migration: Migration | None) -> bool:
        """By the migration's own word where it has given one, else by the pod's owners."""
        if migration is not None and pod.key.name in {migration.source_pod, migration.target_pod}:
            return pod.key.name == migration.target_pod
        ref = pod.vertical.migration if pod.vertical is not None else None
        return ref is not None and ref.role == "target"

    def _target_seen(self, pod: Pod, move: Move, now: Instant) -> None:
        if move.target != pod.uid:
            move.target, move.target_since = pod.uid, now
        if self._claims.get(pod.uid) is not None:
            move.landed = True
            self._holds.drop(_holder(move.key))

    def _source_found(self, pod: Pod, move: Move) -> None:
        claim = self._claims.get(pod.uid)
        if claim is None:
            return
        self._claims.recount(pod.uid, migration_found(claim.account))
        move.pod, move.source, move.amounts = pod.uid, claim.node, _in_use(pod, claim.account)
        self._enter(move)

    def pod_gone(self, uid: PodUid) -> None:
        """The pod counts no more. A source that is gone leaves the move to its object; a target may come anew."""
        self.choice.queue.drop(uid)
        key = self._by_source.pop(uid, None)
        if key is not None and not self.moves[key].created:
            self._leave(self.moves[key])
        elif key is not None:
            self.moves[key].pod = None

    def landing_of(self, pod: Pod, now: Instant) -> Move | None:
        """The move whose target the pod is, while its landing place is held for it."""
        ref = pod.vertical.migration if pod.vertical is not None else None
        move = None if ref is None else self.moves.get(PodKey(pod.key.namespace, ref.name))
        if move is None or move.landing is None or move.landed:
            return None
        if not self._is_target(pod, self.objects.get(move.key)):
            return None
        if move.target_since is not None and move.target_since + _LANDING_SECONDS < now:
            return None  # kube-scheduler does not bring it there: better anywhere than nowhere
        return move

    def lift(self, move: Move) -> Row | None:
        """Takes the hold of a landing place away, for its target to be judged; answers the row."""
        self._holds.drop(_holder(move.key))
        return None if move.landing is None else self._nodes.row_of.get(move.landing)

    def lower(self, move: Move) -> None:
        """Holds the landing place again, unless its target holds or has it."""
        if not move.landed and (move.target is None or self._holds.get(move.target) is None):
            self._hold_landing(move)

    def begin_again(self) -> None:
        """Forgets every move, and with it what is held and accounted for. The objects stay known: `found_anew` follows."""
        for move in list(self.moves.values()):
            self._leave(move)

    def found_anew(self) -> None:
        """The moves that the objects tell of."""
        for migration in self.objects.values():
            if not migration.finished and migration.machine:
                self._adopt(migration)

    def cleanups(self) -> list[tuple[PodKey, Instant]]:
        return list(self._cleanup.items())

    def put_cleanup(self, key: PodKey, at: Instant) -> None:
        self._cleanup[key] = at

    def put_move(self, move: Move) -> None:
        """A move as a dump tells it; what is held for it is told there too."""
        self.moves[move.key] = move
        self._standings.arriving[move.key] = move.amounts
        self._by_machine[move.machine] = move.key
        if move.pod is not None:
            self._by_source[move.pod] = move.key

    # --- time -------------------------------------------------------------------------------------------------------------

    def tick(self, now: Instant) -> list[Effect]:
        """Landing places are held as long as they are wanted; what is finished is deleted in the end."""
        for move in self.moves.values():
            late = move.target_since is not None and move.target_since + _LANDING_SECONDS < now
            if late:
                self._holds.drop(_holder(move.key))
            elif self._holds.get(_holder(move.key)) is None:
                self.lower(move)
        self.choice.expire(now)
        effects: list[Effect] = []
        for key, at in self._cleanup.items():
            migration = self.objects.get(key)
            if at <= now and migration is not None and migration.finished and not migration.deleting:
                self._cleanup[key] = Instant(now + _CLEANUP_SECONDS)
                effects.append(DeleteMigration(migration.uid, key))
        return effects


_NO_KEY: Final = PodKey("", "")


def _in_use(pod: Pod, account: Account) -> Amounts:
    """What a target has to have room for."""
    certain = account.reserved.minus(account.buffer)
    return certain if pod.vertical is None else certain.at_least(pod.vertical.using.at_most(account.reserved))


def _holder(key: PodKey) -> PodUid:
    """Landing places are holds of nobody's yet; no pod has a UID like this."""
    return PodUid(f"landing/{key}")
