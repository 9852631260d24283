"""Which pending pods count, for how long others wait, and who is looked at first."""

from dataclasses import replace

import pytest
from msgspec import structs

from slackwater.controllers.scaleup.pending import Demand, PendingRules, pending_demand
from slackwater.model.eviction_facts import EvictionFacts, Owner
from slackwater.model.ids import NodeName, PodUid, UnixTime
from slackwater.model.objects import Pod
from slackwater.model.pod_constraints import PodConstraints
from tests.support import installed
from tests.support.builders import a_pod
from tests.support.scalingup import demand_of, names

BEGAN = UnixTime(1_767_225_600.0)  # 2026-01-01T00:00:00Z


def made_at(pod: Pod, second: int, *, owner: str | None = "rs", gpu: bool = False, delay: float | None = None) -> Pod:
    kind = replace(pod.kind, pod_constraints=PodConstraints(scalars=(("nvidia.com/gpu", 1),))) if gpu else pod.kind
    eviction_facts = EvictionFacts(owner=None if owner is None else Owner("apps", "ReplicaSet", owner))
    created = f"2026-01-01T00:00:{second:02}Z"
    return structs.replace(pod, kind=kind, eviction_facts=eviction_facts, created_at=created, scale_up_delay_seconds=delay)


def counted_at(second: float, *pods: Pod, rules: PendingRules | None = None) -> Demand:
    return pending_demand(pods, rules=rules or replace(installed.PENDING, after_scheduler=False), now=UnixTime(BEGAN + second))


@pytest.mark.parametrize(
    ("pod", "want"),
    [
        (structs.replace(a_pod("p"), gates=("example.com/wait",)), "gated: example.com/wait"),
        (a_pod("p", priority=-11), "expendable: its priority -11 is below -10"),
        (
            structs.replace(a_pod("p"), eviction_facts=EvictionFacts(owner=Owner("apps", "DaemonSet", "d"))),
            "it comes with its node",
        ),
        (structs.replace(a_pod("p"), eviction_facts=EvictionFacts(daemon=True)), "it comes with its node"),
        (structs.replace(a_pod("p"), vertical_problem="no number"), "its annotations cannot be read: no number"),
        (structs.replace(a_pod("p"), provisioning_request="pr"), "ProvisioningRequest pr provides its nodes"),
        (a_pod("p", deleting=True), "it has a node, has ended or is being deleted"),
        (a_pod("p", on="n"), "it has a node, has ended or is being deleted"),
    ],
    ids=["gated", "expendable", "DaemonSet's", "said to be a DaemonSet's", "unreadable", "provisioned", "leaving", "placed"],
)
def test_pods_that_need_no_node_are_passed_over_with_the_reason(pod: Pod, want: str) -> None:
    found = demand_of([pod])
    assert (found.counted, [each.why for each in found.passed_over]) == ((), [want])


def test_the_cut_off_itself_is_not_expendable() -> None:
    assert names(demand_of([a_pod("p", priority=-10)]).counted) == ["p"]


def test_a_pod_with_room_reserved_is_not_counted() -> None:
    found = pending_demand(
        [a_pod("p"), a_pod("q")], rules=replace(installed.PENDING, after_scheduler=False), now=None, reserved={PodUid("uid-p")}
    )
    assert names(found.counted) == ["q"]


def test_a_nominated_pod_has_a_node_in_view_whatever_its_age() -> None:
    pod = structs.replace(made_at(a_pod("p"), 0), nominated_node=NodeName("n"))
    found = counted_at(0, pod)
    assert (names(found.nominated), names(found.counted)) == (["p"], [])


def test_a_pod_counts_once_the_scheduler_has_looked_at_it() -> None:
    rules = replace(installed.PENDING, bypassed_scheduler_names=())
    new, seen = made_at(a_pod("new"), 0), made_at(a_pod("seen", message="0/3 nodes are available"), 0)
    found = counted_at(10, new, seen, rules=rules)
    assert names(found.counted) == ["seen"]
    assert [each.why for each in found.passed_over] == ["the scheduler has not said yet that it fits nowhere"]


def of_scheduler(pod: Pod, name: str) -> Pod:
    return structs.replace(pod, kind=replace(pod.kind, scheduler_name=name))


