"""The service dies at any moment, and what it sent before may arrive long after: nobody is promised what is not there.

The API server here is slow and fair to nobody: each request arrives when it likes, after the service that sent it has died, or
never; each answer comes later, or not at all; each watch tells of each object when it likes. What it holds is all that a new
service knows. Agents behave: they use what they were told, and what they ask to have less of they have given back.

Assumed, as in docs/adr/0011: of a binding that was sent, it is settled when a new service lists the pods whether it happened.
"""

import os
from collections import deque
from dataclasses import dataclass, field, replace
from typing import Final

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from slackwater.decide.migration.policy import MigrationPolicy
from slackwater.model.effects import Bind, CreateMigration, DeleteMigration, Effect, WritePermit
from slackwater.model.events import (
    BindEnded,
    Event,
    MachineGone,
    MachineSeen,
    MigrationGone,
    MigrationSeen,
    MigrationStarted,
    NodeSeen,
    PermitNotWritten,
    PermitWritten,
    PodGone,
    PodSeen,
    Synced,
    Ticked,
)
from slackwater.model.ids import Instant, NodeName, PodKey
from slackwater.model.machines import Machine, Migration
from slackwater.model.objects import Pod
from slackwater.model.permits import Load, PermitAnswer, PermitAsk, PermitRefusal
from slackwater.model.resources import NOTHING, Amounts
from slackwater.model.vertical import MigrationRef, Role
from slackwater.world.invariants import violations
from slackwater.world.permits import Decided
from slackwater.world.policy import Policy
from slackwater.world.world import World
from tests.support.builders import a_node, a_pod, a_vertical, amounts

#: See test_growth_laws.
pytestmark = pytest.mark.timeout(900)

NODES = ("a", "b")
ROLES: Final[tuple[Role, Role]] = ("source", "target")
UNIT = amounts("1", "4Gi")
MAXIMUM = amounts("6", "24Gi")
sizes = st.builds(lambda cpu, memory: amounts(str(cpu), f"{4 * memory}Gi"), *[st.sampled_from([1, 2, 3, 4, 6])] * 2)


@dataclass
class Agent:
    """One machine on one pod. `use` is what it really uses, of which its pods tell sooner or later."""

    pod: PodKey
    permit: Amounts | None = None
    waiting: Decided | None = None
    asked: Amounts | None = None  #: of a request without an answer yet


@dataclass
class Vm:
    """A machine, where it runs, and what it uses there."""

    name: str
    use: Amounts
    agent: Agent | None = None
    migrating: PodKey | None = None

    def holds(self) -> Amounts:
        if self.agent is None or self.agent.permit is None:
            return self.use
        held = self.agent.permit.at_least(self.use)
        return held if self.agent.asked is None else held.at_most(self.agent.asked)


@dataclass
class ApiServer:
    """What outlives every process. `news`: what the watches have not told yet, by kind, oldest first."""

    pods: dict[PodKey, Pod] = field(default_factory=dict)
    machines: dict[PodKey, Machine] = field(default_factory=dict)
    migrations: dict[PodKey, Migration] = field(default_factory=dict)
    news: dict[str, deque[Event]] = field(default_factory=lambda: {"pods": deque(), "machines": deque(), "moves": deque()})
    version: int = 1000

    def _next(self) -> int:
        self.version += 1
        return self.version

    def put_pod(self, pod: Pod) -> Pod:
        self.pods[pod.key] = pod = replace(pod, resource_version=self._next())
        self.news["pods"].append(PodSeen(pod))
        return pod

    def put_machine(self, machine: Machine) -> None:
        self.machines[machine.key] = machine = replace(machine, resource_version=self._next())
        self.news["machines"].append(MachineSeen(machine))

    def put_migration(self, migration: Migration) -> None:
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
                    self.put_pod(replace(pod, node=node))
                return BindEnded(uid, node, "bound" if self.pods[key].node == node else "elsewhere", "")
            case CreateMigration():
                key = PodKey(effect.key.namespace, effect.name)
                if key not in self.migrations:
                    self.put_migration(_a_migration(key, effect.machine, effect.key.name, effect.landing))
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


def _a_migration(key: PodKey, machine: str, pod: str, landing: NodeName | None = None) -> Migration:
    return Migration(
        key=key,
        uid=f"uid-{key.name}",
        resource_version=0,
        machine=machine,
        phase="",
        ours=landing is not None,
        deleting=False,
        source_pod=pod,
        target_pod="",
        landing=landing,
    )


