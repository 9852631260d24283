"""Whatever goes wrong in whatever order: no gate stays shut, no room stays kept, no victim is sent for twice at a time."""

import hypothesis.strategies as st
import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule, run_state_machine_as_test

from slackwater.cluster.cluster_state import ClusterState
from slackwater.controllers.preemption import state as preempting
from slackwater.model.effects import ApiEffect, DeleteVictim, ReadPod, WritePreempting
from slackwater.model.events import BudgetSeen, PodRead, PreemptingNotWritten, Stopping, VictimEnded, VictimOutcome
from slackwater.model.ids import NodeName, PodUid
from slackwater.model.objects import Pod
from slackwater.model.reasons import Reason
from tests.support.builders import a_budget, a_node, a_pod
from tests.support.preempting import Cluster
from tests.support.seeds import examples

NODES = ["n0", "n1"]
nodes = st.sampled_from(NODES)
sizes = st.sampled_from(["500m", "1", "2", "3"])


class PreemptionMachine(RuleBasedStateMachine):
    """kube-scheduler asks, the API server answers one effect at a time or never, and things change meanwhile."""

    @initialize()
    def start(self) -> None:
        self.serial = 0
        self.flying: set[str] = set()
        self.seen = 0
        full = (a_pod(f"v{node}{number}", on=node, cpu="1", priority=number) for node in NODES for number in range(3))
        waiting = (a_pod(f"w{priority}", cpu="2", priority=priority) for priority in (2, 3))
        self.cluster = Cluster(*(a_node(name) for name in NODES), *full, *waiting)

    def pick(self, data: st.DataObject, *, bound: bool) -> Pod | None:
        found = sorted(uid for uid, pod in self.cluster.pods.items() if (pod.node is not None) == bound and not pod.ended)
        return self.cluster.pods[data.draw(st.sampled_from(found))] if found else None

    @rule(cpu=sizes, priority=st.integers(0, 3), node=st.none() | nodes, label=st.sampled_from(["a", "b"]))
    def create(self, cpu: str, priority: int, node: str | None, label: str) -> None:
        self.serial += 1
        pod = a_pod(f"p{self.serial}", cpu=cpu, priority=priority, on=node, labels={"app": label})
        if node is None or NodeName(node) in self.cluster.state_machine.state.nodes.row_of:
            self.cluster.has(pod)

    @rule(data=st.data(), asked=st.lists(nodes, min_size=1, unique=True))
    def schedule(self, data: st.DataObject, asked: list[str]) -> None:
        """A cycle of kube-scheduler: filter, and bind where it may."""
        pod = self.pick(data, bound=False)
        if pod is None:
            return
        shut = self.cluster.gated(pod)
        codes = self.cluster.filter(pod, *asked)
        assert (codes == [Reason.GATED] * len(asked)) == self.cluster.gated(pod)
        assert not (shut and not self.cluster.gated(pod))
        if Reason.OK in codes and data.draw(st.booleans()):
            node = NodeName(asked[codes.index(Reason.OK)])
            if self.cluster.state_machine.bind(pod.uid, pod.key, node, self.cluster.at).reason is Reason.OK:
                self.cluster.change(pod, node=node)

    @rule(data=st.data(), node=nodes)
    def preempt_verb(self, data: st.DataObject, node: str) -> None:
        pod = self.pick(data, bound=False)
        victims = [p for p in self.cluster.pods.values() if p.node == node and pod is not None and p.priority < pod.priority]
        if pod is not None and victims:
            shut = self.cluster.gated(pod)
            kept = self.cluster.preempt(pod, **{node: victims})
            assert not (shut and kept)

    @precondition(lambda self: self.cluster.asked)
    @rule(data=st.data(), outcome=st.sampled_from(["accepted", "refused", "unreachable"]), happens=st.booleans())
    def one_call_ends(self, data: st.DataObject, outcome: VictimOutcome, happens: bool) -> None:
        """Calls about one pod end in their order, those about different pods in any."""
        asked = self.cluster.asked
        at = data.draw(st.sampled_from(sorted({effect.uid: at for at, effect in reversed(list(enumerate(asked)))}.values())))
        effect = asked[at]
        del asked[at]
        if isinstance(effect, DeleteVictim):
            self.check_victim(effect)
            self.flying.discard(effect.key.name)
            pod = self.cluster.pods.get(effect.uid)
            self.cluster.take(VictimEnded(effect.uid, outcome, "test"))
            if pod is not None and happens:
                self.cluster.change(pod, deleting=True)
        elif isinstance(effect, WritePreempting):
            if happens:
                self.cluster.asked.appendleft(effect)
                self.cluster.serve_one()
            else:
                self.cluster.take(PreemptingNotWritten(effect.uid, effect.text, "test"))

    @rule()
    def everybody_is_tried(self) -> None:
        """So that preemptions begin beside one another."""
        for pod in [pod for pod in self.cluster.pods.values() if pod.node is None and not pod.ended]:
            self.cluster.filter(pod)

    @rule()
    def annotations_are_written(self) -> None:
        """And deletions take their time: those of several preemptors are on their way together."""
        later: list[ApiEffect] = [effect for effect in self.cluster.asked if not isinstance(effect, WritePreempting)]
        for effect in [effect for effect in self.cluster.asked if isinstance(effect, WritePreempting)]:
            self.cluster.asked.clear()
            self.cluster.asked.append(effect)
            self.cluster.serve_one()
            later += list(self.cluster.asked)
        self.cluster.asked.clear()
        self.cluster.asked.extend(later)

    def check_victim(self, effect: DeleteVictim) -> None:
        victim = self.cluster.pods.get(effect.uid)
        preemptor = next((pod for pod in self.cluster.pods.values() if pod.key == effect.preemptor), None)
        if victim is not None and preemptor is not None:
            assert victim.priority < preemptor.priority
            assert victim.node is not None

    @rule(data=st.data(), ended=st.booleans())
    def goes(self, data: st.DataObject, ended: bool) -> None:
        pod = self.pick(data, bound=data.draw(st.booleans()))
        if pod is not None and ended:
            self.cluster.change(pod, ended=True)
        elif pod is not None:
            self.cluster.goes(pod)

    @rule(name=nodes, there=st.booleans())
    def node_changes(self, name: str, there: bool) -> None:
        if there:
            self.cluster.has(a_node(name))
        else:
            self.cluster.node_goes(name)

    @rule(allowed=st.integers(0, 2))
    def budget(self, allowed: int) -> None:
        self.cluster.take(BudgetSeen(a_budget("b", allowed=allowed, app="a")))

    @rule(seconds=st.sampled_from([0.1, 4.0, 11.0, 61.0, 301.0]))
    def time_passes(self, seconds: float) -> None:
        self.cluster.after(seconds)

    @rule(stopped=st.booleans())
    def restart(self, stopped: bool) -> None:
        if stopped:
            self.cluster.take(Stopping())
            assert not self.cluster.state_machine.preemptions.items()
        self.cluster = self.cluster.restarted()
        self.flying.clear()
        self.seen = 0

    @invariant()
    def nobody_is_awaited_for_nobody(self) -> None:
        if not hasattr(self, "cluster"):
            return
        preemptions = self.cluster.state_machine.preemptions
        shut = {uid: found for uid, found in preemptions.items() if found.shut or found.phase == "agreed"}
        for victim, waiting in preemptions.awaited_by.items():
            assert waiting
            assert waiting <= shut.keys()
            assert all(victim in shut[uid].waiting for uid in waiting)
        for uid, found in shut.items():
            assert found.waiting, "a gate is shut, and nobody is awaited"
            for victim in found.waiting:
                claim = self.cluster.state_machine.state.reservations.get(victim)
                assert claim is not None
                assert claim.node == found.node
            assert self.cluster.state_machine.state.pods.get(uid) is not None
            assert found.node in self.cluster.state_machine.state.nodes.row_of

    @invariant()
    def one_flight_for_each_victim(self) -> None:
        if not hasattr(self, "cluster"):
            return
        self.flying &= {claim.key.name for claim in self.cluster.state_machine.state.reservations.copy().values()}
        for name in self.cluster.deleted[self.seen :]:
            assert name not in self.flying, f"{name} was sent for twice at a time"
            self.flying.add(name)
        self.seen = len(self.cluster.deleted)

    def teardown(self) -> None:
        """kube-scheduler is silent, and the API server answers reads alone: in the end everything is open all the same."""
        if not hasattr(self, "cluster"):
            return
        for _ in range(12):
            for effect in self.cluster.unanswered():
                if isinstance(effect, DeleteVictim):
                    self.cluster.take(VictimEnded(effect.uid, "unreachable", "test"))
                elif isinstance(effect, ReadPod) and effect.uid in self.cluster.pods:
                    self.cluster.take(PodRead(self.cluster.pods[effect.uid]))
            self.cluster.after(150.0)
        assert self.cluster.at_rest()
        assert not self.cluster.state_machine.state.ledger.columns.held.any()


TestPreemption = PreemptionMachine.TestCase
TestPreemption.settings = settings(max_examples=examples(80), stateful_step_count=40, deadline=None)


class _Forgetful(set[PodUid]):
    """Knows of no flight that is under way."""

    def __contains__(self, item: object) -> bool:
        return False


def test_the_law_notices_when_victims_are_deleted_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """A law that holds whatever the code does says nothing: broken on purpose, it has to fail."""
    begun = preempting.Preemptions.__init__

    def begun_forgetful(self: preempting.Preemptions, cluster_state: ClusterState) -> None:
        begun(self, cluster_state)
        self.deleting = _Forgetful()

    monkeypatch.setattr(preempting.Preemptions, "__init__", begun_forgetful)
    few = settings(
        max_examples=100, stateful_step_count=40, deadline=None, derandomize=True, database=None, phases=[Phase.generate]
    )
    with pytest.raises(AssertionError, match="sent for twice"):
        run_state_machine_as_test(PreemptionMachine, settings=few)
