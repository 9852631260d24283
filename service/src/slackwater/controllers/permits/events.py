"""What the watches and the writes tell of workloads that grow in place: one method for each event."""

from typing import assert_never

from slackwater.cluster.cluster_state import Books
from slackwater.cluster.unreadable import unreadable_permit
from slackwater.controllers.migration.state import Migrating
from slackwater.controllers.permits.permit_limits import Ceilings
from slackwater.controllers.policy import Policy
from slackwater.model.effects import Effect
from slackwater.model.events import (
    MachineGone,
    MachineSeen,
    MigrationDeleteEnded,
    MigrationGone,
    MigrationNotStarted,
    MigrationSeen,
    MigrationStarted,
    PermitNotWritten,
    PermitWritten,
    VerticalEvent,
)
from slackwater.model.ids import Instant, PodKey
from slackwater.model.machines import Machine


class VerticalEvents:
    """Hands each event to whom it concerns."""

    def __init__(self, books: Books, *, ceilings: Ceilings, migrating: Migrating) -> None:
        self._pods = books.pods
        self._claims = books.claims
        self._standings = books.standings
        self._annotations = books.annotations
        self._ceilings = ceilings
        self._migrating = migrating

    def apply(self, event: VerticalEvent, policy: Policy, now: Instant) -> list[Effect]:  # one case for each
        match event:
            case MachineSeen():
                return self._machine_seen(event.machine, policy)
            case MachineGone(key):
                self._machine_gone(key)
            case PermitWritten():
                return self._ceilings.written(event, now)
            case PermitNotWritten():
                return self._ceilings.not_written(event, now)
            case MigrationSeen(migration):
                return self._migrating.seen(migration, now)
            case MigrationGone(key):
                self._migrating.gone(key)
            case MigrationStarted(pod):
                self._migrating.started(pod)
            case MigrationNotStarted(pod):
                self._migrating.not_started(pod, now)
            case MigrationDeleteEnded(key, deleted):
                self._migrating.deletion_ended(key, deleted=deleted, now=now)
            case _:
                assert_never(event)
        return []

    def _machine_gone(self, key: PodKey) -> None:
        self._annotations.machine_gone(key)
        for uid in self._standings.of_machine(key):
            self._ceilings.recorded(uid)

    def _machine_seen(self, machine: Machine, policy: Policy) -> list[Effect]:
        """Pods that are counted by a guess are counted anew where their machine tells of a permit."""
        if not self._annotations.machine_seen(machine):
            return []
        effects: list[Effect] = []
        for uid in self._standings.of_machine(machine.key):
            claim, pod = self._claims.get(uid), self._pods.get(uid)
            if claim is not None and pod is not None:
                account = self._standings.seen(pod, claim.account, scheduler_name=policy.scheduler_name)
                if account != claim.account:
                    self._claims.recount(uid, account)
                self._ceilings.recorded(uid)
                effects += unreadable_permit(pod, machine.permit)
        return effects
