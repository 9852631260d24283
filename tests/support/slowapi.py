"""An API server of the objects that workloads growing in place are made of, to be asked and told of one step at a time.

A request is carried out when `arrives` is called; its answer is the event that follows. What its watches have still to tell
stands in `news`. Deliberately absent: time, and any order but that of the steps.
"""

from collections import deque
from dataclasses import dataclass, field, replace

from msgspec import structs

from slackwater.model.effects import Bind, CreateMigration, DeleteMigration, Effect, WritePermit
from slackwater.model.events import (
    BindEnded,
    Event,
    MachineGone,
    MachineSeen,
    MigrationGone,
    MigrationSeen,
    MigrationStarted,
    PermitNotWritten,
    PermitWritten,
    PodGone,
    PodSeen,
)
from slackwater.model.ids import PodKey
from slackwater.model.objects import Pod
from slackwater.model.vertical import Machine, VirtualMachineMigration
from tests.support.builders import a_migration


@dataclass
class ApiServer:
    """What outlives every process. `news`: what the watches have not told yet, by kind, oldest first."""

    pods: dict[PodKey, Pod] = field(default_factory=dict)
    machines: dict[PodKey, Machine] = field(default_factory=dict)
    migrations: dict[PodKey, VirtualMachineMigration] = field(default_factory=dict)
    news: dict[str, deque[Event]] = field(default_factory=lambda: {"pods": deque(), "machines": deque(), "moves": deque()})
    version: int = 1000

    def _next(self) -> int:
        self.version += 1
        return self.version

    def put_pod(self, pod: Pod) -> Pod:
        self.pods[pod.key] = pod = structs.replace(pod, resource_version=self._next())
        self.news["pods"].append(PodSeen(pod))
        return pod

    def put_machine(self, machine: Machine) -> None:
        self.machines[machine.key] = machine = replace(machine, resource_version=self._next())
        self.news["machines"].append(MachineSeen(machine))

    def put_migration(self, migration: VirtualMachineMigration) -> None:
        self.migrations[migration.key] = migration = replace(migration, resource_version=self._next())
        self.news["moves"].append(MigrationSeen(migration))

    def delete_pod(self, key: PodKey) -> None:
        self.news["pods"].append(PodGone(self.pods.pop(key).uid, key))

    def delete_machine(self, key: PodKey) -> None:
        if self.machines.pop(key, None) is not None:
            self.news["machines"].append(MachineGone(key))

    def delete_migration(self, key: PodKey) -> None:
        if self.migrations.pop(key, None) is not None:
            self.news["moves"].append(MigrationGone(key))

    def arrives(self, effect: Effect) -> Event | None:
        """A request is carried out; the event is its answer."""
        match effect:
            case WritePermit():
                return self._permit(effect)
            case Bind(uid, key, node):
                pod = self.pods.get(key)
                if pod is None or pod.uid != uid:
                    return BindEnded(uid, node, "gone", "")
                if pod.node is None:
                    self.put_pod(structs.replace(pod, node=node))
                return BindEnded(uid, node, "bound" if self.pods[key].node == node else "elsewhere", "")
            case CreateMigration():
                key = PodKey(effect.key.namespace, effect.name)
                if key not in self.migrations:
                    self.put_migration(a_migration(key, effect.machine, effect.key.name, effect.target_node))
                return MigrationStarted(effect.uid)
            case DeleteMigration(_, key):
                self.delete_migration(key)
            case _:
                pass
        return None

    def _permit(self, effect: WritePermit) -> Event:
        machine = self.machines.get(effect.key)
        if machine is None or effect.on != "machine":
            return PermitNotWritten(effect.pod, "not found")
        if machine.permit == effect.before:
            self.put_machine(replace(machine, permit=effect.text))
        machine = self.machines[effect.key]
        return PermitWritten(effect.pod, machine.permit, machine.resource_version)

    def listed(self) -> list[list[Event]]:
        for news in self.news.values():
            news.clear()
        return [
            [PodSeen(pod) for pod in self.pods.values()],
            [MachineSeen(machine) for machine in self.machines.values()],
            [MigrationSeen(migration) for migration in self.migrations.values()],
        ]