@dataclass
class Sent:
    """A request on its way; `answer` once it has arrived."""

    effect: Effect
    arrived: bool = False
    answer: Event | None = None


class CrashMachine(RuleBasedStateMachine):
    """Two nodes of 10 CPU and 40 GiB, machines of at most 6 and 24."""

    def __init__(self) -> None:
        super().__init__()
        self.api = ApiServer()
        self.vms: dict[str, Vm] = {}
        self.lanes: dict[tuple[str, bool], deque[Sent]] = {}
        self.late: list[Effect] = []  #: requests of services that are dead
        self.binding: dict[PodKey, NodeName] = {}  #: granted, and not sent yet
        self.now, self.serial = 0.0, 0

    @initialize(migrate=st.booleans(), uses=st.lists(sizes, min_size=2, max_size=5))
    def start(self, migrate: bool, uses: list[Amounts]) -> None:
        self.policy = Policy(migration=MigrationPolicy(enabled=migrate))
        self.begin([0, 1, 2])
        for use in uses:
            self.machine_comes(use, "a")
            for _ in range(3):
                self.take(Ticked())
            self.settle_all()

    # --- the service ------------------------------------------------------------------------------------------------------

    def begin(self, order: list[int]) -> None:
        self.world = World(self.policy)
        for name in NODES:
            self.take(NodeSeen(a_node(name, cpu="10", memory="40Gi")))
        lists = self.api.listed()
        self.take(*(event for position in order for event in lists[position]), Synced())

    def take(self, *events: Event) -> None:
        for event in events:
            self.send(self.world.apply(event, Instant(self.now)))
        assert violations(self.world) == []

    def send(self, effects: list[Effect] | tuple[Effect, ...]) -> None:
        """As the dispatcher: what is for one object goes one after the other, binds beside the rest."""
        for effect in effects:
            if isinstance(effect, WritePermit | Bind | CreateMigration | DeleteMigration):
                self.lanes.setdefault((effect.uid, isinstance(effect, Bind)), deque()).append(Sent(effect))

    def first(self, data: st.DataObject) -> tuple[tuple[str, bool], Sent]:
        lane = data.draw(st.sampled_from(sorted(self.lanes)))
        return lane, self.lanes[lane][0]

    def over(self, lane: tuple[str, bool]) -> None:
        self.lanes[lane].popleft()
        if not self.lanes[lane]:
            del self.lanes[lane]

    def settle_all(self) -> None:
        """A quiet moment: everything arrives and is answered and told."""
        for _ in range(60):
            for lane in list(self.lanes):
                if lane in self.lanes:
                    sent = self.lanes[lane][0]
                    if not sent.arrived:
                        sent.arrived, sent.answer = True, self.api.arrives(sent.effect)
                    self.answer(lane, sent)
            for news in self.api.news.values():
                while news:
                    self.take(news.popleft())
            self.goes_on()

    def answer(self, lane: tuple[str, bool], sent: Sent) -> None:
        self.over(lane)
        if sent.answer is not None:
            self.take(sent.answer)
        self.goes_on()

    # --- the API server's moods -------------------------------------------------------------------------------------------

    @precondition(lambda self: self.lanes)
    @rule(data=st.data(), end=st.sampled_from(["answered", "answered", "answered", "arrived", "lost"]))
    def a_request_goes_on(self, data: st.DataObject, end: str) -> None:
        """Lost: the dispatcher gives a permit up, and the request may be on its way all the same."""
        lane, sent = self.first(data)
        if end == "lost" and isinstance(sent.effect, WritePermit):
            self.over(lane)
            if not sent.arrived:
                self.late.append(sent.effect)
            self.take(PermitNotWritten(sent.effect.pod, "no answer"))
            self.goes_on()
            return
        if not sent.arrived:
            sent.arrived, sent.answer = True, self.api.arrives(sent.effect)
        if end == "answered":
            self.answer(lane, sent)

    @precondition(lambda self: self.late)
    @rule(data=st.data())
    def a_request_arrives_late(self, data: st.DataObject) -> None:
        index = data.draw(st.integers(0, len(self.late) - 1))
        self.api.arrives(self.late.pop(index))

    @rule()
    def a_quiet_moment(self) -> None:
        self.settle_all()

    @precondition(lambda self: any(self.api.news.values()))
    @rule(data=st.data(), everything=st.booleans())
    def a_watch_tells(self, data: st.DataObject, everything: bool) -> None:
        news = self.api.news[data.draw(st.sampled_from([kind for kind, events in self.api.news.items() if events]))]
        for _ in range(len(news) if everything else 1):
            self.take(news.popleft())
        self.goes_on()

    @rule(seconds=st.sampled_from([0.1, 1.1, 3.0, 12.0]))
    def time_passes(self, seconds: float) -> None:
        for _ in range(3):
            self.now += seconds / 3
            self.take(Ticked())

    # --- kube-scheduler ---------------------------------------------------------------------------------------------------

    def place(self, pod: Pod, node: str) -> bool:
        rows = self.world.nodes.rows_of([node])
        if self.world.filter(pod, rows, Instant(self.now)).any():
            return False
        if self.world.bind(pod.uid, pod.key, NodeName(node), Instant(self.now)).effect is None:
            return False
        self.binding[pod.key] = NodeName(node)
        return True

    def bind_is_sent(self, key: PodKey) -> None:
        node = self.binding[key]
        if not self.world.ceilings.still_on_record(node):
            del self.binding[key]
            if key in self.api.pods:
                self.send([Bind(self.api.pods[key].uid, key, node)])

    @precondition(lambda self: self.binding)
    @rule(data=st.data())
    def a_bind_is_given_up(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.binding)))
        node = self.binding.pop(key)
        if key in self.api.pods:
            self.take(BindEnded(self.api.pods[key].uid, node, "unsent", ""))

    @rule(data=st.data(), what=st.sampled_from(["pod", "machine", "goes"]), node=st.sampled_from(NODES))
    def somebody_comes_or_goes(self, data: st.DataObject, what: str, node: str) -> None:
        if what == "pod":
            self.plain_pod_comes(data.draw(st.sampled_from(["1", "3"])), node)
        elif what == "machine":
            self.machine_comes(data.draw(sizes), node)
        elif self.vms:
            self.machine_goes(data.draw(st.sampled_from(sorted(self.vms))))

    def plain_pod_comes(self, cpu: str, node: str) -> None:
        self.serial += 1
        pod = self.api.put_pod(a_pod(f"p{self.serial}", cpu=cpu, memory="4Gi"))
        self.take(self.api.news["pods"].pop())
        self.place(pod, node)

    def machine_comes(self, use: Amounts, node: str) -> None:
        self.serial += 1
        name = f"m{self.serial}"
        self.api.put_machine(Machine(key=PodKey("default", name), uid=f"machine-{name}", resource_version=0, permit=None))
        vertical = a_vertical(using=use, minimum=UNIT, maximum=MAXIMUM, auto_migrate=True, machine=name)
        pod = self.api.put_pod(replace(a_pod(f"{name}-0", cpu="100m", memory="1Gi"), vertical=vertical))
        self.take(self.api.news["machines"].pop(), self.api.news["pods"].pop())
        self.vms[name] = Vm(name, use)
        self.place(pod, node)

    # --- agents -----------------------------------------------------------------------------------------------------------

    def running(self) -> list[str]:
        return sorted(name for name, vm in self.vms.items() if vm.agent is not None)

    @precondition(lambda self: self.running())
    @rule(data=st.data(), wish=sizes, load=st.integers(0, 3))
    def an_agent_asks(self, data: st.DataObject, wish: Amounts, load: int) -> None:
        self.asks(self.vms[data.draw(st.sampled_from(self.running()))], wish, load)

    @precondition(lambda self: self.running())
    @rule(data=st.data(), more=sizes, load=st.integers(0, 3))
    def an_agent_wants_more(self, data: st.DataObject, more: Amounts, load: int) -> None:
        vm = self.vms[data.draw(st.sampled_from(self.running()))]
        self.asks(vm, vm.use.at_least(more), load)

    @precondition(lambda self: self.running())
    @rule(wishes=st.lists(sizes, min_size=6, max_size=6), load=st.integers(0, 3))
    def all_agents_ask(self, wishes: list[Amounts], load: int) -> None:
        for name, wish in zip(self.running(), wishes, strict=False):
            self.asks(self.vms[name], wish, load)

    def asks(self, vm: Vm, wish: Amounts, load: int) -> None:
        agent = vm.agent
        assert agent is not None
        self.gives_up(vm)
        asked = vm.use if agent.permit is None else wish
        vm.use = vm.use.at_most(asked)
        ask = PermitAsk(
            key=agent.pod,
            version=7,
            asked=asked,
            last_permit=agent.permit,
            compute_unit=amounts("250m", "1Gi"),
            load=Load(load1_micro=load),
            slots=False,
        )
        decided = self.world.ask_permit(ask, None, Instant(self.now))
        if isinstance(decided, PermitRefusal):
            return
        self.send(decided.effects)
        agent.waiting, agent.asked = decided, asked
        self.goes_on()

    def gives_up(self, vm: Vm) -> None:
        """Its connection broke. What it asked to have less of, it has given back."""
        agent = vm.agent
        if agent is not None and agent.asked is not None:
            if agent.permit is not None:
                agent.permit = agent.permit.at_most(agent.asked)
            agent.asked = agent.waiting = None

    def goes_on(self) -> None:
        """What the service does by itself as soon as it can, and the agents."""
        for key in list(self.binding):
            self.bind_is_sent(key)
        for vm in self.vms.values():
            pod = self.api.pods.get(PodKey("default", f"{vm.name}-0"))
            if vm.agent is None and vm.migrating is None and pod is not None and pod.node is not None:
                vm.agent = Agent(pod.key)
        for vm in self.vms.values():
            if vm.agent is not None and vm.agent.waiting is not None:
                answer = self.world.permit_answer(vm.agent.waiting)
                if isinstance(answer, PermitAnswer) and not answer.ceiling_pending:
                    self.accept(vm, answer.permit)

    def accept(self, vm: Vm, permit: Amounts) -> None:
        agent = vm.agent
        assert agent is not None
        assert agent.asked is not None
        assert permit.within(agent.asked)
        assert vm.use.within(permit), (vm, permit)
        vm.use = agent.permit = permit
        agent.waiting = agent.asked = None

    @precondition(lambda self: self.running())
    @rule(data=st.data())
    def an_answer_can_wait_no_longer(self, data: st.DataObject) -> None:
        vm = self.vms[data.draw(st.sampled_from(self.running()))]
        if vm.agent is not None and vm.agent.waiting is not None:
            answer = self.world.permit_answer(vm.agent.waiting)
            if isinstance(answer, PermitAnswer):
                self.accept(vm, answer.permit)

    # --- NeonVM's controller ----------------------------------------------------------------------------------------------

    @precondition(lambda self: self.vms)
    @rule(data=st.data())
    def pods_say_what_their_machine_uses(self, data: st.DataObject) -> None:
        vm = self.vms[data.draw(st.sampled_from(sorted(self.vms)))]
        for pod in list(self.api.pods.values()):
            if pod.vertical is not None and pod.vertical.machine == vm.name and pod.vertical.using != vm.use:
                self.api.put_pod(replace(pod, vertical=replace(pod.vertical, using=vm.use)))

    @rule(data=st.data())
    def somebody_makes_a_migration(self, data: st.DataObject) -> None:
        names = [name for name in self.running() if all(m.machine != name for m in self.api.migrations.values())]
        if names:
            vm = self.vms[data.draw(st.sampled_from(names))]
            assert vm.agent is not None
            if vm.agent.pod in self.api.pods:
                self.api.put_migration(_a_migration(PodKey("default", f"by-hand-{vm.name}"), vm.name, vm.agent.pod.name))

    def steps(self) -> list[tuple[PodKey, Migration]]:
        return sorted((key, m) for key, m in self.api.migrations.items() if m.phase in {"", "Pending"})

    @precondition(lambda self: self.steps())
    @rule(data=st.data(), fails=st.sampled_from([False, False, False, True]))
    def a_migration_goes_on(self, data: st.DataObject, fails: bool) -> None:
        """By one step: it begins, its target is placed, it ends."""
        key, migration = self.steps()[data.draw(st.integers(0, len(self.steps()) - 1))]
        source, vm = self.api.pods.get(PodKey("default", migration.source_pod)), self.vms.get(migration.machine)
        if source is None or vm is None:
            self.api.delete_migration(key)
        elif migration.phase == "":
            self.begin_migration(migration, source, vm)
        elif (target := self.api.pods.get(PodKey("default", migration.target_pod))) is None:
            return
        elif target.node is not None:
            self.end_migration(migration, source, target, vm, fails=fails)
        elif target.key not in self.binding and self.world.pods.get(target.uid) is not None:
            self.place(target, next(node for node in NODES if node != source.node))

    def begin_migration(self, migration: Migration, source: Pod, vm: Vm) -> None:
        assert source.vertical is not None
        self.serial += 1
        name = f"{vm.name}-{self.serial}"
        vm.migrating = migration.key
        self.api.put_migration(replace(migration, phase="Pending", target_pod=name))
        marks = [MigrationRef(name=migration.key.name, role=role) for role in ROLES]
        target = replace(source.vertical, using=vm.use, migration=marks[1])
        self.api.put_pod(replace(a_pod(name, cpu="100m", memory="1Gi"), vertical=target))
        self.api.put_pod(replace(source, vertical=replace(source.vertical, migration=marks[0])))

    def end_migration(self, migration: Migration, source: Pod, target: Pod, vm: Vm, *, fails: bool) -> None:
        assert source.vertical is not None
        assert target.vertical is not None
        if not vm.use.within(target.vertical.using):
            return  # the target was made for what the machine used when it began
        vm.migrating = None
        if fails:
            self.api.put_pod(replace(source, vertical=replace(source.vertical, migration=None)))
            self.api.put_migration(replace(migration, phase="Failed"))
            self.api.delete_pod(target.key)
            return
        self.gives_up(vm)
        self.api.put_pod(replace(target, vertical=replace(target.vertical, migration=None)))
        vm.agent = Agent(target.key)
        self.api.put_migration(replace(migration, phase="Succeeded"))

    def left_behind(self) -> list[PodKey]:
        current = {vm.agent.pod for vm in self.vms.values() if vm.agent is not None}
        return sorted(
            pod.key
            for pod in self.api.pods.values()
            if pod.vertical is not None
            and pod.vertical.migration is not None
            and pod.vertical.migration.role == "source"
            and pod.key not in current
        )

    @precondition(lambda self: self.left_behind())
    @rule()
    def sources_go(self) -> None:
        for key in self.left_behind():
            self.api.delete_pod(key)

    def machine_goes(self, name: str) -> None:
        if self.vms[name].migrating is not None:
            return
        del self.vms[name]
        for pod in [p for p in self.api.pods.values() if p.vertical is not None and p.vertical.machine == name]:
            self.api.delete_pod(pod.key)
        self.api.delete_machine(PodKey("default", name))

    # --- the end of the service -------------------------------------------------------------------------------------------

    @rule(data=st.data(), order=st.permutations([0, 1, 2]))
    def killed_and_started_again(self, data: st.DataObject, order: list[int]) -> None:
        for lane in self.lanes.values():
            if not lane[0].arrived:
                if isinstance(lane[0].effect, Bind):
                    if data.draw(st.booleans()):
                        self.api.arrives(lane[0].effect)
                else:
                    self.late.append(lane[0].effect)
        self.lanes.clear()
        self.binding.clear()
        for vm in self.vms.values():
            self.gives_up(vm)
        self.begin(order)

    # --- laws -------------------------------------------------------------------------------------------------------------

    @invariant()
    def no_node_is_over_total(self) -> None:
        if hasattr(self, "world"):
            for row, _ in self.world.nodes:
                node = self.world.ledger.numbers(row)
                assert node.reserved.minus(node.buffer).within(node.total), node

    @invariant()
    def no_node_has_to_bear_more_than_it_has(self) -> None:
        sums = dict.fromkeys(NODES, NOTHING)
        for vm in self.vms.values():
            pod = None if vm.agent is None else self.api.pods.get(vm.agent.pod)
            if pod is not None and pod.node is not None:
                sums[pod.node] = sums[pod.node].plus(vm.holds())
        for pod in self.api.pods.values():
            if pod.vertical is None and pod.node is not None:
                sums[pod.node] = sums[pod.node].plus(pod.kind.requests)
        for used in sums.values():
            assert used.within(amounts("10", "40Gi")), sums

    @invariant()
    def nobody_may_use_more_than_is_reserved_for_it(self) -> None:
        for vm in self.vms.values():
            if vm.agent is not None and (pod := self.api.pods.get(vm.agent.pod)) is not None:
                claim = self.world.claims.get(pod.uid)
                assert claim is not None, vm
                assert vm.holds().within(claim.account.reserved), (vm, claim.account)


TestCrashes = CrashMachine.TestCase
TestCrashes.settings = settings(
    max_examples=int(os.environ.get("EX", "60")), stateful_step_count=int(os.environ.get("ST", "50")), deadline=None
)
