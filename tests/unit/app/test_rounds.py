"""The rounds that `slackwater worth` plays: laws that hold at every step, on clusters drawn by a seed."""

import json
import random
from collections import Counter
from typing import Any

import msgspec
import pytest

from slackwater.app.offline.cluster import Cluster, read_cluster
from slackwater.app.rounds.engine import Played, Rounds, play
from slackwater.app.rounds.happened import Happened, RemovalBegan
from slackwater.app.rounds.virtual_cluster import VirtualCluster
from slackwater.app.rounds.virtual_drains import Pace
from slackwater.app.settings import Settings, loads
from slackwater.fit.feasible_nodes import feasible
from slackwater.model.ids import NodeName, PodKey, UnixTime
from slackwater.model.nodegroups import GroupName
from slackwater.model.objects import Pod
from slackwater_protocol.names import TO_BE_DELETED_TAINT
from tests.support.manifests import GROUP, Obj, node_labels, node_manifest, pod_manifest

START = UnixTime(1_800_000_000.0)
DAYS = 30 * 86_400.0
READY = {"conditions": [{"type": "Ready", "status": "True"}]}
HEAD = {"apiVersion": "config.slackwater.dev/v1alpha1", "kind": "SlackwaterConfiguration"}


def settings_with(**autoscaler: Any) -> Settings:
    return loads(json.dumps({**HEAD, "autoscaler": autoscaler}), source="test")


def a_cluster(seed: int, *, nodes: int = 16, workloads: int = 8) -> Cluster:
    """Half-empty nodes in two zones, with budgets, anti-affinity, spread, and pods that nobody may move."""
    rng, items = random.Random(seed), list[Obj]()
    names = [f"n-{at:02}" for at in range(nodes)]
    for at, name in enumerate(names):
        labels = {**node_labels(name, rng.choice(["small", "large"])), "topology.kubernetes.io/zone": "ab"[at % 2]}
        items.append(node_manifest(name, cpu="8", labels=labels, status=READY))
    free = dict.fromkeys(names, 7)
    for at in range(workloads):
        app, replicas = f"app-{at}", rng.randint(1, 6)
        own = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": app, "controller": True, "uid": app}
        meta: Obj = {"labels": {"app": app}, "ownerReferences": [own] if at % 6 != 5 else []}
        chosen = {"labelSelector": {"matchLabels": {"app": app}}}
        spec: Obj = {}
        if at % 3 == 0:
            term = {**chosen, "topologyKey": "kubernetes.io/hostname"}
            spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        if at % 4 == 1:
            zone = {"topologyKey": "topology.kubernetes.io/zone", "maxSkew": 6, "whenUnsatisfiable": "DoNotSchedule"}
            spec["topologySpreadConstraints"] = [{**zone, **chosen}]
        if at % 2 == 0:
            items.append(a_budget(app, allowed=1))
        for number, on in enumerate(rng.sample([name for name in names if free[name] > 3], replicas)):
            free[on] -= 1
            uid = {"uid": f"{app}-{number}"}
            items.append(pod_manifest(f"{app}-{number}", on=on, meta={**meta, **uid}, status=READY, **spec))
    return read_cluster(msgspec.Raw(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}).encode()))


def a_budget(app: str, *, allowed: int) -> Obj:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": app, "namespace": "shop"},
        "spec": {"maxUnavailable": allowed, "selector": {"matchLabels": {"app": app}}},
        "status": {"disruptionsAllowed": allowed, "observedGeneration": 1},
    }


def played(seed: int, **autoscaler: Any) -> Played:
    return play(a_cluster(seed), settings_with(**autoscaler), start=START, horizon_seconds=DAYS)


#: Consolidation replaces nodes, too.
REPLACING = {"consolidation": {"enabled": True}}


@pytest.mark.parametrize("autoscaler", [{}, REPLACING], ids=["removing", "replacing"])
@pytest.mark.parametrize("seed", range(2))
def test_no_pod_is_lost_and_nothing_stays_cordoned(seed: int, autoscaler: Obj) -> None:
    found = played(seed, **autoscaler)
    assert found.over
    assert found.removed
    assert found.evictions
    assert Counter(pod.key for pod in found.end.pods) == Counter(pod.key for pod in found.began.pods)
    there = {node.name for node in found.end.nodes}
    assert all(pod.node in there for pod in found.end.pods)
    assert len(found.began.nodes) + len(found.added) == len(there) + len(found.removed)
    assert not any(node.unschedulable or any(t.key == TO_BE_DELETED_TAINT for t in node.taints) for node in found.end.nodes)


