"""What the dashboard's observer notes: placements, waits, figures over time, and problems with their age."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from msgspec import structs

from slackwater.cluster.nodegroups.status import Grow
from slackwater.controllers.preemption.victims import RunnerUp
from slackwater.controllers.scaleup.outcome import ScaleUp
from slackwater.model.effects import Evict
from slackwater.model.events import NodeSeen, PodGone, PodSeen
from slackwater.model.eviction_facts import EvictionFacts, Owner
from slackwater.model.ids import Generation, Instant, NodeName, PodKey, PodUid, UnixTime
from slackwater.model.nodegroups import GroupName
from slackwater.ports.protocols import Outcome
from slackwater.runtime.autoscaler.loop_record import LoopRecord, NeededBy
from slackwater.runtime.dashboard.node_use import NodeUse
from slackwater.runtime.dashboard.observer import DashboardObserver
from slackwater.runtime.dashboard.series import Series
from slackwater.runtime.decision_log import DecisionLog
from slackwater.runtime.state_machine import StateMachine
from tests.support import installed
from tests.support.builders import a_node, a_pod, amounts
from tests.support.dashboards import a_loop

pytestmark = pytest.mark.anyio


class Observing:
    def __init__(self) -> None:
        self.state_machine = StateMachine(replace(installed.POLICY, bind=False))
        self.now = 1_700_000_000.0  # before the builders' pods were created
        self.log = DecisionLog(lambda: self.now)
        self.use: NodeUse | None = None
        self.about: dict[str, Any] = {"status": {}, "autoscaler": None}
        self.observer = DashboardObserver(
            self.state_machine,
            self.log,
            self.about.copy,
            node_use=lambda: self.use,
            clock=lambda: Instant(self.now),
            wall=lambda: self.now,
        )

    async def sees(self, *events: object, seconds: float = 1.0) -> None:
        for event in events:
            self.state_machine.apply(event, Instant(self.now))  # type: ignore[arg-type]
        self.now += seconds
        await self.observer.observe()


async def test_the_dashboard_shows_how_a_pod_waited_and_was_placed() -> None:
    observing = Observing()
    await observing.sees(NodeSeen(a_node("n", cpu="4")), PodSeen(a_pod("p")))
    await observing.sees(PodSeen(a_pod("p", message="0/1 nodes are available: 1 Insufficient cpu.")))
    await observing.sees(PodSeen(a_pod("p", message="0/2 nodes are available: 2 Insufficient cpu.")))
    await observing.sees(PodSeen(a_pod("p", on="n")))
    story = observing.log.story("pods", "default/p", 9)
    assert [step.kind for step in story] == ["wait", "bind"], "a message with other numbers is no news"
    assert [step.name for step in observing.log.story("nodes", "n", 9)] == ["default/p"]


async def test_a_pod_that_goes_while_it_waits_is_noted() -> None:
    observing = Observing()
    pod = a_pod("p")
    await observing.sees(PodSeen(pod))
    await observing.sees(PodGone(pod.uid, pod.key))
    assert [step.text for step in observing.log.story("pods", "default/p", 9)] == ["gone before it had a node"]


async def test_the_placement_of_a_daemon_sets_pod_says_so_and_others_do_not() -> None:
    observing = Observing()
    for name, kind in (("proxy", "DaemonSet"), ("web", "ReplicaSet")):
        pod = structs.replace(a_pod(name), eviction_facts=EvictionFacts(owner=Owner("apps", kind, f"the-{name}")))
        await observing.sees(PodSeen(pod))
        await observing.sees(PodSeen(structs.replace(pod, node=NodeName("n"))))
    placed = [step.related for step in observing.log.story("nodes", "n", 9)]
    assert placed == [("nodes n", "daemonset the-proxy"), ("nodes n",)]


async def test_a_problem_keeps_its_first_time_and_goes_with_its_cause() -> None:
    observing = Observing()
    await observing.sees(NodeSeen(a_node("n", cpu="4")))
    assert observing.observer.problems == []
    observing.state_machine.state.quarantine.put(NodeName("n"), "sums differ", Instant(observing.now))
    want_since = int(observing.now)
    await observing.sees(seconds=30)
    await observing.sees(seconds=30)
    [problem] = observing.observer.problems
    assert (problem.code, problem.grave, problem.since) == ("quarantine", True, want_since)
    observing.state_machine.state.quarantine.lift(NodeName("n"))
    await observing.sees()
    assert observing.observer.problems == []


async def test_a_preemption_is_shown_for_its_preemptor_and_for_each_victim() -> None:
    observing = Observing()
    victim, preemptor = a_pod("victim", on="n", cpu="3"), a_pod("urgent", cpu="3", priority=9)
    await observing.sees(NodeSeen(a_node("n", cpu="4")), PodSeen(victim), PodSeen(preemptor))
    policy, now = observing.state_machine.policy.preemption, Instant(observing.now)
    observing.state_machine.preemptions.accept_preemption(preemptor, NodeName("n"), {victim.uid}, policy, now)
    await observing.sees()
    await observing.sees()
    want = ["on n, these leave for it: default/victim"]
    assert [step.text for step in observing.log.story("pods", "default/urgent", 9)] == want
    assert [step.text for step in observing.log.story("pods", "default/victim", 9) if step.kind == "preempt"] == want


def test_steps_are_folded_and_the_rings_are_bounded() -> None:
    series = Series()
    for second in range(2 * 3600):
        series.take(UnixTime(float(second)), {"pending": second % 15, "binds": 1, "cpuPermille": 500})
    hour, day = series.answer().hour, series.answer().day
    assert {len(points) for points in hour.points.values()} == {240}
    assert (set(hour.points["binds"]), set(hour.points["pending"])) == ({15}, {14})
    assert (len(day.points["binds"]), day.points["binds"][0], day.points["cpuPermille"][0]) == (23, 300, 500)


def test_a_time_without_values_is_a_gap() -> None:
    series = Series()
    for at in (0.0, 15.0, 75.0, 90.0):
        series.take(UnixTime(at), {"nodes": 3})
    assert series.answer().hour.points["nodes"] == [3, 3, None, None, None, 3]


async def test_what_nodes_use_is_a_share_of_all_that_they_have_and_unknown_before_it_was_read() -> None:
    observing = Observing()
    await observing.sees(NodeSeen(a_node("n", cpu="4", memory="8Gi")), NodeSeen(a_node("m", cpu="4", memory="8Gi")), seconds=15)
    observing.use = NodeUse({}, amounts("2", "4Gi"))
    await observing.sees(seconds=15)
    await observing.sees(seconds=15)
    points = observing.observer.series.answer().hour.points
    assert (points["cpuUsedPermille"], points["memoryUsedPermille"]) == ([None, 250], [None, 250])


def test_a_figure_that_nobody_knows_is_a_gap_too() -> None:
    series = Series()
    for hour, cost in enumerate((5_000_000, None, 7_000_000, 7_000_000)):
        series.take(UnixTime(3600.0 * hour), {"costMicros": cost, "nodes": 1})
    week = series.answer().week
    assert (week.points["costMicros"], week.points["nodes"]) == ([5_000_000, None, 7_000_000], [1, 1, 1])


def test_the_series_are_encoded_once_a_step() -> None:
    series = Series()
    series.take(UnixTime(0.0), {"nodes": 1})
    before = series.encoded()
    series.take(UnixTime(14.0), {"nodes": 2})
    assert series.encoded() is before
    series.take(UnixTime(15.0), {"nodes": 2})
    assert series.encoded() == msgspec.json.encode(series.answer()) != before


async def test_evictions_that_were_refused_are_not_counted_and_money_is_that_of_the_last_loop() -> None:
    observing = Observing()
    await observing.sees()
    eviction = Evict(uid=PodUid("u"), key=PodKey("default", "p"), node=NodeName("n"))
    for outcome in (Outcome("again"), Outcome("refused"), Outcome("done")):
        observing.log.note(eviction, outcome)
    observing.about["autoscaler"] = a_loop()
    await observing.sees(seconds=15)
    await observing.sees(seconds=15)
    points = observing.observer.series.answer().hour.points
    assert (sum(filter(None, points["evictions"])), points["costMicros"][-1]) == (1, 7_680_000)


async def test_a_preemption_says_which_nodes_were_considered_instead() -> None:
    observing = Observing()
    victim, preemptor = a_pod("victim", on="n", cpu="3"), a_pod("urgent", cpu="3", priority=9)
    await observing.sees(NodeSeen(a_node("n", cpu="4")), PodSeen(victim), PodSeen(preemptor))
    policy, now = observing.state_machine.policy.preemption, Instant(observing.now)
    others = (RunnerUp(node=NodeName("m"), n_victims=2, why="instead of 1"),)
    observing.state_machine.preemptions.accept_preemption(preemptor, NodeName("n"), {victim.uid}, policy, now, others=others)
    await observing.sees()
    [step] = [step for step in observing.log.story("pods", "default/urgent", 9) if step.kind == "preempt"]
    assert step.instead == "m: 2 victims, instead of 1"


def test_a_scale_up_names_its_pods_and_is_shown_for_each_of_them() -> None:
    pods = tuple(a_pod(f"p{number}") for number in range(5))
    needed_by = {
        GroupName("a"): NeededBy.of(ScaleUp(group=GroupName("a"), nodes=(pods[:2], pods[2:]))),
        GroupName("least"): NeededBy.of(ScaleUp(group=GroupName("least"), nodes=((),))),
    }
    asked = [(Grow(group=name, provider="kwok", seen=1, to=3), None) for name in needed_by]
    log = DecisionLog(lambda: 0.0)
    log.loop(
        LoopRecord(
            number=1, at=UnixTime(0.0), instant=Instant(0.0), generation=Generation(1), asked=[*asked], needed_by=needed_by
        )
    )
    least, grown = log.newest(9)
    assert grown.text == "from 1 to 3 nodes, for default/p0, default/p1, default/p2 and 2 more"
    assert least.text == "from 1 to 3 nodes, for its minimum size"
    assert log.story("pods", "default/p1", 9) == [grown]


def test_what_each_loop_withholds_again_is_one_decision_with_its_times() -> None:
    log = DecisionLog(lambda: 0.0)

    def loop(number: int, *targets: int) -> list[str]:
        calls = [Grow(group=GroupName(f"g{to}"), provider="kwok", seen=1, to=to) for to in targets]
        record = LoopRecord(number=number, at=UnixTime(10.0 * number), generation=Generation(1), withheld=[*calls])
        return [new.name for new in log.loop(record)]

    assert [loop(1, 3), loop(2, 3, 4), loop(3, 3), loop(4), loop(5, 3)] == [["g3"], ["g4"], [], [], ["g3"]]
    seen = [(each.name, each.at, each.times, each.until, each.verdict) for each in log.newest(9)]
    assert seen == [
        ("g3", 50.0, 1, 0.0, "withheld"),
        ("g4", 20.0, 1, 0.0, "withheld"),
        ("g3", 10.0, 3, 30.0, "withheld"),
    ]
    assert [each.text for each in log.newest(1)] == ["would grow from 1 to 3 nodes"]
    assert (log.number, log.counts["grow"]) == (3, 3)
