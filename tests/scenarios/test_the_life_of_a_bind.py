"""hold -> reservation -> Binding -> confirmed: every way it can end, on the state machine alone, with time as an argument."""

from collections.abc import Iterable
from dataclasses import replace

from msgspec import structs

from slackwater.controllers.policy import Policy
from slackwater.model.effects import Activate, Effect, Nominate, ReadPod
from slackwater.model.events import (
    BindEnded,
    BindOutcome,
    BudgetSeen,
    NodeGone,
    NodeSeen,
    PodGone,
    PodRead,
    PodSeen,
    Synced,
    TimePassed,
)
from slackwater.model.ids import Instant, NodeName
from slackwater.model.ledger import Watermark
from slackwater.model.objects import Node, Pod, Taint
from slackwater.model.reasons import Reason
from slackwater.runtime.state_machine import StateMachine
from tests.support import installed
from tests.support.builders import a_budget, a_node, a_pod, amounts
from tests.support.invariants import violations


class Story:
    """A state machine and its time; every step checks that the cluster state adds up."""

    def __init__(self, *objects: Node | Pod, policy: Policy | None = None) -> None:
        self.state_machine = StateMachine(policy or installed.POLICY)
        self.now = 0.0
        self.state_machine.apply(Synced(), self.at)
        for item in objects:
            self.state_machine.apply(NodeSeen(item) if isinstance(item, Node) else PodSeen(item), self.at)

    @property
    def at(self) -> Instant:
        return Instant(self.now)

    def filter(self, pod: Pod, *names: str) -> list[Reason]:
        return [
            Reason(code)
            for code in self.state_machine.filter(pod, self.state_machine.state.nodes.rows_of(names), self.at).tolist()
        ]

    def bind(self, pod: Pod, node: str) -> Reason:
        return self.state_machine.bind(pod.uid, pod.key, NodeName(node), self.at).reason

    def bind_ended(self, pod: Pod, node: str, outcome: BindOutcome) -> list[Effect]:
        effects = self.state_machine.apply(BindEnded(pod.uid, NodeName(node), outcome, "detail"), self.at)
        assert violations(self.state_machine) == []
        return effects

    def seen(self, pod: Pod) -> list[Effect]:
        effects = self.state_machine.apply(PodSeen(pod), self.at)
        assert violations(self.state_machine) == []
        return effects

    def after(self, seconds: float) -> list[Effect]:
        self.now += seconds
        effects = self.state_machine.apply(TimePassed(), self.at)
        assert violations(self.state_machine) == []
        return effects

    def reserved(self, node: str) -> int:
        return int(self.state_machine.state.ledger.columns.reserved[0, self.state_machine.state.nodes.row_of[NodeName(node)]])


def test_a_confirmed_bind_counts_once_and_asks_for_nothing() -> None:
    pod = a_pod("p")
    story = Story(a_node("n"), pod)
    story.filter(pod, "n")
    assert story.bind(pod, "n") is Reason.OK
    assert story.bind_ended(pod, "n", "bound") == []
    assert story.seen(a_pod("p", on="n")) == []
    assert story.after(1000) == []
    assert story.reserved("n") == 500
    assert (story.state_machine.state.event_counts.confirmed, story.state_machine.state.event_counts.adopted) == (1, 0)


def test_a_binding_that_the_watch_never_shows_is_looked_up() -> None:
    pod = a_pod("p")
    story = Story(a_node("n"), pod)
    story.bind(pod, "n")
    story.bind_ended(pod, "n", "bound")
    assert story.after(9) == []
    assert story.after(2) == [ReadPod(pod.uid, pod.key)]
    assert story.after(1) == [], "asked once, until the answer had time to come"
    story.state_machine.apply(PodRead(a_pod("p", on="n")), story.at)
    assert story.after(100) == []
    assert story.reserved("n") == 500


def test_an_unsure_bind_keeps_its_room_until_a_late_read_finds_the_pod_unbound() -> None:
    pod = a_pod("p", cpu="3")
    story = Story(a_node("n"), a_node("m"), pod)
    story.bind(pod, "n")
    assert story.bind_ended(pod, "n", "unknown") == [ReadPod(pod.uid, pod.key)]
    story.state_machine.apply(PodRead(pod), story.at)
    assert story.reserved("n") == 3000, "the request may still be on its way"
    assert story.filter(pod, "m", "n") == [Reason.POD_BOUND_ELSEWHERE, Reason.OK], "only the node that may have it"
    assert story.after(11) == [ReadPod(pod.uid, pod.key)]
    story.state_machine.apply(PodRead(pod), story.at)
    assert story.reserved("n") == 0
    assert sorted(story.filter(pod, "m", "n")) == [Reason.OK, Reason.NODE_NOT_CHOSEN]


