"""What `simulate scale-up`, `simulate scale-down` and the running loop say of the same cluster never contradicts itself.

Clusters are drawn small and full, so that pending pods, pods that nobody waits for and nodes to be removed meet all the time.
"""

import random
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from typing import Any

import pytest

from slackwater.app.offline.cluster import Cluster, read_cluster
from slackwater.app.offline.known_groups import labelled_groups
from slackwater.app.offline.scaledown import scale_down_answer
from slackwater.app.offline.scaleup import scale_up_answer
from slackwater.app.policies import scale_down_policy_of, scale_up_policy_of
from slackwater.app.settings import Settings
from slackwater.cluster.nodegroups.status import NodeGroupStatus
from slackwater.controllers.loop_plans import Inquiry, PlanMaker, Plans, ScaleUpRules
from slackwater.controllers.scaledown.replica_plan import ScaleDownInquiry, ScaleDownProposal
from slackwater.controllers.scaledown.state import ScaleDownState
from slackwater.controllers.scaleup.expanders import NO_PRIORITIES
from slackwater.model.ids import UnixTime
from tests.support.answers import json_of
from tests.support.builders import whole_cluster
from tests.support.seeds import examples

Obj = dict[str, Any]
CLUSTERS = examples(150)
CUTOFF = -10
GROUP = "slackwater.dev/node-group"
SETTINGS = Settings.model_validate({"autoscaler": {"expanders": ["least-waste"], "scaleDown": {"utilizationThreshold": 0.7}}})


def a_node(draw: random.Random, number: int) -> Obj:
    name = f"n{number}"
    labels = {"kubernetes.io/hostname": name, "zone": draw.choice("xyz"), GROUP: draw.choice("ab")}
    taints = [{"key": "dedicated", "effect": "NoSchedule"}] if draw.random() < 0.15 else []
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": taints},
        "status": {"allocatable": {"cpu": str(draw.choice((2, 4, 8))), "memory": "16Gi", "pods": "20"}},
    }


def a_pod(draw: random.Random, number: int, nodes: list[str]) -> Obj:
    app = draw.choice("abc")
    pending = draw.random() < 0.35
    spec: Obj = {
        "priority": draw.choice((CUTOFF - 10, 0, 0, 0, 100)),
        "containers": [{"name": "c", "resources": {"requests": {"cpu": f"{draw.choice((250, 500, 1000, 2500))}m"}}}],
    }
    status: Obj = {}
    if not pending:
        spec["nodeName"] = draw.choice(nodes)
    elif draw.random() < 0.15:
        spec["schedulingGates"] = [{"name": "later"}]
    elif draw.random() < 0.2:
        status["nominatedNodeName"] = draw.choice([*nodes, "gone"])
    selector = {"labelSelector": {"matchLabels": {"app": app}}}
    if draw.random() < 0.3:
        term = {"topologyKey": draw.choice(("kubernetes.io/hostname", "zone")), **selector}
        spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    elif draw.random() < 0.3:
        spread = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", **selector}
        spec["topologySpreadConstraints"] = [spread]
    kind = "DaemonSet" if draw.random() < 0.1 else "ReplicaSet"
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": f"{kind}-{app}", "uid": "u", "controller": True}
    meta = {"name": f"p{number}", "namespace": "default", "labels": {"app": app}, "ownerReferences": [owner]}
    return {"kind": "Pod", "metadata": meta, "spec": spec, "status": status}


@cache
def a_cluster(index: int, *, plain_below: int | None = None) -> Cluster:
    """`plain_below`: pods of lower priority have neither rules nor labels that rules of others select."""
    draw = random.Random(index)
    nodes = [a_node(draw, number) for number in range(draw.randint(3, 8))]
    names = [node["metadata"]["name"] for node in nodes]
    pods = [a_pod(draw, number, names) for number in range(draw.randint(3, 18))]
    for pod in pods if plain_below is not None else ():
        if pod["spec"]["priority"] < plain_below:
            pod["metadata"]["labels"] = {}
            for rules in ("affinity", "topologySpreadConstraints"):
                pod["spec"].pop(rules, None)
    return read_cluster({"kind": "List", "items": [*nodes, *pods]})


@cache
def simulated(index: int) -> tuple[Obj, Obj]:
    """What both commands answer about a cluster."""
    return json_of(scale_up_answer(a_cluster(index), SETTINGS)), json_of(scale_down_answer(a_cluster(index), SETTINGS))


