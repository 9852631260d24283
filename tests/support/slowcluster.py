"""A service, its agents and kube-scheduler before an API server that is slow and fair to nobody, as rules of hypothesis.

The law that is asked of it, and who moves machines and kills the service, is `tests/laws/test_crash_laws.py`'s.
"""

from collections import deque
from dataclasses import dataclass, replace

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from msgspec import structs

from slackwater.model.effects import Bind, CreateMigration, DeleteMigration, Effect, WritePermit
from slackwater.model.events import (
    BindEnded,
    Event,
    NodeSeen,
    PermitNotWritten,
    Synced,
    TimePassed,
)
from slackwater.model.ids import Instant, NodeName, PodKey
from slackwater.model.objects import Pod
from slackwater.model.permits import Load, PermitAnswer, PermitAsk, PermitDecision, PermitRefusal
from slackwater.model.resources import Amounts
from slackwater.model.vertical import Machine
from slackwater.runtime.state_machine import StateMachine
from tests.support import installed
from tests.support.builders import a_node, a_pod, a_vertical, amounts
from tests.support.invariants import violations
from tests.support.slowapi import ApiServer

NODES = ("a", "b")
UNIT = amounts("1", "4Gi")
MAXIMUM = amounts("6", "24Gi")
sizes = st.builds(lambda cpu, memory: amounts(str(cpu), f"{4 * memory}Gi"), *[st.sampled_from([1, 2, 3, 4, 6])] * 2)


@dataclass
class Agent:
    """One machine on one pod. `use` is what it really uses, of which its pods tell sooner or later."""

    pod: PodKey
    permit: Amounts | None = None
    waiting: PermitDecision | None = None
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
class Sent:
    """A request on its way; `answer` once it has arrived."""

    effect: Effect
    arrived: bool = False
    answer: Event | None = None


class SlowCluster(RuleBasedStateMachine):
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
        self.policy = replace(installed.POLICY, migration=replace(installed.MIGRATION, enabled=migrate))
        self.begin([0, 1, 2])
        for use in uses:
            self.machine_comes(use, "a")
            for _ in range(3):
                self.take(TimePassed())
            self.settle_all()

    # --- the service ------------------------------------------------------------------------------------------------------

    def begin(self, order: list[int]) -> None:
        self.state_machine = StateMachine(self.policy)
        for name in NODES:
            self.take(NodeSeen(a_node(name, cpu="10", memory="40Gi")))
        lists = self.api.listed()
        self.take(*(event for position in order for event in lists[position]), Synced())

    def take(self, *events: Event) -> None:
        for event in events:
            self.send(self.state_machine.apply(event, Instant(self.now)))
        assert violations(self.state_machine) == []

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
    def a_watch_reports(self, data: st.DataObject, everything: bool) -> None:
        news = self.api.news[data.draw(st.sampled_from([kind for kind, events in self.api.news.items() if events]))]
        for _ in range(len(news) if everything else 1):
            self.take(news.popleft())
        self.goes_on()

    @rule(seconds=st.sampled_from([0.1, 1.1, 3.0, 12.0]))
    def time_passes(self, seconds: float) -> None:
        for _ in range(3):
            self.now += seconds / 3
            self.take(TimePassed())

    # --- kube-scheduler ---------------------------------------------------------------------------------------------------

    def place(self, pod: Pod, node: str) -> bool:
        rows = self.state_machine.state.nodes.rows_of([node])
        if self.state_machine.filter(pod, rows, Instant(self.now)).any():
            return False
        if self.state_machine.bind(pod.uid, pod.key, NodeName(node), Instant(self.now)).effect is None:
            return False
        self.binding[pod.key] = NodeName(node)
        return True

    def bind_is_sent(self, key: PodKey) -> None:
        node = self.binding[key]
        if not self.state_machine.permit_limits.persisted_permits.blocking_pods(node):
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
        pod = self.api.put_pod(structs.replace(a_pod(f"{name}-0", cpu="100m", memory="1Gi"), vertical=vertical))
        self.take(self.api.news["machines"].pop(), self.api.news["pods"].pop())
        self.vms[name] = Vm(name, use)
        self.place(pod, node)

    def machine_goes(self, name: str) -> None:
        if self.vms[name].migrating is not None:
            return
        del self.vms[name]
        for pod in [p for p in self.api.pods.values() if p.vertical is not None and p.vertical.machine == name]:
            self.api.delete_pod(pod.key)
        self.api.delete_machine(PodKey("default", name))

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
        decided = self.state_machine.ask_permit(ask, None, Instant(self.now))
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
                answer = self.state_machine.permit_answer(vm.agent.waiting)
                if isinstance(answer, PermitAnswer) and not answer.permit_limit_pending:
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
            answer = self.state_machine.permit_answer(vm.agent.waiting)
            if isinstance(answer, PermitAnswer):
                self.accept(vm, answer.permit)
