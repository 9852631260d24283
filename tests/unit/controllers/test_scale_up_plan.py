"""What is planned for whom: existing and upcoming nodes first, limits, similar groups, reasons."""

from dataclasses import replace

import pytest
from msgspec import structs

from slackwater.controllers.scaleup.expanders import read_priorities
from slackwater.controllers.scaleup.groups import NodeQuota, SkipReason
from slackwater.controllers.scaleup.outcome import GroupRefusal, ScaleUpPlan
from slackwater.controllers.scaleup.plan import plan_scale_up
from slackwater.model.eviction_facts import EvictionFacts, Owner
from slackwater.model.ids import NodeName, PodUid
from slackwater.model.nodegroups import GroupOptions
from slackwater.model.objects import Node, Pod, Taint
from slackwater.model.pod_constraints import HostPort, PodConstraints, PodTerm, SpreadConstraint
from slackwater.model.reasons import Reason
from slackwater.model.selectors import Requirement
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.node_facts import HOSTNAME
from tests.support import installed
from tests.support.builders import a_node, a_pod
from tests.support.scalingup import a_group, a_template, demand_of, grown, names, planned

ZONE = "topology.kubernetes.io/zone"
APP = (Requirement("app", "In", ("a",)),)


def asking(pod: Pod, **asks: object) -> Pod:
    labelled = structs.replace(pod, labels=(("app", "a"),))
    return structs.replace(labelled, kind=replace(pod.kind, pod_constraints=PodConstraints(**asks)))  # type: ignore[arg-type]


def some(count: int, cpu: str = "1", *, name: str = "p", priority: int = 0) -> list[Pod]:
    return [a_pod(f"{name}{number}", cpu=cpu, priority=priority) for number in range(count)]


def roomy(name: str, cpu: str = "4", **labels: str) -> object:
    return a_template(name, cpu=cpu, labels=labels)


def why_not(plan: ScaleUpPlan, group: str) -> object:
    (unhelpable,) = plan.unhelpable
    reason = {str(name): each for name, each in unhelpable.groups.items()}[group]
    return (reason.reason, reason.words) if isinstance(reason, GroupRefusal) else (reason.kind, reason.text)


def test_pods_that_fit_are_placed_and_the_rest_gets_nodes() -> None:
    node = structs.replace(a_node("n", cpu="2"), scalars=(("pods", 10),))
    plan = planned(some(7), [a_group("g")], nodes=[node])
    assert [(pod.key.name, name) for pod, name in plan.schedulable] == [("p0", "n"), ("p1", "n")]
    assert [names(pods) for pods in plan.scale_ups[0].nodes] == [["p2", "p3", "p4", "p5"], ["p6"]]


def test_upcoming_nodes_count_so_that_no_group_scales_up_twice() -> None:
    plan = planned(some(8), [a_group("g", size=2, upcoming=2)])
    assert (grown(plan), len(plan.schedulable)) == ({}, 8)


def test_a_nominated_pod_holds_its_node_and_requests_none() -> None:
    nominated = structs.replace(a_pod("first", cpu="2"), nominated_node=NodeName("n"))
    node = structs.replace(a_node("n", cpu="2"), scalars=(("pods", 10),))
    plan = planned([nominated, a_pod("second", cpu="1")], [a_group("g")], nodes=[node])
    assert (grown(plan), names([pod for pod, _ in plan.schedulable])) == ({"g": 1}, ["first"])


def test_a_nomination_to_a_node_that_is_gone_is_none() -> None:
    lost = structs.replace(a_pod("lost"), nominated_node=NodeName("gone"))
    assert names(planned([lost, a_pod("other")], [a_group("g")]).scale_ups[0].pods) == ["lost", "other"]


def test_hints_are_tried_before_the_order_of_nodes() -> None:
    nodes = [structs.replace(a_node(name, cpu="1"), scalars=(("pods", 10),)) for name in ("a", "b")]
    plan = planned(some(1), [a_group("g")], nodes=nodes, hints={PodUid("uid-p0"): NodeName("b")})
    assert [name for _, name in plan.schedulable] == ["b"]


def test_daemons_take_their_room_on_new_nodes() -> None:
    daemon = a_pod("daemon", cpu="1")
    assert grown(planned(some(6), [a_group("g", running_pods=[daemon])])) == {"g": 2}
    assert grown(planned(some(6), [a_group("g")])) == {"g": 2}
    assert grown(planned(some(7), [a_group("g", running_pods=[daemon])])) == {"g": 3}


