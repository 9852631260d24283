"""What the collector of changes tells planners: each pod as it counts, each node with what may be promised there."""

from dataclasses import replace

from msgspec import structs

from slackwater.cluster.nodegroups.status import NodeGroupStatus
from slackwater.controllers.loop_plans import Inquiry, PlanMaker, ScaleUpRules
from slackwater.controllers.policy import Policy
from slackwater.model.changes import Changes
from slackwater.model.events import BindEnded, BudgetSeen, NodeGone, NodeSeen, PodGone, PodSeen, Synced
from slackwater.model.ids import Instant, NodeName, PodKey, UnixTime
from slackwater.model.nodegroups import GroupName, NodeGroup
from slackwater.model.objects import Node, Pod
from slackwater.model.reasons import Reason
from slackwater.runtime.change_collector import ChangeCollector
from slackwater.runtime.state_machine import StateMachine
from tests.support import installed
from tests.support.builders import a_budget, a_node, a_pod, a_vertical, amounts
from tests.support.preempting import Cluster

NOW = Instant(1.0)


def a_state_machine(*objects: Node | Pod, policy: Policy | None = None) -> StateMachine:
    state_machine = StateMachine(policy or installed.POLICY)
    state_machine.apply(Synced(), NOW)
    for item in objects:
        state_machine.apply(NodeSeen(item) if isinstance(item, Node) else PodSeen(item), NOW)
    return state_machine


def planned_for(changes: Changes) -> list[PodKey]:
    """The pods for which a plan on a replica with these changes buys a node of a group that fits them all."""
    template = structs.replace(a_node("template", cpu="4", memory="16Gi"), scalars=(("pods", 110),))
    group = NodeGroup(name=GroupName("g"), provider="cloud", min_size=0, max_size=9, target=0, instances=(), template=template)
    status = NodeGroupStatus(
        group=group, known=True, ready=(), unready=(), starting=(), coming=0, missing=0, lost=(), leaving=0
    )
    rules = ScaleUpRules(policy=replace(installed.SCALE_UP, pending=replace(installed.PENDING, after_scheduler=False)))
    inquiry = Inquiry(changes=changes, rules=rules, group_status={group.name: status}, now=UnixTime(2e9))
    plans = PlanMaker(lambda: 0.0).make(inquiry)
    return [pod.key for scale_up in plans.scale_ups for pod in scale_up.pods]


def test_what_was_there_before_is_collected_first_and_then_only_what_changed() -> None:
    state_machine = a_state_machine(a_node("n"), a_pod("p"), a_pod("q", on="n"))
    collector = ChangeCollector(state_machine)
    first = collector.rest()
    assert [change.name for change in first.nodes] == ["n"]
    assert sorted(change.uid for change in first.pods) == ["uid-p", "uid-q"]
    assert first.budgets == ()

    assert len(collector) == 0
    state_machine.apply(PodSeen(a_pod("r")), NOW)
    state_machine.apply(BudgetSeen(a_budget("b", allowed=1, app="a")), NOW)
    later = collector.rest()
    assert [change.uid for change in later.pods] == ["uid-r"]
    assert [budget.name for budget in later.budgets or ()] == ["b"]
    assert later.nodes == ()
    assert collector.rest().budgets is None


def test_a_pod_whose_bind_is_under_way_is_on_its_node() -> None:
    pod = a_pod("p")
    state_machine = a_state_machine(a_node("n"), pod)
    collector = ChangeCollector(state_machine)
    collector.rest()
    state_machine.bind(pod.uid, pod.key, NodeName("n"), NOW)
    (reported,) = collector.rest().pods
    assert reported.pod == structs.replace(pod, node=NodeName("n"))

    state_machine.apply(BindEnded(pod.uid, NodeName("n"), "refused", "no"), NOW)
    assert [change.pod for change in collector.rest().pods] == [pod]


def test_a_pod_that_has_more_than_its_requests_counts_by_what_is_reserved() -> None:
    grown = structs.replace(
        a_pod("vm", on="n", cpu="1", memory="1Gi"), vertical=a_vertical(using=amounts("3", "2Gi"), scaling=False)
    )
    collector = ChangeCollector(a_state_machine(a_node("n"), grown))
    (reported,) = collector.rest().pods
    assert reported.pod is not None
    assert reported.pod.kind.requests == amounts("3", "2Gi")


def test_what_is_gone_or_has_ended_is_collected_as_gone() -> None:
    pod, ended = a_pod("p", on="n"), a_pod("e", on="n", ended=True)
    state_machine = a_state_machine(a_node("n"), pod, ended)
    collector = ChangeCollector(state_machine)
    assert {change.uid: change.pod for change in collector.rest().pods} == {pod.uid: pod, ended.uid: None}
    state_machine.apply(PodGone(pod.uid, pod.key), NOW)
    state_machine.apply(NodeGone(NodeName("n")), NOW)
    left = collector.rest()
    assert [(change.name, change.node) for change in left.nodes] == [("n", None)]
    assert [(change.uid, change.pod) for change in left.pods] == [(pod.uid, None)]


