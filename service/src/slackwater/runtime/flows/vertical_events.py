"""Applies the events of pods that grow in place: their machines, the writes of their permits, and their migrations."""

from typing import assert_never

from slackwater.cluster.annotations import unreadable_permit
from slackwater.cluster.cluster_state import ClusterState
from slackwater.controllers.migration.state import Migrating
from slackwater.controllers.permits.permit_limits import PermitLimits
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
from slackwater.model.vertical import Machine


class VerticalEvents:
    """Applies events about machines, permit writes and migrations to permit limits, migrations and pods' resources."""

    def __init__(self, cluster_state: ClusterState, *, permit_limits: PermitLimits, migrating: Migrating) -> None:
        self._pods = cluster_state.pods
        self._reservations = cluster_state.reservations
        self._vertical_pods = cluster_state.vertical_pods
        self._annotations = cluster_state.annotations
        self._permit_limits = permit_limits
        self._migrating = migrating

    def apply(self, event: VerticalEvent, policy: Policy, now: Instant) -> list[Effect]:  # one case for each
        match event:
            case MachineSeen():
                return self._machine_seen(event.machine, policy)
            case MachineGone(key):
                self._machine_gone(key)
            case PermitWritten():
                return self._permit_limits.written(event, now)
            case PermitNotWritten():
                return self._permit_limits.not_written(event, now)
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
        for uid in self._vertical_pods.of_machine(key):
            self._permit_limits.recorded(uid)

    def _machine_seen(self, machine: Machine, policy: Policy) -> list[Effect]:
        """Handles the present state of a VirtualMachine. If its permit annotation changed, pods whose resources are assumed
        since a restart are counted again. Returns effects."""
        if not self._annotations.machine_seen(machine):
            return []
        effects: list[Effect] = []
        for uid in self._vertical_pods.of_machine(machine.key):
            reservation, pod = self._reservations.get(uid), self._pods.get(uid)
            if reservation is not None and pod is not None:
                pod_resources = self._vertical_pods.seen(pod, reservation.pod_resources, scheduler_name=policy.scheduler_name)
                if pod_resources != reservation.pod_resources:
                    self._reservations.recount(uid, pod_resources)
                self._permit_limits.recorded(uid)
                effects += unreadable_permit(pod, machine.permit)
        return effects