def test_our_own_accounting_has_its_say_on_new_nodes() -> None:
    from slackwater.model.ledger import Ledger
    from slackwater.model.resources import amounts_of

    snapshot = ClusterSnapshot.build([], some(4), ledger=Ledger().columns)
    snapshot.strict_for = None
    policy = replace(installed.SCALE_UP, system=amounts_of((1000, 0)))
    with snapshot.fork():
        plan = plan_scale_up(snapshot, demand_of(some(4)), [a_group("g")], policy=policy, clock=lambda: 0.0)
    assert [len(pods) for pods in plan.scale_ups[0].nodes] == [3, 1]


def test_what_the_chosen_group_does_not_take_goes_to_the_next_in_the_same_plan() -> None:
    gpu = [asking(pod, scalars=(("nvidia.com/gpu", 1),)) for pod in some(3, name="g")]
    groups = [a_group("plain"), a_group("gpus", a_template("t", scalars={"nvidia.com/gpu": 2}))]
    plan = planned([*some(4), *gpu], groups, policy=replace(installed.SCALE_UP, expanders=("most-pods",)))
    found = [pod.uid for scale_up in plan.scale_ups for pod in scale_up.pods]
    assert len(found) == len(set(found)) == 7
    assert grown(plan)["gpus"] == 2


def test_pods_without_a_gpu_request_no_node_with_one_however_well_it_fits() -> None:
    a100 = a_group("a100", a_template("t", cpu="4", memory="4Gi", scalars={"nvidia.com/gpu": 1}))
    plain = a_group("plain", a_template("u", cpu="48", memory="512Gi"))
    assert grown(planned(some(8, "1"), [a100, plain])) == {"plain": 1}


def test_a_pod_of_one_gpu_does_not_request_eight() -> None:
    pod = asking(some(1, "30")[0], scalars=(("nvidia.com/gpu", 1),))
    eight = a_group("eight", a_template("t", cpu="32", memory="64Gi", scalars={"nvidia.com/gpu": 8}))
    one = a_group("one", a_template("u", cpu="96", memory="512Gi", scalars={"nvidia.com/gpu": 1}))
    assert grown(planned([pod], [eight, one])) == {"one": 1}


def test_a_full_group_hands_the_rest_to_the_next() -> None:
    groups = [a_group("a", a_template("t", labels={"x": "1"}), largest=2), a_group("b", a_template("u", labels={"x": "2"}))]
    plan = planned(some(20), groups, policy=replace(installed.SCALE_UP, expanders=("random",), seed=3))
    assert sum(grown(plan).values()) == 5
    assert grown(plan).get("a", 2) == 2


def test_the_maximum_of_a_group_is_said() -> None:
    plan = planned(some(9), [a_group("g", size=1, largest=2)])
    assert (grown(plan), len(plan.unhelpable[0].pods)) == ({"g": 1}, 5)
    assert why_not(plan, "g") == ("limit", "max node group size reached")


def test_a_group_below_its_minimum_is_brought_there_first() -> None:
    plan = planned(some(1), [a_group("g", smallest=3)])
    assert [names(pods) for pods in plan.scale_ups[0].nodes] == [["p0"], [], []]
    assert grown(planned([], [a_group("g", smallest=3, size=3)])) == {}


def test_a_cap_on_nodes_lets_the_more_important_in() -> None:
    pods = [*some(2, "3", name="large"), *some(4, "1", name="small", priority=1)]
    plan = planned(pods, [a_group("g")], policy=replace(installed.SCALE_UP, max_nodes_per_scale_up=1))
    assert names(plan.scale_ups[0].pods) == ["small0", "small1", "small2", "small3"]
    assert why_not(plan, "g") == ("limit", "one plan adds at most 1 nodes")


def test_the_most_important_node_comes_first() -> None:
    pods = [*some(1, "4", name="large"), *some(1, "1", name="small", priority=7)]
    scale_up = planned(pods, [a_group("g")]).scale_ups[0]
    assert [names(node) for node in scale_up.nodes] == [["small0"], ["large0"]]


QUOTAS = [
    ({"nodes": 2}, 1, "nodes"),
    ({"cpu": 12_000}, 2, "cpu"),
    ({"memory": 40 << 30}, 1, "memory"),
    ({"nvidia.com/gpu": 3}, 1, "nvidia.com/gpu"),
    ({"cpu": 3_000}, 0, "cpu"),
]


