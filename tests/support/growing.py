"""A state machine with workloads that grow in place, and the objects of an API server that its effects change.

What a write does is decided when `write` is called, not before: until then it is on its way. Agents are the tests themselves.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

import pytest
from msgspec import structs

from slackwater.controllers.policy import Policy
from slackwater.model.effects import CreateMigration, DeleteMigration, Effect, Resize, WritePermit
from slackwater.model.events import (
    Event,
    MachineSeen,
    MigrationGone,
    MigrationSeen,
    MigrationStarted,
    NodeSeen,
    PermitWritten,
    PodGone,
    PodSeen,
    Synced,
    TimePassed,
)
from slackwater.model.ids import Instant, NodeName, PodKey, PodUid
from slackwater.model.objects import Node, Pod
from slackwater.model.permits import (
    Caller,
    Load,
    PermitAnswer,
    PermitAsk,
    PermitDecision,
    PermitRefusal,
    PersistedPermit,
    read_written,
)
from slackwater.model.resources import Amounts
from slackwater.model.vertical import Machine, Vertical, VirtualMachineMigration
from slackwater.runtime.state_machine import StateMachine
from tests.support import installed
from tests.support.builders import a_node, a_pod, a_vertical, amounts
from tests.support.invariants import violations

UNIT = amounts("250m", "1Gi")
#: What machines of the tests ask for.
SMALL, MEDIUM, LARGE = amounts("1", "4Gi"), amounts("2", "8Gi"), amounts("4", "16Gi")


@dataclass
class Growing:
    """`sent`: writes on their way, oldest first."""

    policy: Policy = installed.POLICY
    now: float = 0.0
    nodes: dict[NodeName, Node] = field(default_factory=dict)
    pods: dict[PodKey, Pod] = field(default_factory=dict)
    machines: dict[PodKey, Machine] = field(default_factory=dict)
    migrations: dict[PodKey, VirtualMachineMigration] = field(default_factory=dict)
    sent: list[Effect] = field(default_factory=list)
    versions: Iterable[int] = field(default_factory=lambda: count(1000))

    def __post_init__(self) -> None:
        self.state_machine = StateMachine(self.policy)

    # --- objects ----------------------------------------------------------------------------------------------------------

    def take(self, *events: Event) -> None:
        for event in events:
            self.sent += self.state_machine.apply(event, Instant(self.now))
        assert violations(self.state_machine) == []

    def has_node(self, node: Node) -> None:
        self.nodes[node.name] = node
        self.take(NodeSeen(node))

    def has_machine(self, name: str, *, on: str, vertical: Vertical | None = None, **parts: str) -> Pod:
        """A VirtualMachine `name` and its runner pod `name`-pod."""
        vertical = replace(vertical or a_vertical(), machine=name)
        self.machines[PodKey("default", name)] = Machine(
            key=PodKey("default", name), uid=f"machine-{name}", resource_version=self.version(), permit=None
        )
        self.take(MachineSeen(self.machines[PodKey("default", name)]))
        return self.has_pod(f"{name}-pod", on=on, vertical=vertical, **parts)

    def has_pod(self, name: str, *, on: str | None, vertical: Vertical | None, **parts: Any) -> Pod:
        return self.store(structs.replace(a_pod(name, on=on, cpu="100m", memory="1Gi", **parts), vertical=vertical))

    def places(self, name: str, *, on: str, vertical: Vertical | None = None) -> Pod:
        """A machine that comes pending, is let pass by filter, and bound by us."""
        pod = self.has_machine(name, on="", vertical=vertical)
        rows = self.state_machine.state.nodes.rows_of([on])
        assert not self.state_machine.filter(pod, rows, Instant(self.now)).any()
        answer = self.state_machine.bind(pod.uid, pod.key, NodeName(on), Instant(self.now))
        assert answer.effect is not None
        return self.store(structs.replace(pod, node=NodeName(on)))

    def store(self, pod: Pod) -> Pod:
        pod = structs.replace(pod, resource_version=self.version(), node=pod.node or None)
        self.pods[pod.key] = pod
        self.take(PodSeen(pod))
        return pod

    def change(self, pod: Pod, **changes: Any) -> Pod:
        """Changes what is vertical about the pod."""
        known = self.pods[pod.key]
        assert known.vertical is not None
        return self.store(structs.replace(known, vertical=replace(known.vertical, **changes)))

    def deletes(self, pod: Pod) -> None:
        del self.pods[pod.key]
        self.take(PodGone(pod.uid, pod.key))

    def version(self) -> int:
        return next(iter(self.versions))

    # --- agents -----------------------------------------------------------------------------------------------------------

    def decide(
        self,
        pod: Pod,
        asked: Amounts,
        *,
        last: Amounts | None = None,
        load: int | None = 1_000_000,
        version: int = 7,
        unit: Amounts | None = UNIT,
        caller: Caller | None = None,
    ) -> PermitDecision | PermitRefusal:
        ask = PermitAsk(
            key=pod.key,
            version=version,
            asked=asked,
            last_permit=last,
            compute_unit=unit,
            load=None if load is None else Load(load1_micro=load),
            slots=version == 5,
        )
        decided = self.state_machine.ask_permit(ask, caller, Instant(self.now))
        if isinstance(decided, PermitDecision):
            self.sent += decided.effects
        assert violations(self.state_machine) == []
        return decided

    def reported(self, decided: PermitDecision | PermitRefusal) -> PermitAnswer:
        assert isinstance(decided, PermitDecision), decided
        answer = self.state_machine.permit_answer(decided)
        assert isinstance(answer, PermitAnswer)
        return answer

    def ask(self, pod: Pod, asked: Amounts, *, last: Amounts | None = None, load: int | None = 1_000_000) -> PermitAnswer:
        """The answer after all that has to be written is written."""
        decided = self.decide(pod, asked, last=last, load=load)
        if self.reported(decided).permit_limit_pending:
            self.write()
        return self.reported(decided)

    # --- the API server ---------------------------------------------------------------------------------------------------

    def writes(self) -> list[WritePermit]:
        return [effect for effect in self.sent if isinstance(effect, WritePermit)]

    def write(self) -> None:
        """Carries out what is on its way, and what follows from it."""
        while self.sent:
            self.carry_out(self.sent.pop(0))

    def carry_out(self, effect: Effect) -> None:
        match effect:
            case WritePermit():
                self.take(PermitWritten(effect.pod, *self.annotate(effect)))
            case CreateMigration():
                key = PodKey(effect.key.namespace, effect.name)
                self.migrations[key] = VirtualMachineMigration(
                    key=key,
                    uid=f"uid-{effect.name}",
                    resource_version=self.version(),
                    machine=effect.machine,
                    phase="",
                    ours=True,
                    deleting=False,
                    source_pod="",
                    target_pod="",
                    target_node=effect.target_node,
                )
                self.take(MigrationStarted(effect.uid), MigrationSeen(self.migrations[key]))
            case DeleteMigration():
                self.migrations.pop(effect.key, None)
                self.take(MigrationGone(effect.key))
            case Resize() | _:
                pass

    def reports(self, late: WritePermit) -> None:
        """A write of a service that has died arrives, and the watch tells of it."""
        self.annotate(late)
        self.take(*(MachineSeen(machine) for machine in self.machines.values()))

    def has_room(self, node: str) -> bool:
        """May a small pod go there?"""
        pod = self.has_pod("small-enough", on="", vertical=None)
        return not self.state_machine.filter(pod, self.state_machine.state.nodes.rows_of([node]), Instant(self.now)).any()

    def annotate(self, effect: WritePermit) -> tuple[str | None, int]:
        """The text that stands there afterwards: another one than was written where the condition does not hold."""
        if effect.on == "machine":
            machine = self.machines[effect.key]
            if machine.permit == effect.before and machine.uid == effect.uid:
                self.machines[effect.key] = machine = replace(machine, permit=effect.text, resource_version=self.version())
            return machine.permit, machine.resource_version
        pod = self.pods[effect.key]
        assert pod.vertical is not None
        if pod.vertical.permit == effect.before and pod.uid == effect.uid:
            vertical = replace(pod.vertical, permit=effect.text)
            self.pods[effect.key] = pod = structs.replace(pod, vertical=vertical, resource_version=self.version())
        assert pod.vertical is not None
        return pod.vertical.permit, pod.resource_version

    def migration(self, key: PodKey, **changes: Any) -> None:
        self.migrations[key] = replace(self.migrations[key], resource_version=self.version(), **changes)
        self.take(MigrationSeen(self.migrations[key]))

    def passes(self, seconds: float) -> None:
        """Ticks of a tenth of a second, or of half a second where it takes longer."""
        tick = 0.1 if seconds <= 1 else 0.5
        for _ in range(max(round(seconds / tick), 1)):
            self.now = round(self.now + tick, 3)
            self.sent += self.state_machine.apply(TimePassed(), Instant(self.now))
        assert violations(self.state_machine) == []

    # --- a restart --------------------------------------------------------------------------------------------------------

    def restarts(self, *, pods_first: bool = False) -> None:
        """A new process lists everything; what was on its way is lost."""
        self.state_machine, self.sent = StateMachine(self.policy), []
        pods: list[Event] = [PodSeen(pod) for pod in self.pods.values()]
        machines: list[Event] = [MachineSeen(machine) for machine in self.machines.values()]
        migrations: list[Event] = [MigrationSeen(migration) for migration in self.migrations.values()]
        nodes: list[Event] = [NodeSeen(node) for node in self.nodes.values()]
        ordered = [*pods, *nodes, *machines, *migrations] if pods_first else [*nodes, *migrations, *machines, *pods]
        self.take(*ordered, Synced())

    def state_machine_now(self) -> Instant:
        return Instant(self.now)

    # --- numbers ----------------------------------------------------------------------------------------------------------

    def cpu(self, node: str) -> dict[str, int]:
        numbers = self.state_machine.state.ledger.numbers(self.state_machine.state.nodes.row_of[NodeName(node)])
        return {
            "R": numbers.reserved.cpu,
            "B": numbers.buffer.cpu,
            "CP": numbers.capacity_pressure.cpu,
            "PAF": numbers.pressure_accounted_for.cpu,
            "held": numbers.held.cpu,
        }

    def record(self, name: str = "vm") -> PersistedPermit | None:
        """What stands on record on the machine."""
        return read_written(self.machines[PodKey("default", name)].permit)

    def reserved(self, pod: Pod) -> Amounts:
        claim = self.state_machine.state.reservations.get(PodUid(pod.uid))
        assert claim is not None
        return claim.pod_resources.reserved


@pytest.fixture(name="cluster")
def one_node() -> Growing:
    """For modules that import it: a cluster with one node, n."""
    cluster = Growing()
    cluster.has_node(a_node("n", cpu="10", memory="40Gi"))
    return cluster