@pytest.mark.parametrize(("second", "want"), [(4.9, []), (5.0, ["ours"])])
def test_a_pod_of_a_bypassed_scheduler_counts_untried_once_it_is_a_little_older(second: float, want: list[str]) -> None:
    rules = replace(installed.PENDING, bypassed_scheduler_names=("slackwater",))
    ours = of_scheduler(made_at(a_pod("ours"), 0), "slackwater")
    other = of_scheduler(made_at(a_pod("other"), 0), "default-scheduler")
    found = counted_at(second, ours, other, rules=rules)
    assert names(found.counted) == want
    assert found.again_at == (None if want else BEGAN + 5)


@pytest.mark.parametrize(
    ("priority", "preempts", "running_pods", "counts"),
    [(10, True, 0, False), (10, False, 0, True), (0, True, 0, True), (10, True, None, True)],
    ids=["above a running one", "never preempts", "of the same priority", "none runs"],
)
def test_a_pod_that_might_preempt_is_tried_first(priority: int, preempts: bool, running_pods: int | None, counts: bool) -> None:
    pod = of_scheduler(made_at(a_pod("p", priority=priority), 0), "slackwater")
    pod = structs.replace(pod, kind=replace(pod.kind, preempts=preempts))
    rules = replace(installed.PENDING, bypassed_scheduler_names=("slackwater",))
    found = pending_demand([pod], rules=rules, now=UnixTime(BEGAN + 60), preemptible=running_pods)
    assert bool(found.counted) is counts
    tried = structs.replace(pod, unschedulable_message="0/3 nodes are available")
    assert pending_demand([tried], rules=rules, now=UnixTime(BEGAN + 60), preemptible=running_pods).counted


@pytest.mark.parametrize(("second", "want"), [(3.9, []), (4.0, ["a", "b"])])
def test_a_burst_waits_until_its_first_pod_has_settled(second: float, want: list[str]) -> None:
    found = counted_at(second, made_at(a_pod("a"), 2), made_at(a_pod("b"), 3))
    assert names(found.counted) == want
    assert found.again_at == (None if want else BEGAN + 4)


@pytest.mark.parametrize(("second", "want"), [(29.0, ["plain"]), (30.0, ["gpu", "plain"])])
def test_pods_with_a_gpu_wait_longer_and_hold_up_no_other_pod(second: float, want: list[str]) -> None:
    found = counted_at(second, made_at(a_pod("gpu"), 0, gpu=True), made_at(a_pod("plain"), 5))
    assert names(found.counted) == want


def test_an_old_pod_of_another_controller_does_not_hide_a_burst() -> None:
    old, new = made_at(a_pod("old"), 0, owner="old"), made_at(a_pod("new"), 50, owner="new")
    assert names(counted_at(51, old, new).counted) == ["old"]


@pytest.mark.parametrize(
    ("rules", "delay", "want"),
    [
        (replace(installed.PENDING, after_scheduler=False, new_pod_delay=20), None, 20),
        (replace(installed.PENDING, after_scheduler=False), 30.0, 30),
        (replace(installed.PENDING, after_scheduler=False, new_pod_delay=20), 10.0, 20),
    ],
    ids=["for all", "its own", "its own cannot be shorter"],
)
def test_young_pods_wait(rules: PendingRules, delay: float | None, want: int) -> None:
    pod = made_at(a_pod("p"), 0, delay=delay)
    assert not counted_at(want - 1, pod, rules=rules).counted
    assert counted_at(want - 1, pod, rules=rules).again_at == BEGAN + want
    assert counted_at(want, pod, rules=rules).counted


def test_the_most_important_and_oldest_are_looked_at_first_and_the_rest_is_named() -> None:
    pods = [made_at(a_pod("young"), 9), made_at(a_pod("old"), 1), made_at(a_pod("high", priority=5), 9)]
    found = pending_demand(pods, rules=replace(installed.PENDING, after_scheduler=False, max_pods=2), now=None)
    assert (names(found.counted), names(found.not_looked_at)) == (["high", "old"], ["young"])


def test_a_manifest_without_a_time_counts() -> None:
    assert counted_at(0, structs.replace(a_pod("p"), created_at="")).counted