def test_while_reads_fail_an_unsure_bind_is_asked_about_again_and_again() -> None:
    pod = a_pod("p")
    story = Story(a_node("n"), pod)
    story.bind(pod, "n")
    story.bind_ended(pod, "n", "unknown")
    for _ in range(5):
        assert story.after(11) == [ReadPod(pod.uid, pod.key)]
    story.state_machine.apply(PodGone(pod.uid, pod.key), story.at)
    assert story.after(11) == []
    assert story.reserved("n") == 0


def test_a_bind_that_went_elsewhere_is_counted_where_it_went() -> None:
    pod = a_pod("p")
    story = Story(a_node("n"), a_node("m"), pod)
    story.bind(pod, "n")
    assert story.bind_ended(pod, "n", "elsewhere") == [ReadPod(pod.uid, pod.key)]
    story.state_machine.apply(PodRead(a_pod("p", on="m")), story.at)
    assert (story.reserved("n"), story.reserved("m")) == (0, 500)


def test_an_unreachable_api_server_leaves_no_denial_behind() -> None:
    pod = a_pod("p")
    story = Story(a_node("n"), pod)
    story.bind(pod, "n")
    assert story.bind_ended(pod, "n", "unreachable") == []
    assert story.filter(pod, "n") == [Reason.OK]


def test_an_old_watch_event_does_not_undo_a_bind() -> None:
    pod = a_pod("p", version=10)
    story = Story(a_node("n"), pod)
    story.bind(pod, "n")
    story.bind_ended(pod, "n", "bound")
    story.seen(a_pod("p", version=11, message="0/1 nodes"))
    assert story.reserved("n") == 500
    story.seen(a_pod("p", version=13, on="n"))
    story.seen(a_pod("p", version=12))
    assert story.reserved("n") == 500


def test_a_read_that_was_answered_before_the_deletion_does_not_bring_the_pod_back() -> None:
    pod = a_pod("p", on="n")
    story = Story(a_node("n"), pod)
    story.state_machine.apply(PodGone(pod.uid, pod.key), story.at)
    story.state_machine.apply(PodRead(pod), story.at)
    assert story.reserved("n") == 0
    assert story.state_machine.state.pods.get(pod.uid) is None


def test_a_watch_that_is_behind_does_not_bring_back_a_pod_that_a_bind_found_gone() -> None:
    """The answer of a bind was lost, the pod deleted, the next try said 404; only then the watch shows the pod bound."""
    pod = a_pod("p", cpu="2")
    story = Story(a_node("n", cpu="4"), pod)
    story.filter(pod, "n")
    assert story.bind(pod, "n") is Reason.OK
    story.bind_ended(pod, "n", "gone")
    story.seen(structs.replace(pod, node=NodeName("n"), resource_version=pod.resource_version + 1))
    assert story.state_machine.state.ledger.numbers(story.state_machine.state.nodes.row_of[NodeName("n")]).reserved == amounts(
        "0", "0"
    )


def test_a_new_pod_of_the_same_name_is_another_pod() -> None:
    old, new = a_pod("p", uid="old"), a_pod("p", uid="new")
    story = Story(a_node("n"), old)
    story.bind(old, "n")
    story.state_machine.apply(PodGone(old.uid, old.key), story.at)
    story.seen(new)
    assert story.bind_ended(old, "n", "gone") == []
    assert story.bind(old, "n") is Reason.POD_FINISHED
    assert story.bind(new, "n") is Reason.OK


def test_bind_is_refused_with_the_reason_and_changes_nothing() -> None:
    pod, elsewhere, ended = a_pod("p"), a_pod("e", on="m"), a_pod("x", ended=True)
    story = Story(a_node("n"), a_node("m"), pod, elsewhere, ended)
    before = story.state_machine.state.ledger.columns.copy()
    assert story.bind(a_pod("stranger"), "n") is Reason.POD_UNKNOWN
    assert story.bind(pod, "stranger") is Reason.NODE_UNKNOWN
    assert story.bind(elsewhere, "n") is Reason.POD_BOUND_ELSEWHERE
    assert story.bind(ended, "n") is Reason.POD_FINISHED
    assert story.state_machine.bind(pod.uid, a_pod("q").key, NodeName("n"), story.at).reason is Reason.POD_UNKNOWN
    assert story.state_machine.state.ledger.columns.same_as(before)
    assert int(story.state_machine.state.event_counts.bind_refusals.sum()) == 5