@pytest.mark.parametrize(("limits", "want", "resource"), QUOTAS, ids=[str(limits) for limits, _, _ in QUOTAS])
def test_the_whole_cluster_has_limits(limits: dict[str, int], want: int, resource: str) -> None:
    node = structs.replace(a_node("n", cpu="4"), scalars=(("nvidia.com/gpu", 1), ("pods", 0)))
    group = a_group("g", a_template("t", scalars={"nvidia.com/gpu": 2}))
    policy = replace(installed.SCALE_UP, quotas=(NodeQuota(name="cluster-wide", limits=limits),))
    plan = planned(some(40), [group], nodes=[node], policy=policy)
    assert plan.n_nodes == want
    assert why_not(plan, "g") == ("limit", f'exceeded quota: "cluster-wide", resources: {resource}')


def test_a_quota_concerns_the_nodes_it_selects() -> None:
    quota = NodeQuota(name="team", limits={"nodes": 1}, selector=(Requirement("team", "In", ("x",)),))
    groups = [a_group("mine", a_template("t", labels={"team": "x"})), a_group("other", a_template("u", labels={"team": "y"}))]
    plan = planned(
        some(40), groups, policy=replace(installed.SCALE_UP, quotas=(quota,), expanders=("priority",), priorities=MINE)
    )
    assert grown(plan) == {"mine": 1, "other": 9}


MINE = read_priorities({10: ["mine"], 1: [".*"]})


def test_similar_groups_grow_alike_from_the_size_they_have() -> None:
    groups = [a_group(f"z{zone}", a_template(f"t{zone}", labels={ZONE: f"z{zone}"}), size=zone) for zone in range(3)]
    assert grown(planned(some(36), groups)) == {"z0": 4, "z1": 3, "z2": 2}


def test_without_balancing_one_group_takes_all() -> None:
    groups = [a_group(f"z{zone}", a_template(f"t{zone}", labels={ZONE: f"z{zone}"})) for zone in range(3)]
    assert list(
        grown(planned(some(36), groups, policy=replace(installed.SCALE_UP, balance_similar_groups=False))).values()
    ) == [9]


@pytest.mark.parametrize(
    "other",
    [
        a_template("t", labels={"kubernetes.io/arch": "arm64"}),
        a_template("t", cpu="5"),
        a_template("t", memory="20Gi"),
        a_template("t", scalars={"nvidia.com/gpu": 1}),
        structs.replace(a_template("t"), taints=(Taint("a", "b", "PreferNoSchedule"),)),
    ],
    ids=["label", "cpu", "memory", "gpu", "taint"],
)
def test_groups_that_differ_are_not_similar(other: object) -> None:
    plan = planned(some(16), [a_group("a"), a_group("b", other)])  # type: ignore[arg-type]
    assert len(plan.scale_ups) == 1


def test_similar_groups_of_different_priority_are_not_balanced() -> None:
    groups = [a_group("other"), a_group("mine")]
    policy = replace(installed.SCALE_UP, expanders=("priority",), priorities=MINE)
    assert grown(planned(some(16), groups, policy=policy)) == {"mine": 4}


def test_a_providers_priority_counts_where_the_users_say_none() -> None:
    groups = [a_group(name, options=GroupOptions(priority=rank)) for name, rank in (("low", 1), ("high", 7), ("none", 0))]
    policy = replace(installed.SCALE_UP, expanders=("priority",))
    assert grown(planned(some(16), groups, policy=policy)) == {"high": 4}
    policy = replace(policy, priorities=read_priorities({10: ["^low$"]}))
    assert grown(planned(some(16), groups, policy=policy)) == {"low": 4}


def test_pods_that_spread_over_zones_get_nodes_in_all_of_them() -> None:
    spread = SpreadConstraint(hard=True, max_skew=1, topology_key=ZONE, selector=APP)
    pods = [asking(pod, spread=(spread,)) for pod in some(12)]
    # A full node in each zone, so that all zones count from the start.
    nodes = [structs.replace(a_node(f"n{zone}", labels={ZONE: f"z{zone}"}), scalars=(("pods", 0),)) for zone in range(3)]
    groups = [a_group(f"z{zone}", a_template(f"t{zone}", labels={ZONE: f"z{zone}"})) for zone in range(3)]
    plan = planned(pods, groups, nodes=nodes)
    assert (grown(plan), plan.unhelpable) == ({"z0": 1, "z1": 1, "z2": 1}, ())


def test_pods_that_keep_apart_get_a_node_each() -> None:
    apart = PodTerm(topology_key=HOSTNAME, selector=APP, namespaces=("default",))
    pods = [asking(pod, anti_affinity=(apart,)) for pod in some(5, "100m")]
    assert grown(planned(pods, [a_group("g")])) == {"g": 5}
    ports = [asking(pod, host_ports=(HostPort("0.0.0.0", "TCP", 80),)) for pod in some(5, "100m")]
    assert grown(planned(ports, [a_group("g")])) == {"g": 5}