def removable(answer: Obj) -> set[str]:
    return {each["node"] for each in answer["removable"]}


def expected(answer: Obj) -> set[str]:
    """Nodes that scale-up gives to pending pods."""
    return {each["node"] for each in answer["schedulable"]}


def the_loops_plans(cluster: Cluster, settings: Settings) -> tuple[Plans, ScaleDownProposal]:
    """Of the first loop of a service that has just begun, in which every pending pod is old enough."""
    groups = [found.group for found in labelled_groups(cluster.nodes, ())]
    group_status = {
        group.name: NodeGroupStatus(
            group=group,
            known=True,
            ready=tuple(node.name for node in cluster.nodes if node.labels[GROUP] == group.name),
            unready=(),
            starting=(),
            coming=0,
            missing=0,
            lost=(),
            leaving=0,
        )
        for group in groups
    }
    changes = whole_cluster(cluster.nodes, cluster.pods)
    policy = scale_up_policy_of(settings, priorities=NO_PRIORITIES, after_scheduler=False)
    inquiry = Inquiry(
        changes=replace(changes, namespaces=cluster.namespaces, storage=cluster.storage, budgets=cluster.budgets or ()),
        rules=ScaleUpRules(policy=policy),
        group_status=group_status,
        now=UnixTime(datetime.now(UTC).timestamp()),
        scale_down=ScaleDownInquiry(state=ScaleDownState(), policy=scale_down_policy_of(settings)),
    )
    maker = PlanMaker(lambda: 0.0)
    plans = maker.make(inquiry)
    scale_down = maker.scale_down()
    assert scale_down is not None
    return plans, scale_down


def test_scale_down_removes_no_node_that_scale_up_gives_to_a_pending_pod() -> None:
    conflicting, both = [], 0
    for index in range(CLUSTERS):
        up, down = simulated(index)
        gives, takes = expected(up), removable(down)
        if gives & takes:
            conflicting.append(index)
        both += bool(gives and takes)
    assert both > CLUSTERS // 4, "too few clusters where it could show"
    assert conflicting == []


def test_the_running_loop_plans_what_simulate_says() -> None:
    different, removed = [], 0
    for index in range(CLUSTERS):
        up, down = simulated(index)
        plans, scale_down = the_loops_plans(a_cluster(index), SETTINGS)
        moves = {str(found.node): {str(pod.key): str(to) for pod, to in found.moves} for found in scale_down.plan.removable}
        scale_ups = {str(scale_up.group): scale_up.count for scale_up in plans.scale_ups}
        said = {each["node"]: each["destinations"] for each in down["removable"]}
        wanted = {each["name"]: each["newNodes"] for each in up["groups"] if each["newNodes"]}
        if (moves, scale_ups, plans.pending.schedulable) != (said, wanted, len(up["schedulable"])):
            different.append(index)
        removed += len(moves)
    assert removed > CLUSTERS // 4
    assert different == []


@pytest.mark.parametrize("cutoff", [CUTOFF, 50])
def test_expendable_pods_without_rules_take_no_room_from_pods_that_preempt(cutoff: int) -> None:
    """Every pod of these clusters preempts, so the room of expendable pods is free for it: as many nodes are bought, and the
    same pods fit, as if they were not there. The nodes may differ, since an expendable pod counts for every rule."""
    scale_up = {"expendablePodsPriorityCutoff": cutoff}
    settings = Settings.model_validate({"autoscaler": {"expanders": ["least-waste"], "scaleUp": scale_up}})
    for index in range(CLUSTERS // 5):
        cluster = a_cluster(index, plain_below=cutoff)
        without = replace(cluster, pods=tuple(pod for pod in cluster.pods if pod.priority >= cutoff))
        assert found(json_of(scale_up_answer(cluster, settings))) == found(json_of(scale_up_answer(without, settings))), index
        (plans, scale_down), (want_plans, want_shrink) = (the_loops_plans(each, settings) for each in (cluster, without))
        assert [scale_up.count for scale_up in plans.scale_ups] == [scale_up.count for scale_up in want_plans.scale_ups]
        assert scale_down.plan.unneeded == want_shrink.plan.unneeded


def found(answer: Obj) -> tuple[list[str], dict[str, int]]:
    """The pods that fit, and how many nodes each group gets."""
    return sorted(each["pod"] for each in answer["schedulable"]), {each["name"]: each["newNodes"] for each in answer["groups"]}
