"""Whatever happens, in whatever order, the cluster state adds up and our own promises never exceed a node; whoever binds."""

from dataclasses import replace
from functools import reduce
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec import structs

from slackwater.controllers.policy import Policy
from slackwater.model.columns import OK, Codes, Int64, Mask, Rows
from slackwater.model.effects import Bind
from slackwater.model.events import BindEnded, BindOutcome, NodeGone, NodeSeen, PodGone, PodRead, PodSeen, TimePassed
from slackwater.model.ids import Instant, NodeName, Row
from slackwater.model.objects import Pod
from slackwater.model.reasons import Reason
from slackwater.model.resources import Amounts
from slackwater.runtime.state_machine import StateMachine
from tests.support import installed
from tests.support.builders import a_node, a_pod, amounts
from tests.support.invariants import violations
from tests.support.seeds import examples

#: Of a failure hypothesis seeks the smallest case, for five minutes at most. A timeout amid that looks to it as if the
#: rules drew something else than before: it then tells of a flaky strategy, and not of the failure.
pytestmark = pytest.mark.timeout(900)

NODES = ["n0", "n1"]
nodes = st.sampled_from(NODES)
sizes = st.sampled_from(["0", "100m", "1", "2", "3", "9"])


class StateMachineRules(RuleBasedStateMachine):
    """Events and questions in any order, where kube-scheduler binds. `pods` is what an API server would have."""

    binds = False

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.pods: dict[str, Pod] = {}
        self.serial = 0
        self.granted: list[Bind] = []

    @initialize(system=st.sampled_from(["0", "1"]))
    def start(self, system: str) -> None:
        self.state_machine = StateMachine(self.policy(system))
        for name in NODES:
            self.state_machine.apply(NodeSeen(a_node(name)), self.at)

    @property
    def at(self) -> Instant:
        return Instant(self.now)

    def policy(self, system: str) -> Policy:
        return replace(installed.POLICY, nodes=replace(installed.NODES, system=amounts(system, "0")), bind=self.binds)

    def pod(self, data: st.DataObject) -> Pod:
        return self.pods[data.draw(st.sampled_from(sorted(self.pods)))]

    def store(self, pod: Pod, **changes: Any) -> Pod:
        self.serial += 1
        self.pods[pod.key.name] = structs.replace(pod, resource_version=self.serial, **changes)
        return self.pods[pod.key.name]

    @rule(cpu=sizes, memory=st.sampled_from(["0", "1Gi", "7Gi"]), node=st.none() | nodes)
    def create(self, cpu: str, memory: str, node: str | None) -> None:
        """A pod comes; where a node is drawn, it is filtered and bound there at once."""
        self.serial += 1
        name = f"p{self.serial}"
        pod = self.pods[name] = a_pod(name, cpu=cpu, memory=memory, version=self.serial)
        self.state_machine.apply(PodSeen(pod), self.at)
        if node is not None:
            self.state_machine.filter(pod, self.state_machine.state.nodes.rows_of(NODES), self.at)
            self.bind(pod, node)

    @precondition(lambda self: self.pods)
    @rule(data=st.data(), rows=st.lists(nodes, min_size=1, unique=True))
    def ask_filter(self, data: st.DataObject, rows: list[str]) -> None:
        pod = self.pod(data)
        asked = self.state_machine.state.nodes.rows_of([*rows, "stranger"])
        passing = self.state_machine.passing(pod, asked, self.at)
        held = self.state_machine.state.ledger.columns.held.copy()
        codes = self.state_machine.filter(pod, asked, self.at)
        assert codes[-1] != Reason.OK
        assert not ((codes == OK) & ~passing).any()
        if pod.node is not None and pod.node not in rows:
            assert codes.all()
        if self.binds:
            self.check_answer_without_hold(pod, asked, codes, passing, held)
        else:
            self.check_named_node(pod, asked, codes, passing)

    def check_answer_without_hold(self, pod: Pod, rows: Rows, codes: Codes, passing: Mask, held: Int64) -> None:
        """Filter names whatever is feasible, holds nothing, and says the same again."""
        assert ((codes == OK) == passing).all()
        assert (self.state_machine.state.ledger.columns.held <= held).all()
        assert (self.state_machine.filter(pod, rows, self.at) == codes).all()

    def check_named_node(self, pod: Pod, rows: Rows, codes: Codes, passing: Mask) -> None:
        """Filter names one node if any is feasible, and holds room there within its Total; on two nodes at most for a pod."""
        named = rows[codes == OK]
        assert len(named) == min(1, int(passing.sum()))
        assert len(self.state_machine.state.holds.rows_of(pod.uid)) <= 2
        if len(named) and self.state_machine.state.reservations.get(pod.uid) is None:
            row = Row(int(named[0]))
            assert row in self.state_machine.state.holds.rows_of(pod.uid)
            here = self.state_machine.state.ledger.numbers(row)
            promised = here.reserved.plus(here.held)
            assert all(not want or much <= most for want, much, most in zip(pod.need, promised, here.total, strict=True))

    @precondition(lambda self: self.pods)
    @rule(data=st.data(), rows=st.lists(nodes, min_size=2, unique=True))
    def ask_prioritize(self, data: st.DataObject, rows: list[str]) -> None:
        """It holds room at most where we bind, on one node, and as long as a hold may last."""
        pod, asked = self.pod(data), self.state_machine.state.nodes.rows_of(rows)
        before = self.state_machine.state.holds.rows_of(pod.uid)
        self.state_machine.prioritize(pod, asked, self.at)
        after = self.state_machine.state.holds.rows_of(pod.uid)
        assert len(after) <= 1 if self.binds else after == before

    @precondition(lambda self: self.pods)
    @rule(data=st.data(), node=nodes)
    def choose(self, data: st.DataObject, node: str) -> None:
        """Only where filter would let the pod pass: then its room is there and nowhere else. If not, nothing has changed."""
        pod = self.pod(data)
        rows = self.state_machine.state.nodes.rows_of([node])
        here = self.state_machine.state.ledger.numbers(Row(int(rows[0])))
        own = [hold.amounts for hold in self.state_machine.state.holds.all_of(pod.uid) if hold.row == rows[0]]
        left = reduce(Amounts.plus, own, here.total.minus(here.reserved).minus(here.held))
        counted, columns, holds = (
            self.state_machine.chosen_nodes.made,
            self.state_machine.state.ledger.columns.copy(),
            dict(self.state_machine.state.holds),
        )
        passing = self.state_machine.passing(pod, rows, self.at)
        chosen = self.state_machine.choose(pod, Row(int(rows[0])), self.at)
        assert self.state_machine.chosen_nodes.made == counted + chosen
        if chosen:
            assert passing.all()
            assert pod.node is None
            assert all(not want or want <= free for want, free in zip(pod.need, left, strict=True))
            assert not self.binds
            assert rows[0] in self.state_machine.state.holds.rows_of(pod.uid)
        else:
            assert self.state_machine.state.ledger.columns.same_as(columns)
            assert dict(self.state_machine.state.holds) == holds

    @precondition(lambda self: self.pods)
    @rule(data=st.data(), proposed=st.lists(nodes, unique=True))
    def ask_preempt(self, data: st.DataObject, proposed: list[str]) -> None:
        """kube-scheduler proposes all that the server has there; each node that is kept has its victims there."""
        pod = structs.replace(self.pod(data), priority=9)
        there = {NodeName(n): [p.uid for p in self.pods.values() if p.node == n and not p.ended] for n in proposed}
        kept = self.state_machine.preempt(pod, {n: uids for n, uids in there.items() if uids}, self.at)
        for node, (uids, _) in kept.items():
            assert set(there[node]) <= set(uids)
            for uid in uids:
                claim = self.state_machine.state.reservations.get(uid)
                assert claim is not None
                assert claim.node == node

    @rule(system=st.sampled_from(["0", "1"]))
    def settings_change(self, system: str) -> None:
        self.state_machine.adopt_policy(self.policy(system))

    @precondition(lambda self: self.pods)
    @rule(data=st.data(), node=nodes)
    def ask_bind(self, data: st.DataObject, node: str) -> None:
        self.bind(self.pod(data), node)

    def bind(self, pod: Pod, node: str) -> None:
        answer = self.state_machine.bind(pod.uid, pod.key, NodeName(node), self.at)
        if answer.effect is not None:
            self.granted.append(answer.effect)
            if not answer.already:
                self.check_total(node)
            again = self.state_machine.bind(pod.uid, pod.key, NodeName(node), self.at)
            assert again.already
            assert again.reason is Reason.OK

    def check_total(self, node: str) -> None:
        """Others may overfill a node, and nodes may shrink; a grant of ours leaves the node within its Total."""
        row = self.state_machine.state.nodes.row_of[NodeName(node)]
        columns = self.state_machine.state.ledger.columns
        asked = self.state_machine.state.reservations.placed[self.granted[-1].uid].reserved
        for r, amount in enumerate(asked):
            assert amount == 0 or columns.reserved[r, row] <= columns.total[r, row]

    @precondition(lambda self: self.granted)
    @rule(data=st.data(), outcome=st.sampled_from(["bound", "refused", "unreachable", "unknown"]), happened=st.booleans())
    def bind_ends(self, data: st.DataObject, outcome: BindOutcome, happened: bool) -> None:
        bind = self.granted.pop(data.draw(st.integers(0, len(self.granted) - 1)))
        pod = self.pods.get(bind.key.name)
        if pod is None:
            self.state_machine.apply(BindEnded(bind.uid, bind.node, "gone", ""), self.at)
            return
        if pod.node is None and not pod.ended and (outcome == "bound" or (outcome == "unknown" and happened)):
            self.store(pod, node=bind.node)
        if outcome == "bound" and self.pods[bind.key.name].node != bind.node:
            outcome = "elsewhere"
        self.state_machine.apply(BindEnded(bind.uid, bind.node, outcome, "test"), self.at)

    @precondition(lambda self: self.pods)
    @rule(data=st.data())
    def watch_shows(self, data: st.DataObject) -> None:
        self.state_machine.apply(PodSeen(self.pod(data)), self.at)

    @precondition(lambda self: self.pods)
    @rule(data=st.data())
    def read_shows(self, data: st.DataObject) -> None:
        self.state_machine.apply(PodRead(self.pod(data)), self.at)

    @precondition(lambda self: self.pods)
    @rule(data=st.data(), node=nodes)
    def bound_by_others(self, data: st.DataObject, node: str) -> None:
        pod = self.pod(data)
        if pod.node is None and not pod.ended:
            self.state_machine.apply(PodSeen(self.store(pod, node=NodeName(node))), self.at)

    @precondition(lambda self: self.pods)
    @rule(data=st.data())
    def ends(self, data: st.DataObject) -> None:
        self.state_machine.apply(PodSeen(self.store(self.pod(data), ended=True)), self.at)

    @precondition(lambda self: self.pods)
    @rule(data=st.data(), late_read=st.booleans())
    def deleted(self, data: st.DataObject, late_read: bool) -> None:
        pod = self.pods.pop(self.pod(data).key.name)
        self.state_machine.apply(PodGone(pod.uid, pod.key), self.at)
        if late_read:
            self.state_machine.apply(PodRead(pod), self.at)
        assert self.state_machine.state.reservations.get(pod.uid) is None

    @rule(node=nodes, cpu=st.sampled_from(["2", "4", "8"]))
    def node_changes(self, node: str, cpu: str) -> None:
        self.state_machine.apply(NodeSeen(a_node(node, cpu=cpu)), self.at)

    @rule(node=nodes)
    def node_goes(self, node: str) -> None:
        self.state_machine.apply(NodeGone(NodeName(node)), self.at)

    @rule(seconds=st.sampled_from([0.1, 1.0, 11.0, 70.0, 400.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        self.state_machine.apply(TimePassed(), self.at)

    @invariant()
    def adds_up(self) -> None:
        if hasattr(self, "state_machine"):
            assert violations(self.state_machine) == []

    @invariant()
    def reserved_is_what_the_server_has_bound_or_may_have(self) -> None:
        """A pod that the watch showed bound counts where it is; a claim on another node would be a double."""
        if hasattr(self, "state_machine"):
            for pod in self.pods.values():
                known = self.state_machine.state.pods.get(pod.uid)
                claim = self.state_machine.state.reservations.get(pod.uid)
                if known is not None and known.node is not None and not known.ended:
                    assert claim is not None
                    assert claim.node == known.node
                if known is not None and known.ended:
                    assert claim is None

    def teardown(self) -> None:
        """In the end every hold, denial and doubtful claim is over, and the sums are those of the server's bound pods."""
        if not hasattr(self, "state_machine"):
            return
        for bind in self.granted:
            self.state_machine.apply(BindEnded(bind.uid, bind.node, "unreachable", ""), self.at)
        for _ in range(4):
            self.now += 130.0
            self.state_machine.apply(TimePassed(), self.at)
            for pod in self.pods.values():
                self.state_machine.apply(PodRead(pod), self.at)
        self.now += 500.0
        self.state_machine.apply(TimePassed(), self.at)
        assert len(self.state_machine.state.holds) == 0
        assert len(self.state_machine.state.bind_backoff) == 0
        assert self.state_machine.sample_misses.due(Instant(1e9)) == []
        assert len(self.state_machine.preemptions.accepted) == 0
        assert self.state_machine.state.reservations.unconfirmed() == 0
        want = {pod.uid: pod.node for pod in self.pods.values() if pod.node is not None and not pod.ended}
        assert {uid: claim.node for uid, claim in self.state_machine.state.reservations.copy().items()} == want


class WhereWeBind(StateMachineRules):
    """The same where Slackwater binds."""

    binds = True


TestStateMachine = StateMachineRules.TestCase
TestStateMachine.settings = settings(max_examples=examples(100), stateful_step_count=40, deadline=None)
TestWhereWeBind = WhereWeBind.TestCase
TestWhereWeBind.settings = settings(max_examples=examples(100), stateful_step_count=40, deadline=None)
