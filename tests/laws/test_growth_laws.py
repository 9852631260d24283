"""Whatever agents ask, whatever is written or lost, whenever the service restarts: nobody is promised what is not there."""

from dataclasses import dataclass, replace

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec import structs

from slackwater.model.effects import CreateMigration, WritePermit
from slackwater.model.events import MigrationNotStarted, PermitNotWritten
from slackwater.model.ids import Instant, NodeName
from slackwater.model.objects import Pod
from slackwater.model.permits import PermitDecision, PermitRefusal
from slackwater.model.resources import NOTHING, Amounts, amounts_of
from slackwater.model.vertical import ResizeTarget
from slackwater.runtime.dump import Dump, state_of
from slackwater.runtime.restore import restore
from tests.support import installed
from tests.support.answers import json_of
from tests.support.builders import a_node, a_pod, a_vertical, amounts
from tests.support.growing import Growing
from tests.support.invariants import violations
from tests.support.seeds import examples

#: Of a failure hypothesis seeks the smallest case, for five minutes at most. A timeout amid that looks to it as if the
#: rules drew something else than before: it then tells of a flaky strategy, and not of the failure.
pytestmark = pytest.mark.timeout(900)

GIB = 1 << 30
MAXIMUM = amounts("6", "24Gi")
units = st.integers(1, 24)
#: Mostly whole units, as agents are shipped to ask; and some that are not.
wishes = st.tuples(st.one_of(units.map(lambda n: 250 * n), st.integers(1, 6500)), units.map(lambda n: n * GIB))


@dataclass
class Agent:
    """Behaves as the reference's section 1.8 says: uses at most what it was permitted, and says so when it uses less.

    `permit`: the last that it was told; it goes on telling that one until another comes. `holds`: what it may be using. What it
    asks to have less of it has given back, whether or not an answer comes; to ask for it again is not to have it again.
    """

    pod: Pod
    use: Amounts
    holds: Amounts
    permit: Amounts | None = None
    waiting: PermitDecision | None = None


