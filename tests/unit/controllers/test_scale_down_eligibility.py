"""Which nodes may be tried: each reason of the list, and how full a node is."""

from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from slackwater.controllers.scaledown.policy import GroupPolicy
from slackwater.controllers.scaledown.state import ScaleDownState
from slackwater.model.eviction_facts import Owner
from slackwater.model.ids import NodeName
from slackwater.model.nodegroups import GroupOptions, Instance, InstanceId
from slackwater.model.objects import Taint
from slackwater.model.pod_constraints import Kind, PodConstraints
from tests.support import installed
from tests.support.builders import amounts
from tests.support.removing import NOW, POOL, a_group, a_scene, kept, machine, planned, removable, replica

TAINT = "ToBeDeletedByClusterAutoscaler"


def tainted(seconds_ago: float) -> Taint:
    return Taint(TAINT, str(int(NOW - seconds_ago)), "NoSchedule")


@pytest.mark.parametrize(
    ("node", "policy", "want"),
    [
        ({"taints": (tainted(10),)}, {}, "CurrentlyBeingDeleted"),
        ({"taints": (tainted(300),)}, {}, None),
        ({"keep": "its annotation"}, {}, "ScaleDownDisabledAnnotation"),
        ({"ready": False}, {}, None),
        ({"ready": False}, {"unready_enabled": False}, "ScaleDownUnreadyDisabled"),
        ({}, {"groups": {POOL: GroupPolicy(enabled=False)}}, "ScaleDownDisabledForGroup"),
        ({}, {"minimum": replace(installed.MINIMUM, nodes=1)}, "MinimalResourceLimitExceeded"),
        ({}, {"minimum": replace(installed.MINIMUM, cpu=4000)}, "MinimalResourceLimitExceeded"),
        ({}, {"minimum": replace(installed.MINIMUM, memory=64 << 30)}, "MinimalResourceLimitExceeded"),
        ({}, {"minimum": replace(installed.MINIMUM, nodes=0, cpu=0)}, None),
    ],
)
def test_an_empty_node_goes_or_says_why_not(node: dict[str, Any], policy: dict[str, Any], want: str | None) -> None:
    plan = planned(a_scene([machine("n1", **node)]), policy=replace(installed.SCALE_DOWN, **policy))
    assert kept(plan) == ({} if want is None else {"n1": want})
    assert removable(plan) == (["n1"] if want is None else [])


def test_only_ready_nodes_count_for_a_minimum() -> None:
    """Two machines of the target never became nodes, and one node is not ready: the group is at its minimum already."""
    nodes = [machine("n1"), machine("n2"), machine("n3"), machine("down", ready=False)]
    plan = planned(a_scene(nodes, groups=[a_group(nodes, smallest=3, missing=2)]))
    assert (removable(plan), set(kept(plan).values())) == (["down"], {"NodeGroupMinSizeReached"})
    plan = planned(a_scene(nodes, groups=[a_group(nodes, smallest=2, missing=2)]))
    assert removable(plan) == ["down", "n1"]


def test_a_node_of_no_group_is_not_ours_to_remove() -> None:
    plan = planned(a_scene([machine("n1"), machine("n2")], group_of={"n2": POOL}))
    assert (kept(plan), removable(plan)) == ({"n1": "NotAutoscaled"}, ["n2"])


def test_a_node_whose_deletion_the_provider_has_taken_is_no_longer_part_of_the_target() -> None:
    nodes = [machine("n1"), machine("n2"), machine("n3", provider_id="kwok://n3")]
    leaving = Instance(id=InstanceId("kwok://n3"), state="deleting")
    group = replace(a_group(nodes[:2], smallest=1), instances=(leaving,))
    plan = planned(a_scene(nodes, groups=[group]), ScaleDownState(deleted_set={NodeName("n3"): NOW}))
    assert removable(plan) == ["n1"]


@pytest.mark.parametrize(("cpu", "goes"), [("2", True), ("2001m", False)])
def test_utilisation_equal_to_the_threshold_is_low_enough(cpu: str, goes: bool) -> None:
    plan = planned(a_scene([machine("n1"), machine("n2", "64", keep="its annotation")], [replica("a", "n1", cpu)]))
    assert ("n1" in removable(plan)) == goes
    if not goes:
        assert kept(plan)["n1"] == "NotUnderutilized"
        assert plan.kept[0].detail == "cpu 50.0%, at most 50.0%"


def test_the_larger_share_of_cpu_and_memory_counts() -> None:
    pod = replica("a", "n1", "100m")
    pod = structs.replace(pod, kind=replace(pod.kind, requests=amounts("100m", "40Gi")))
    plan = planned(a_scene([machine("n1")], [pod]))
    assert plan.kept[0].detail == "memory 62.5%, at most 50.0%"


def test_the_configuration_the_provider_and_all_groups_are_asked_in_this_order() -> None:
    nodes, pods = [machine("n1"), machine("n2", "64", keep="its annotation")], [replica("a", "n1", "1")]
    strict = GroupOptions(utilization_threshold=0.2)
    said = [a_group(nodes, options=strict)]
    assert removable(planned(a_scene(nodes, pods))) == ["n1"]
    assert kept(planned(a_scene(nodes, pods, groups=said)))["n1"] == "NotUnderutilized"
    own = replace(installed.SCALE_DOWN, groups={POOL: GroupPolicy(utilization_threshold=0.3)})
    assert removable(planned(a_scene(nodes, pods, groups=said), policy=own)) == ["n1"]


def test_daemon_sets_pods_count_unless_they_are_to_be_ignored() -> None:
    daemon = replica("daemon", "n1", "2500m", owner=Owner("apps", "DaemonSet", "agent"))
    scenario = a_scene([machine("n1"), machine("n2")], [daemon])
    assert kept(planned(scenario))["n1"] == "NotUnderutilized"
    assert "n1" in removable(planned(scenario, policy=replace(installed.SCALE_DOWN, ignore_daemon_sets_utilization=True)))


def test_a_node_with_graphics_cards_is_as_full_as_its_cards() -> None:
    with_cards = structs.replace(machine("n1"), scalars=(("nvidia.com/gpu", 4), ("pods", 110)))
    busy = replica("a", "n1", "3500m")
    card = PodConstraints(scalars=(("nvidia.com/gpu", 3),))
    both = structs.replace(busy, kind=Kind(namespace="default", requests=amounts("1"), pod_constraints=card))
    roomy = structs.replace(machine("n2", "64", keep="its annotation"), scalars=(("nvidia.com/gpu", 8), ("pods", 110)))
    assert "n1" in removable(planned(a_scene([with_cards, roomy], [busy])))
    plan = planned(a_scene([with_cards, roomy], [both]))
    assert plan.kept[0].detail == "nvidia.com/gpu 75.0%, at most 50.0%"


def test_a_node_waits_for_pods_that_run_to_their_end_and_is_a_candidate_meanwhile() -> None:
    from slackwater.model.eviction_facts import EvictionFacts

    job = structs.replace(replica("job", "n1"), eviction_facts=EvictionFacts(safe_to_evict="on-completion"))
    plan = planned(a_scene([machine("n1")], [job]))
    assert [(found.node, found.awaited, found.empty) for found in plan.removable] == [("n1", (job.key,), False)]