def test_a_pod_that_follows_another_is_planned_beside_it() -> None:
    near = PodTerm(topology_key=ZONE, selector=APP, namespaces=("default",))
    follower = asking(a_pod("follower", cpu="4"), affinity=(near,))
    follower = structs.replace(follower, labels=())
    leader = structs.replace(a_pod("leader", cpu="1"), labels=(("app", "a"),))
    plan = planned([follower, leader], [a_group("g", a_template("t", labels={ZONE: "z"}))])
    assert (grown(plan), plan.unhelpable) == ({"g": 2}, ())


NEAR = PodTerm(topology_key=HOSTNAME, selector=APP, namespaces=("default",))


def test_pods_that_need_one_another_go_where_all_of_them_fit() -> None:
    scraps = [_scrap(f"n{number}", cpu) for number, cpu in enumerate(("2", "3", "1"))]
    pods = [asking(pod, affinity=(NEAR,)) for pod in some(3)]
    plan = planned(pods, [a_group("g")], nodes=scraps)
    assert ({name for _, name in plan.schedulable}, grown(plan)) == ({"n1"}, {})
    plan = planned(pods, [a_group("g")], nodes=scraps[::2])
    assert (plan.schedulable, grown(plan), plan.unhelpable) == ((), {"g": 1}, ())
    small, large = a_group("small", a_template("s", cpu="2")), a_group("large", a_template("l", cpu="32"))
    assert grown(planned(pods, [small, large], nodes=scraps[::2])) == {"large": 1}


def _scrap(name: str, cpu: str) -> Node:
    return structs.replace(a_node(name, cpu=cpu, labels={HOSTNAME: name}), scalars=(("pods", 10),))


def test_as_many_as_possible_of_pods_that_need_one_another_are_placed_where_no_node_takes_all() -> None:
    pods = [asking(pod, affinity=(NEAR,)) for pod in some(6)]
    plan = planned(pods, [a_group("g")], nodes=[_scrap("n", "2")])
    assert (len(plan.schedulable), grown(plan), len(plan.unhelpable[0].pods)) == (2, {}, 4)
    assert [len(on) for on in planned(pods, [a_group("g")]).scale_ups[0].nodes] == [4]


def test_each_group_says_why_it_does_not_help() -> None:
    groups = [
        a_group("small"),
        a_group("tainted", structs.replace(a_template("t", cpu="16"), taints=(Taint("a", "b", "NoSchedule"),))),
        a_group("off", skip_reason=SkipReason(kind="switched-off", text="the group is switched off")),
        replace(a_group("unknown"), template=None),
    ]
    plan = planned(some(1, "8"), groups)
    assert why_not(plan, "small") == (Reason.RESOURCES_ABOVE_NODE, ("Insufficient cpu",))
    assert why_not(plan, "tainted") == (Reason.TAINT_NOT_TOLERATED, ("node(s) had untolerated taint(s)",))
    assert why_not(plan, "off") == ("switched-off", "the group is switched off")
    assert why_not(plan, "unknown") == ("no-template", "nobody knows what a node of the group looks like")


def test_a_group_that_is_all_or_nothing_grows_to_its_maximum_or_not_at_all() -> None:
    whole = a_group("g", largest=4, options=GroupOptions(all_or_nothing=True))
    assert [len(pods) for pods in planned(some(5), [whole]).scale_ups[0].nodes] == [4, 1, 0, 0]
    plan = planned(some(5), [whole], policy=replace(installed.SCALE_UP, max_nodes_per_scale_up=3))
    assert (grown(plan), len(plan.unhelpable[0].pods)) == ({}, 5)


def test_what_was_found_when_time_ran_out_is_used() -> None:
    ticks = iter(range(1000))
    pods = [a_pod(f"p{number}", cpu=f"{1000 + number}m") for number in range(50)]
    snapshot = ClusterSnapshot.build([], pods)
    policy = replace(installed.SCALE_UP, max_planning_time=20, plan_seconds=0)
    with snapshot.fork():
        plan = plan_scale_up(snapshot, demand_of(pods), [a_group("g")], policy=policy, clock=lambda: float(next(ticks)))
    assert 0 < len(plan.scale_ups[0].pods) < 50
    assert {reason.kind for each in plan.unhelpable for reason in each.groups.values() if isinstance(reason, SkipReason)} == {
        "time"
    }


def test_pods_of_a_daemon_set_never_request_nodes() -> None:
    pod = structs.replace(a_pod("d"), eviction_facts=EvictionFacts(owner=Owner("apps", "DaemonSet", "d")))
    plan = planned([pod], [a_group("g")])
    assert (grown(plan), [each.pod.key.name for each in plan.passed_over]) == ({}, ["d"])