class GrowthMachine(RuleBasedStateMachine):
    """Two nodes of 10 CPU; machines of at most 6. Answers that wait for a write are given when it is carried out, or never."""

    def __init__(self) -> None:
        super().__init__()
        self.agents: dict[str, Agent] = {}
        self.serial = 0

    @initialize(step=st.sampled_from([0, 0, 2]), migrate=st.booleans())
    def start(self, step: int, migrate: bool) -> None:
        policy = replace(
            installed.POLICY,
            vertical=replace(installed.VERTICAL, max_step_units=step),
            migration=replace(installed.MIGRATION, enabled=migrate),
        )
        self.cluster = Growing(policy)
        for name in ("a", "b"):
            self.cluster.has_node(a_node(name, cpu="10", memory="40Gi"))

    def agent(self, data: st.DataObject) -> Agent:
        return self.agents[data.draw(st.sampled_from(sorted(self.agents)))]

    @rule(node=st.sampled_from(["a", "b"]), use=wishes, bounds=st.booleans())
    def machine_comes(self, node: str, use: tuple[int, int], bounds: bool) -> None:
        """A machine, or a plain pod with `bounds`; placed where kube-scheduler wants it, if filter lets it pass."""
        self.serial += 1
        using = amounts_of(use).at_most(MAXIMUM)
        vertical = a_vertical(using=using, maximum=MAXIMUM, auto_migrate=True)
        name = f"m{self.serial}"
        if bounds:
            resizing = ResizeTarget(container="app", requests=using, whole=using, limits=(False, False))
            vertical = replace(vertical, machine=None, auto_migrate=False, slot_bytes=1, resizing=resizing)
            pod = self.cluster.has_pod(name, on="", vertical=vertical)
        else:
            pod = self.cluster.has_machine(name, on="", vertical=vertical)
        rows = self.cluster.state_machine.state.nodes.rows_of([node])
        if self.cluster.state_machine.filter(pod, rows, self.cluster.state_machine_now()).any():
            self.cluster.deletes(pod)
            return
        self.bind(pod, node)
        self.agents[name] = Agent(self.cluster.store(structs.replace(pod, node=NodeName(node))), using, holds=using)

    @rule(node=st.sampled_from(["a", "b"]), cpu=st.sampled_from(["100m", "1", "3"]))
    def plain_pod_comes(self, node: str, cpu: str) -> None:
        self.serial += 1
        pod = self.cluster.has_pod(f"p{self.serial}", on="", vertical=None)
        pod = self.cluster.store(structs.replace(pod, kind=replace(pod.kind, requests=amounts(cpu, "1Gi"))))
        rows = self.cluster.state_machine.state.nodes.rows_of([node])
        if self.cluster.state_machine.filter(pod, rows, self.cluster.state_machine_now()).any():
            self.cluster.deletes(pod)
            return
        self.bind(pod, node)
        self.cluster.store(structs.replace(pod, node=NodeName(node)))

    def bind(self, pod: Pod, node: str) -> None:
        """The request is sent when what others gave back on the node is written."""
        assert (
            self.cluster.state_machine.bind(pod.uid, pod.key, NodeName(node), self.cluster.state_machine_now()).effect
            is not None
        )
        while self.cluster.state_machine.permit_limits.persisted_permits.blocking_pods(NodeName(node)):
            if self.cluster.sent:
                self.write_ends(lost=False)
            else:
                self.cluster.passes(0.1)

    @precondition(lambda self: self.agents)
    @rule(data=st.data(), wish=wishes, load=st.integers(0, 5))
    def agent_asks(self, data: st.DataObject, wish: tuple[int, int], load: int) -> None:
        """Lower in a resource: done already. Higher: asked for."""
        agent = self.agent(data)
        asked = amounts_of(wish)
        if agent.permit is None:
            asked = agent.use  # the first request says what is used
        agent.use, agent.holds = agent.use.at_most(asked), agent.holds.at_most(asked)
        self.shows(agent)
        held = self.held(agent)
        decided = self.cluster.decide(agent.pod, asked, last=agent.permit, load=load)
        if isinstance(decided, PermitRefusal):
            assert decided.code == "migrating"
            return
        now = self.cluster.reserved(agent.pod)
        # Between what is held and what is asked, and never below what was promised before.
        for r in range(2):
            assert min(held[r], asked[r]) <= now[r] <= max(asked[r], 0)
            last = min(agent.permit[r], self.shown(agent)[r]) if agent.permit is not None else 0
            assert now[r] >= min(asked[r], last) or self.cluster.state_machine.migrating.is_leaving(agent.pod.uid)
        agent.waiting = decided
        self.answered(agent)

    def shows(self, agent: Agent) -> None:
        """The pod shows what its agent uses; the spec of a plain pod, which the service resizes, is as late."""
        vertical = self.cluster.pods[agent.pod.key].vertical
        assert vertical is not None
        resizing = vertical.resizing and replace(vertical.resizing, requests=agent.use, whole=agent.use)
        self.cluster.change(agent.pod, using=agent.use, resizing=resizing)

    def shown(self, agent: Agent) -> Amounts:
        """What the pod can use by its own spec: no bound for a machine, which is resized inside."""
        vertical = self.cluster.pods[agent.pod.key].vertical
        assert vertical is not None
        return MAXIMUM if vertical.resizing is None else vertical.resizing.whole.at_least(vertical.using)

    def held(self, agent: Agent) -> Amounts:
        """What is the pod's own whatever the others do: its Buffer only where there is room for everybody's."""
        claim = self.cluster.state_machine.state.reservations.get(agent.pod.uid)
        assert claim is not None
        row = self.cluster.state_machine.state.nodes.row_of[claim.node]
        _, over = self.cluster.state_machine.state.ledger.room(row)
        pod_resources = claim.pod_resources
        return amounts_of([pod_resources.reserved[r] - (pod_resources.buffer[r] if over[r] else 0) for r in range(2)])

    def answered(self, agent: Agent) -> None:
        """The listener answers at once, or when the write has ended."""
        assert agent.waiting is not None
        answer = self.cluster.reported(agent.waiting)
        if not answer.permit_limit_pending:
            self.accept(agent, answer.permit)

    def accept(self, agent: Agent, permit: Amounts) -> None:
        """An agent that validates rejects no answer: none has a zero, is above what was asked, or below what is used."""
        assert agent.waiting is not None
        assert min(permit) > 0
        assert permit.within(agent.waiting.asked)
        assert agent.use.within(permit)
        agent.use = agent.holds = agent.permit = permit
        agent.waiting = None

    @precondition(lambda self: self.agents)
    @rule(data=st.data())
    def agent_gives_up(self, data: st.DataObject) -> None:
        """The listener's deadline: the agent gets what is safe now."""
        agent = self.agent(data)
        if agent.waiting is not None:
            self.accept(agent, self.cluster.reported(agent.waiting).permit)

    @precondition(lambda self: self.cluster.sent)
    @rule(lost=st.sampled_from([False, False, False, True]))
    def write_ends(self, lost: bool) -> None:
        """The oldest write is carried out; or it is, and its answer is lost; then nobody knows."""
        effect = self.cluster.sent.pop(0)
        if isinstance(effect, WritePermit) and effect.pod not in {agent.pod.uid for agent in self.agents.values()}:
            return
        if lost and isinstance(effect, WritePermit):
            self.cluster.annotate(effect)
            self.cluster.take(PermitNotWritten(effect.pod, "lost"))
        elif lost and isinstance(effect, CreateMigration):
            self.cluster.take(MigrationNotStarted(effect.uid, "refused"))
        else:
            self.cluster.carry_out(effect)
        for agent in self.agents.values():
            if agent.waiting is not None:
                self.answered(agent)

    @precondition(lambda self: self.agents)
    @rule(data=st.data())
    def machine_goes(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.agents)))
        self.cluster.deletes(self.agents.pop(name).pod)

    @rule(seconds=st.sampled_from([0.1, 1.1, 3.0, 12.0]))
    def time_passes(self, seconds: float) -> None:
        self.cluster.passes(seconds)

    @rule(pods_first=st.booleans())
    def killed_and_started_again(self, pods_first: bool) -> None:
        """What was on its way is lost; agents keep what they were told, and ask again."""
        self.cluster.restarts(pods_first=pods_first)
        for agent in self.agents.values():
            agent.waiting = None

    @invariant()
    def nobody_may_use_more_than_is_reserved_for_it(self) -> None:
        if hasattr(self, "cluster"):
            for agent in self.agents.values():
                assert agent.holds.within(self.cluster.reserved(agent.pod)), agent

    @invariant()
    def reserved_without_the_buffer_is_within_total(self) -> None:
        if hasattr(self, "cluster"):
            for row, _ in self.cluster.state_machine.state.nodes:
                node = self.cluster.state_machine.state.ledger.numbers(row)
                assert node.reserved.minus(node.buffer).within(node.total), node

    @rule()
    def a_dump_read_back_is_the_same_state(self) -> None:
        now = Instant(self.cluster.now)
        dumped = json_of(state_of(Dump(self.cluster.state_machine, now)))
        again = restore(dumped, self.cluster.policy, now)
        assert violations(again) == []
        assert json_of(state_of(Dump(again, now))) == dumped


TestGrowth = GrowthMachine.TestCase
TestGrowth.settings = settings(max_examples=examples(60), stateful_step_count=40, deadline=None)


def test_a_restored_state_places_as_the_one_that_was_dumped() -> None:
    cluster = Growing()
    for name in ("a", "b"):
        cluster.has_node(a_node(name, cpu="10", memory="40Gi"))
    cluster.ask(cluster.places("m", on="a", vertical=a_vertical(maximum=MAXIMUM)), amounts("6", "24Gi"), last=NOTHING)
    again = restore(json_of(state_of(Dump(cluster.state_machine, Instant(0)))), cluster.policy, Instant(0))
    pod = a_pod("next", cpu="5", memory="1Gi")
    rows = [state_machine.state.nodes.rows_of(["a", "b"]) for state_machine in (cluster.state_machine, again)]
    first, second = (
        state_machine.filter(pod, row, Instant(0)).tolist()
        for state_machine, row in zip((cluster.state_machine, again), rows, strict=True)
    )
    assert first == second
    assert first[0] != 0
    assert first[1] == 0
