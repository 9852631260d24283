"""Pods below the priority cutoff: every rule counts them, and their room is free for pods that preempt; explain agrees."""

from typing import Any

import pytest

from slackwater.app.offline.cluster import Cluster, read_cluster
from slackwater.app.offline.explain import explain_offline
from slackwater.app.offline.scaledown import scale_down_answer
from slackwater.app.offline.scaleup import scale_up_answer
from slackwater.app.settings import Settings
from tests.support.answers import json_of
from tests.support.devices import node_body, pod_body

Obj = dict[str, Any]
ZONE = "topology.kubernetes.io/zone"
NEAR_A = [{"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "a"}}}]


def a_pod(name: str, cpu: str, *, on: str | None = None, priority: int = 0, labels: Obj | None = None, **spec: Any) -> Obj:
    body = pod_body(name, on=on, requests={"cpu": cpu})
    body["metadata"].update({"labels": labels or {}, "annotations": spec.pop("annotations", {})})
    body["spec"].update(priority=priority, **spec)
    return body


def cluster(*pods: Obj, nodes: int = 1) -> Cluster:
    bodies = [node_body(f"n{number}", cpu="4", group="pool", topology__kubernetes__io="z") for number in range(nodes)]
    for body in bodies:
        body["metadata"]["labels"][ZONE] = "z"
        body["status"]["allocatable"] = {"cpu": "4", "memory": "32Gi", "pods": "110"}
    return read_cluster({"apiVersion": "v1", "kind": "List", "items": [*bodies, *pods]})


def filler(on: str = "n0", cpu: str = "3500m", **more: Any) -> Obj:
    return a_pod(f"filler-{on}", cpu, on=on, priority=-100, labels={"app": "a"}, **more)


def planned(found: Cluster) -> tuple[int, list[str], list[str]]:
    """New nodes, pods that fit already, pods that no group helps."""
    answer = json_of(scale_up_answer(found, Settings()))
    return (
        sum(group["newNodes"] for group in answer["groups"]),
        [entry["pod"] for entry in answer["schedulable"]],
        [entry["pod"] for entry in answer["unhelpable"]],
    )


@pytest.mark.parametrize(
    ("policy", "want", "state", "group"),
    [("Never", (1, [], []), "pending", "grows"), (None, (0, ["default/p"], []), "schedulable", "idle")],
)
def test_their_room_is_free_only_for_pods_that_preempt(policy: str | None, want: object, state: str, group: str) -> None:
    spec: Obj = {} if policy is None else {"preemptionPolicy": policy}
    found = cluster(filler(), a_pod("p", "3", **spec))
    assert planned(found) == want
    assert explain_offline(found, Settings(), "pod", "default", "p").state == state
    assert explain_offline(found, Settings(), "group", "", "pool").state == group


def test_a_pod_that_may_not_preempt_takes_no_room_that_one_that_may_has_taken() -> None:
    pods = (a_pod("taker", "3", priority=1), a_pod("polite", "500m", preemptionPolicy="Never"))
    assert planned(cluster(filler(), *pods)) == (1, ["default/taker"], [])


def test_an_expendable_pod_takes_no_room_of_another() -> None:
    found = cluster(filler(), a_pod("p", "3", priority=-50))
    assert planned(found) == (0, [], [])
    assert explain_offline(found, Settings(), "pod", "default", "p").reasons[0].code == "resources_short"


def test_rules_about_other_pods_count_them() -> None:
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": NEAR_A}}
    assert planned(cluster(filler(), a_pod("p", "3", affinity=affinity))) == (0, ["default/p"], [])
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": NEAR_A}}
    assert planned(cluster(filler(cpu="100m"), a_pod("p", "3", affinity=apart))) == (0, [], ["default/p"])


def test_no_eviction_relies_on_room_that_the_pod_may_not_take() -> None:
    there = (filler("n0", "1"), a_pod("steady", "2500m", on="n0"))
    for policy, want in (("Never", []), ("PreemptLowerPriority", ["n1"])):
        found = cluster(*there, a_pod("small", "1", on="n1", preemptionPolicy=policy), nodes=2)
        assert [entry["node"] for entry in json_of(scale_down_answer(found, Settings()))["removable"]] == want


def test_slack_that_an_expendable_pod_asks_for_is_planned_by_its_own_rules() -> None:
    spread = [
        {
            "maxSkew": 1,
            "topologyKey": ZONE,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"nobody-else-reads": "this"}},
        }
    ]
    annotations = {"slackwater.dev/slack": "1"}
    found = cluster(filler(topologySpreadConstraints=spread, annotations=annotations), a_pod("p", "3"))
    assert "failures" not in json_of(scale_up_answer(found, Settings()))