def test_pods_on_a_node_that_is_not_known_yet_count_once_it_is() -> None:
    story = Story(a_pod("p", on="n"))
    story.state_machine.apply(NodeSeen(a_node("n")), story.at)
    assert story.reserved("n") == 500
    story.state_machine.apply(NodeGone(NodeName("n")), story.at)
    story.state_machine.apply(NodeSeen(a_node("other")), story.at)
    assert story.reserved("other") == 0, "the row is given again, the promises on it are not"
    story.state_machine.apply(NodeSeen(a_node("n")), story.at)
    assert story.reserved("n") == 500
    assert violations(story.state_machine) == []


def test_a_resized_pod_counts_by_its_new_requests() -> None:
    story = Story(a_node("n"), a_pod("p", on="n", cpu="1"))
    story.seen(a_pod("p", on="n", cpu="2"))
    assert story.reserved("n") == 2000
    assert story.state_machine.state.event_counts.adopted == 1, "adopted once, not again at each resize"


def test_a_hold_that_ends_unused_activates_pods_refused_because_of_it() -> None:
    first, second = a_pod("first", cpu="3"), a_pod("second", cpu="3")
    story = Story(a_node("n"), first, second)
    story.filter(first, "n")
    assert story.filter(second, "n") == [Reason.HELD_FOR_OTHERS]
    assert story.after(74) == []
    assert story.after(2) == [ReadPod(first.uid, first.key)]
    woken = story.state_machine.apply(PodRead(first), story.at)
    assert woken == [Activate(second.uid, second.key, "hold-ended")]
    assert story.after(60) == [], "once"


def test_a_hold_that_becomes_a_reservation_activates_no_pod() -> None:
    first, second = a_pod("first", cpu="3"), a_pod("second", cpu="3")
    story = Story(a_node("n"), first, second)
    story.filter(first, "n")
    story.filter(second, "n")
    story.bind(first, "n")
    assert story.after(11) == []
    assert story.filter(second, "n") == [Reason.NOT_ENOUGH_CPU]


def test_after_a_sample_miss_the_best_node_is_nominated_and_each_node_is_tried_once() -> None:
    pod = a_pod("p", node_selector={"disk": "ssd"})
    story = Story(
        a_node("full", cpu="100m"),
        a_node("wrong-label"),
        a_node("tainted", labels={"disk": "ssd"}, taints=[Taint("k", "v", "NoSchedule")]),
        a_node("cordoned", labels={"disk": "ssd"}, unschedulable=True),
        a_node("good", labels={"disk": "ssd"}),
        a_node("better", labels={"disk": "ssd"}),
        a_pod("x", on="better", cpu="2", memory="8Gi"),
        pod,
    )
    nominated = []
    for _ in range(3):
        assert story.filter(pod, "full") == [Reason.CPU_ABOVE_TOTAL]
        nominated += [effect.node for effect in story.after(1) if isinstance(effect, Nominate)]
        story.after(11)  # in-tree filters refused the nomination: the hold ends, the next cycle starves again
    assert nominated == ["better", "good"]
    assert story.state_machine.state.event_counts.sample_misses == 3


def test_the_end_of_the_failed_cycle_makes_the_nomination_due() -> None:
    pod = a_pod("p")
    story = Story(a_node("full", cpu="100m"), a_node("free"), pod)
    story.filter(pod, "full")
    story.seen(a_pod("p", message="0/1 nodes are available"))
    assert story.after(0.01) == [Nominate(pod.uid, pod.key, NodeName("free")), Activate(pod.uid, pod.key, "nominated")]
    assert story.filter(pod, "free") == [Reason.OK]
    story.bind(pod, "free")
    story.seen(a_pod("p", on="free"))
    assert story.state_machine.state.event_counts.nominations_met == 1