@pytest.mark.parametrize("autoscaler", [{}, REPLACING], ids=["removing", "replacing"])
@pytest.mark.parametrize("seed", range(2))
def test_each_pod_goes_where_it_fits_and_no_budget_is_overdrawn(
    seed: int, autoscaler: Obj, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Watches each pod that is put on a node: before it is there, the filters accept the node."""
    bind, placed = VirtualCluster.bind, list[NodeName]()

    def watched(cluster: VirtualCluster, pod: Pod, node: NodeName) -> None:
        snapshot, row = cluster.replica.snapshot, cluster.replica.row_of(node)
        if not any(taint.key == TO_BE_DELETED_TAINT for taint in snapshot.facts.nodes[row].taints):  # else it stays there
            assert row in feasible(snapshot, snapshot.kind_id(pod.kind, pod.labels)).rows
            placed.append(node)
        assert all(budget.disruptions_allowed >= 0 for budget in cluster.cluster().budgets or ())
        assert all(cluster.disruptions.left("shop", f"app-{at}") >= 0 for at in range(0, 8, 2))
        bind(cluster, pod, node)

    monkeypatch.setattr(VirtualCluster, "bind", watched)
    assert played(seed, **autoscaler).evictions == len(placed)


def test_the_same_arguments_give_the_same_rounds() -> None:
    first, again = played(7), played(7)
    assert (first.removed, first.evictions, first.seconds, first.plans) == (
        again.removed,
        again.evictions,
        again.seconds,
        again.plans,
    )
    assert first.end.pods == again.end.pods


def test_rounds_free_more_than_one_plan_because_budgets_allow_again() -> None:
    """One plan may disturb one pod of each budget; a round later the next one may go."""
    own = [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "controller": True, "uid": "u"}]
    meta: Obj = {"labels": {"app": "web"}, "ownerReferences": own}
    items = [node_manifest(f"n{at}", cpu="4", labels=node_labels(f"n{at}", "pool"), status=READY) for at in range(8)]
    items += [pod_manifest(f"web-{at}", on=f"n{at}", meta={**meta, "uid": f"u{at}"}, status=READY) for at in range(8)]
    items.append(a_budget("web", allowed=1))
    cluster = read_cluster(msgspec.Raw(json.dumps({"kind": "List", "items": items}).encode()))
    found = play(cluster, settings_with(), start=START, horizon_seconds=DAYS)
    assert (len(found.removed), found.evictions >= 6, found.failed_removals) == (6, True, 0)
    assert found.plans > 2


def test_less_parallelism_takes_longer() -> None:
    parallel, serial = played(3), played(3, scaleDown={"maxScaleDownParallelism": 1, "maxDrainParallelism": 1})
    assert serial.seconds > parallel.seconds > 600  # unneededTime comes first


def test_pods_that_wait_get_new_nodes_with_their_daemons() -> None:
    template = {"metadata": {"labels": {"to": "pool"}}, "status": {"capacity": {"cpu": "4", "memory": "16Gi", "pods": "9"}}}
    daemon = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "agent", "namespace": "shop"},
        "spec": {
            "selector": {"matchLabels": {"app": "agent"}},
            "template": {"metadata": {"labels": {"app": "agent"}}, "spec": {"containers": [{"name": "a", "image": "a"}]}},
        },
    }
    items = [daemon, *(pod_manifest(f"p{at}", cpu="3", meta={"uid": f"p{at}"}, nodeSelector={"to": "pool"}) for at in range(3))]
    items.append(pod_manifest("stuck", cpu="5", meta={"uid": "s"}, nodeSelector={"to": "pool"}))
    cluster = read_cluster(msgspec.Raw(json.dumps({"kind": "List", "items": items}).encode()))
    found = play(cluster, settings_with(nodeGroups=[{"name": "pool", "template": template}]), start=START, horizon_seconds=DAYS)
    assert len(found.added) == 3
    assert sorted(str(pod.key) for pod in found.end.pods if pod.node is None) == ["shop/stuck"]
    agents = [pod for pod in found.end.pods if pod.key.name.startswith("agent")]
    assert sorted(str(pod.node) for pod in agents) == sorted(found.added)


@pytest.mark.parametrize(("as_planned", "bought"), [(True, 2), (False, 3)])
def test_pods_get_the_nodes_that_were_bought_for_them_where_pods_are_placed_as_planned(as_planned: bool, bought: int) -> None:
    """By scores alone the first pod takes the large node, which comes first, and which the second one then needs once more."""
    sizes = {"small": "4", "large": "8"}
    groups = [
        {"name": name, "maxSize": 9, "template": {"status": {"allocatable": {"cpu": cpu, "memory": "32Gi", "pods": "9"}}}}
        for name, cpu in sizes.items()
    ]
    items = [pod_manifest(f"p-{cpu}", cpu=cpu, meta={"uid": cpu}) for cpu in ("3", "7")]
    cluster = read_cluster(msgspec.Raw(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}).encode()))
    settings = settings_with(
        enabled=True,
        expanders=["price"],
        nodeGroups=groups,
        scaleUp={"placeAsPlanned": as_planned},
        scaleDown={"enabled": False},
    )
    pace = Pace(boots={GroupName("large"): 50.0})
    assert len(play(cluster, settings, start=START, horizon_seconds=DAYS, pace=pace).added) == bought


def test_a_budget_with_an_end_is_waited_for_and_one_without_keeps_its_nodes() -> None:
    """At the start it is 08:00 UTC. Until 18:00 no node of a group may be disrupted, and of the other one none ever."""
    office = {"nodes": "0", "schedule": "0 6 * * *", "duration": "12h"}
    groups = [
        {"name": "small", "maxSize": 99, "scaleDown": {"disruptionBudgets": [office]}},
        {"name": "large", "maxSize": 99, "scaleDown": {"disruptionBudgets": [{"nodes": "0"}]}},
    ]
    found = played(1, nodeGroups=groups)
    group_of = {node.name: node.labels[GROUP] for node in found.began.nodes}
    assert {group_of[name] for name in found.removed} == {"small"}
    assert found.seconds > 10 * 3600
    assert found.over
    kept = {str(each.unremovable_reason) for each in found.kept if group_of[each.node] == "large"}
    assert "DisruptionBudgetReached" in kept


def test_where_nothing_may_be_removed_the_rounds_are_soon_over() -> None:
    found = played(2, scaleDown={"enabled": False})
    assert (found.removed, found.evictions, found.over) == ((), 0, True)
    assert found.plans < 9


def test_nodes_that_are_too_full_to_go_are_replaced_where_that_is_on() -> None:
    """Ten nodes at 56 %: none is unneeded, and six hold all pods."""
    own = [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "controller": True, "uid": "u"}]
    meta: Obj = {"labels": {"app": "web"}, "ownerReferences": own}
    items = [node_manifest(f"n{at}", cpu="32", labels=node_labels(f"n{at}", "pool"), status=READY) for at in range(10)]
    pods = [(at, number) for at in range(10) for number in range(9)]
    items += [
        pod_manifest(f"web-{at}-{number}", cpu="2", on=f"n{at}", meta={**meta, "uid": f"u{at}-{number}"}, status=READY)
        for at, number in pods
    ]
    cluster = read_cluster(msgspec.Raw(json.dumps({"kind": "List", "items": items}).encode()))
    kept, replaced = (play(cluster, settings_with(**each), start=START, horizon_seconds=DAYS) for each in ({}, REPLACING))
    assert [len(each.end.nodes) for each in (kept, replaced)] == [10, 6]
    assert 600 < replaced.seconds < 900, "plans have to agree for 10 minutes, and one is made each minute"


@pytest.mark.parametrize("planned", [True, False])
def test_evicted_pods_go_where_plans_have_them_if_the_service_places_them_so(planned: bool) -> None:
    settings = settings_with(expanders=["price"], scaleUp={"placeAsPlanned": planned})
    to = dict[PodKey, NodeName]()

    def see(happened: Happened) -> None:
        if isinstance(happened, RemovalBegan):
            to.update({pod.key: node for pod, node in happened.removable.moves})

    found = Rounds(a_cluster(3), settings, START, observer=see).until_rest(DAYS)
    on = {pod.key: pod.node for pod in found.end.pods}
    assert len(to) > 2
    assert all(on[key] == node for key, node in to.items()) is planned