def test_system_amounts_are_subtracted_from_a_node() -> None:
    state_machine = a_state_machine(
        a_node("n", cpu="4", memory="16Gi"),
        policy=replace(installed.POLICY, nodes=replace(installed.NODES, system=amounts("1", "32Gi"))),
    )
    (reported,) = ChangeCollector(state_machine).rest().nodes
    assert reported.node is not None
    assert reported.node.allocatable == amounts("3", "0")
    assert reported.seen is not None
    assert reported.seen.allocatable == amounts("4", "16Gi")


def test_pods_that_count_as_shown_are_collected_once_and_others_in_both_forms() -> None:
    plain, grown = (
        a_pod("p", on="n"),
        structs.replace(a_pod("vm", on="n"), vertical=a_vertical(using=amounts("3", "2Gi"), scaling=False)),
    )
    bound = a_pod("b")
    doubted = a_node("doubted")
    state_machine = a_state_machine(a_node("n", cpu="16", memory="64Gi"), doubted, plain, grown, bound)
    state_machine.bind(bound.uid, bound.key, NodeName("n"), NOW)
    state_machine.state.quarantine.put(NodeName("doubted"), "a test says so", NOW)
    changes = ChangeCollector(state_machine).rest()
    assert {change.uid: change.seen for change in changes.pods} == {plain.uid: None, grown.uid: grown, bound.uid: bound}
    assert [(change.name, change.seen) for change in changes.nodes] == [("doubted", doubted), ("n", None)]
    assert [change.node.unschedulable for change in changes.nodes if change.node is not None] == [True, False]


def test_a_part_at_a_time_collects_everything_once() -> None:
    state_machine = a_state_machine(a_node("n"), *(a_pod(f"p{number}") for number in range(10)))
    collector = ChangeCollector(state_machine)
    nodes, pods = collector.some(4)
    assert (len(nodes), len(pods)) == (1, 4)
    state_machine.apply(PodGone(pods[0].uid, PodKey("default", "p0")), NOW)
    reported = collector.rest((nodes, pods))
    assert {change.uid for change in reported.pods} == {f"uid-p{number}" for number in range(10)}
    assert {uid: pod for uid, pod, _ in reported.pods}[pods[0].uid] is None, "what changed meanwhile comes once more, last"
    assert [change.name for change in reported.nodes] == ["n"]


def test_few_takes_the_changed_pods_where_nothing_else_changed() -> None:
    state_machine = a_state_machine(a_node("n"), a_pod("p"), a_pod("q", on="n"))
    collector = ChangeCollector(state_machine)
    assert collector.few(10) is None, "the node has not been collected"
    collector.rest()
    assert collector.few(10) == []

    r, s = a_pod("r"), a_pod("s", on="n")
    state_machine.apply(PodSeen(s), NOW)
    state_machine.apply(PodSeen(r), NOW)
    assert collector.few(1) is None, "more pods than may be taken"
    assert len(collector) == 2, "nothing is taken"
    assert [(change.uid, change.pod) for change in collector.few(2) or ()] == [(r.uid, r), (s.uid, s)]
    assert (len(collector), collector.few(2)) == (0, [])

    state_machine.apply(PodGone(r.uid, r.key), NOW)
    assert [(change.uid, change.pod) for change in collector.few(2) or ()] == [(r.uid, None)]


def test_few_takes_nothing_where_a_node_or_a_budget_changed_or_a_part_is_collected() -> None:
    state_machine = a_state_machine(a_node("n"), a_pod("p"))
    collector = ChangeCollector(state_machine)
    collector.rest()
    state_machine.apply(PodSeen(a_pod("q")), NOW)

    state_machine.apply(NodeSeen(a_node("n", cpu="8")), NOW)
    assert collector.few(10) is None
    assert [change.uid for change in collector.rest().pods] == ["uid-q"], "nothing was taken before"

    state_machine.apply(BudgetSeen(a_budget("b", allowed=1, app="a")), NOW)
    assert collector.few(10) is None
    collector.rest()

    for name in ("r", "s"):
        state_machine.apply(PodSeen(a_pod(name)), NOW)
    collector.some(1)
    assert collector.few(10) is None, "the other pod of the set that `some` began is still to be collected"
    assert len(collector.rest().pods) == 1


def test_no_node_is_bought_for_a_preemptor_whose_victims_are_leaving() -> None:
    """Its room comes from them. The plan, made in another process, knows it from the collected changes alone."""
    victim, preemptor, other = a_pod("v", on="n", cpu="3"), a_pod("p", cpu="2", priority=9), a_pod("other", cpu="2")
    cluster = Cluster(a_node("n", cpu="4"), victim, preemptor, other)
    collector = ChangeCollector(cluster.state_machine)
    assert cluster.filter(preemptor) == [Reason.GATED]
    changes = collector.rest()
    assert changes.awaiting_victims == {preemptor.uid}
    assert planned_for(changes) == [other.key]