def test_attempts_and_failures_are_counted_by_who_refused() -> None:
    pod = a_pod("p", cpu="9")
    story = Story(a_node("n"), pod)
    story.filter(pod, "n")
    story.seen(a_pod("p", cpu="9", message="0/1 nodes: ours"))
    assert (
        story.state_machine.state.event_counts.attempts,
        story.state_machine.state.event_counts.failures,
        story.state_machine.state.event_counts.failures_in_tree,
    ) == (1, 1, 0)
    story.seen(a_pod("p", cpu="9", message="0/1 nodes: a taint"))
    story.seen(a_pod("p", cpu="9", message="0/1 nodes: a taint"))
    assert (
        story.state_machine.state.event_counts.attempts,
        story.state_machine.state.event_counts.failures,
        story.state_machine.state.event_counts.failures_in_tree,
    ) == (2, 2, 1)


def test_added_victims_are_those_whose_budgets_allow_it_and_violations_are_counted() -> None:
    guarded = [a_pod(name, on="n", cpu="1", priority=1, labels={"app": "guarded"}) for name in ("g1", "g2")]
    free = a_pod("free", on="n", cpu="1", priority=5)
    story = Story(a_node("n", cpu="4"), *guarded, free, a_pod("top", on="n", cpu="1", priority=99))
    story.state_machine.apply(BudgetSeen(a_budget("b", allowed=0, app="guarded")), story.at)

    def victims(cpu: str, proposed: Iterable[Pod]) -> tuple[list[str], int]:
        kept = story.state_machine.preempt(
            a_pod("p", cpu=cpu, priority=10), {NodeName("n"): [pod.uid for pod in proposed]}, story.at
        )
        uids, violations_added = kept[NodeName("n")]
        return list(uids), violations_added

    assert victims("1", [free]) == (["uid-free"], 0)
    assert victims("2", [guarded[0]]) == (["uid-free", "uid-g1"], 0), "unguarded first; answered most important first"
    assert victims("3", [free]) == (["uid-free", "uid-g1", "uid-g2"], 2)
    assert story.state_machine.preempt(a_pod("p", cpu="4", priority=10), {NodeName("n"): [free.uid]}, story.at) == {}


def test_changed_system_amounts_take_effect_on_every_node_at_once() -> None:
    story = Story(a_node("a"), a_node("b"), a_pod("p", on="a"))
    policy = replace(
        installed.POLICY,
        nodes=replace(installed.NODES, system=amounts("1", "1Gi"), watermark=Watermark(cpu=500_000, memory=500_000)),
    )
    story.state_machine.adopt_policy(policy)
    columns = story.state_machine.state.ledger.columns
    assert columns.total[:, :2].tolist() == [[3000, 3000], [15 << 30, 15 << 30]]
    assert columns.watermark[0, :2].tolist() == [1500, 1500]
    assert story.reserved("a") == 500


def test_the_preempt_verb_drops_a_node_whose_bind_was_denied() -> None:
    victims = {node: a_pod(f"v-{node}", on=node, cpu="3", priority=1) for node in ("n", "m")}
    pod = a_pod("p", cpu="2", priority=10)
    story = Story(a_node("n"), a_node("m"), *victims.values(), pod)
    proposed = {NodeName(node): [victim.uid] for node, victim in victims.items()}
    assert set(story.state_machine.preempt(pod, proposed, story.at)) == {"n", "m"}
    assert story.bind(pod, "n") is Reason.NOT_ENOUGH_CPU
    assert set(story.state_machine.preempt(pod, proposed, story.at)) == {"m"}


def test_an_older_version_of_a_pod_changes_nothing() -> None:
    """A read that was answered early may arrive after the watch has shown a later version."""
    story = Story(a_node("n"))
    story.seen(structs.replace(a_pod("p", on="n", cpu="3"), resource_version=10))
    story.seen(structs.replace(a_pod("p", on="n", cpu="1"), resource_version=9))
    assert story.reserved("n") == 3000
    story.seen(structs.replace(a_pod("p", on="n", cpu="2"), resource_version=11))
    assert story.reserved("n") == 2000


def test_the_room_of_a_nomination_ends_after_its_time_and_is_free() -> None:
    policy = installed.POLICY
    pod, other = a_pod("p", cpu="3"), a_pod("q", cpu="3")
    story = Story(a_node("full", cpu="100m"), a_node("n"), pod, other, policy=policy)
    story.filter(pod, "full")
    assert Nominate(pod.uid, pod.key, NodeName("n")) in story.after(1)
    story.after(policy.hold_timeout - 0.1)
    assert story.filter(other, "n") == [Reason.HELD_FOR_OTHERS]
    story.after(0.2)
    assert story.filter(other, "n") == [Reason.OK]
