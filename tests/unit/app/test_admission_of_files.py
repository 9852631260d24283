"""What-if on files admits pods that do not exist yet as the API server would."""

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

from slackwater.app.offline.cluster import Cluster, read_cluster
from slackwater.app.offline.explain import explain_offline
from slackwater.app.offline.objects import ClusterError
from slackwater.app.offline.placement import pending_pods, placement_lines
from slackwater.app.offline.scaledown import scale_down_answer
from slackwater.app.offline.scaleup import scale_up_answer
from slackwater.app.settings import Settings, loads
from slackwater.cli.main import main
from slackwater.model.objects import Pod
from tests.support.manifests import Obj, node_labels, node_manifest


def item(kind: str, name: str = "d", namespace: str | None = "shop", **body: Any) -> Obj:
    meta = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": "x/v1", "kind": kind, "metadata": {**meta, **body.pop("meta", {})}, **body}


def spec_of(requests: Obj | None = None, limits: Obj | None = None, **more: Any) -> Obj:
    container = {"name": "app", "resources": {"requests": requests or {}, "limits": limits or {}}}
    return {"containers": [container], **more}


def deployment(replicas: int, spec: Obj, name: str = "d") -> Obj:
    template = {"metadata": {"labels": {"app": name}}, "spec": spec}
    return item(
        "Deployment", name, spec={"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    )


def daemon_set(spec: Obj) -> Obj:
    return {**deployment(1, spec), "kind": "DaemonSet"}


def limit_range(**limits: Any) -> Obj:
    return item("LimitRange", "lr", spec={"limits": [{"type": "Container", **limits}]})


def quota(hard: Obj, status: Obj | None = None, **spec: Any) -> Obj:
    return item("ResourceQuota", "rq", spec={"hard": hard, **spec}, status=status or {})


def of(*items: Obj) -> Cluster:
    return read_cluster(
        {"kind": "List", "items": [node_manifest("n0", labels=node_labels("n0", "blue")), *items]}, add_missing=True
    )


def made(*items: Obj) -> list[Pod]:
    cluster = of(*items)
    return [pod for pod in cluster.pods if pod.key in cluster.made]


def refused(*items: Obj) -> list[str]:
    return [text.partition(" would not be admitted: ")[2] for text in of(*items).refused]


@pytest.mark.parametrize(
    ("limits", "spec", "cpu"),
    [
        ({"defaultRequest": {"cpu": "1"}}, spec_of(), 1000),
        ({"defaultRequest": {"cpu": "1"}, "default": {"cpu": "2"}}, spec_of(), 1000),
        ({"default": {"cpu": "2"}}, spec_of(), 2000),  # the request is the limit's default
        ({"max": {"cpu": "3"}}, spec_of(), 3000),  # and the limit the maximum
        ({"min": {"cpu": "500m"}}, spec_of(), 500),
        ({"defaultRequest": {"cpu": "1"}}, spec_of({"cpu": "300m"}), 300),
        ({"defaultRequest": {"cpu": "1"}}, spec_of(limits={"cpu": "4"}), 4000),  # the API's own defaults come before
        (
            {"defaultRequest": {"cpu": "1"}},
            spec_of(initContainers=[{"name": "init"}, {"name": "s", "restartPolicy": "Always"}]),
            2000,
        ),
        ({"type": "Pod", "max": {"cpu": "3"}}, spec_of({"cpu": "1"}, {"cpu": "3"}), 1000),
        ({"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}}, spec_of(), 0),
    ],
)
def test_limit_ranges_set_what_containers_lack(limits: Obj, spec: Obj, cpu: int) -> None:
    new = item("Pod", "new", spec=spec, status={})
    found = [*made(limit_range(**limits), deployment(1, spec)), *pending_pods(of(limit_range(**limits), new))]
    assert [pod.kind.requests.cpu for pod in found] == [cpu, cpu]
    elsewhere = {**limit_range(**limits), "metadata": {"name": "lr", "namespace": "other"}}
    assert [pod.kind.requests.cpu for pod in made(elsewhere, deployment(1, spec))] == [
        made(deployment(1, spec))[0].kind.requests.cpu
    ]


@pytest.mark.parametrize(
    ("limits", "spec", "why"),
    [
        ({"max": {"cpu": "1"}}, spec_of({"cpu": "3"}), "maximum cpu usage per Container is 1, but request is 3"),
        ({"max": {"cpu": "1"}}, spec_of(limits={"cpu": "2"}), "maximum cpu usage per Container is 1, but limit is 2"),
        (
            {"max": {"memory": "1G"}},
            spec_of({"memory": "2G"}, initContainers=[{"name": "i", "resources": {"requests": {"memory": "2G"}}}]),
            "maximum memory usage per Container is 1G, but request is 2G",
        ),
        ({"min": {"cpu": "1"}}, spec_of({"cpu": "300m"}), "minimum cpu usage per Container is 1, but request is 300m"),
        (
            {"maxLimitRequestRatio": {"memory": "1.5"}},
            spec_of({"memory": "1Gi"}, {"memory": "2Gi"}),
            "memory max limit to request ratio per Container is 1.5, but provided ratio is 2.000000",
        ),
        (
            {"maxLimitRequestRatio": {"cpu": 2}},
            spec_of({"cpu": "1"}),
            "cpu max limit to request ratio per Container is 2, but no limit is specified or limit is 0",
        ),
        ({"type": "Pod", "max": {"cpu": "1"}}, spec_of({"cpu": "1"}), "maximum cpu usage per Pod is 1.  No limit is specified"),
        (
            {"type": "Pod", "min": {"memory": "2Gi"}},
            spec_of({"memory": "1Gi"}, initContainers=[{"name": "i", "resources": {"requests": {"memory": "1536Mi"}}}]),
            "minimum memory usage per Pod is 2Gi, but request is 1536Mi",
        ),
    ],
)
def test_limit_ranges_refuse_in_the_words_of_the_api_server(limits: Obj, spec: Obj, why: str) -> None:
    for each in (deployment(2, spec), daemon_set(spec), item("Pod", spec=spec)):
        assert refused(limit_range(**limits), each) == [f"LimitRange shop/lr: {why}"]
        assert made(limit_range(**limits), each) == []


_CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "5Gi"}}}


@pytest.mark.parametrize(
    ("limit", "why"),
    [
        (
            item("LimitRange", "lr", spec={"limits": [{"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}}]}),
            "LimitRange shop/lr: maximum storage usage per PersistentVolumeClaim is 1Gi, but request is 5Gi",
        ),
        (
            quota({"requests.storage": "7Gi"}),
            "ResourceQuota shop/rq: exceeded quota: rq, "
            "requested: requests.storage=5Gi, used: requests.storage=5Gi, limited: requests.storage=7Gi",
        ),
    ],
)
def test_a_claim_that_is_refused_keeps_its_pod_from_being_made(limit: Obj, why: str) -> None:
    sets = deployment(2, spec_of())
    sets["spec"]["volumeClaimTemplates"] = [{"metadata": {"name": "data"}, "spec": _CLAIM}]
    assert refused(limit, {**sets, "kind": "StatefulSet"}) == [why]
    assert len(made(limit, {**sets, "kind": "StatefulSet"})) == (limit["kind"] == "ResourceQuota")


_RUNNING = {"uid": "u"}
_PHASE = {"phase": "Running"}


@pytest.mark.parametrize(
    ("limit", "spec", "n", "why"),
    [
        (quota({"pods": "2"}), spec_of(), 2, "requested: pods=1, used: pods=2, limited: pods=2"),
        (quota({"count/pods": "1"}), spec_of(), 1, "requested: count/pods=1, used: count/pods=1, limited: count/pods=1"),
        (
            quota({"requests.cpu": "2500m"}),
            spec_of({"cpu": "1"}),
            2,
            "requested: requests.cpu=1, used: requests.cpu=2, limited: requests.cpu=2500m",
        ),
        (
            quota({"cpu": "9", "pods": 9}, {"hard": {"cpu": "9"}, "used": {"cpu": "8"}}),
            spec_of({"cpu": "600m"}),
            1,
            "requested: cpu=600m, used: cpu=8600m, limited: cpu=9",
        ),
        (
            quota({"limits.memory": "1Gi"}),
            spec_of(limits={"memory": "1Gi"}),
            1,
            "requested: limits.memory=1Gi, used: limits.memory=1Gi, limited: limits.memory=1Gi",
        ),
        (
            quota({"requests.example.com/gpu": "1"}),
            spec_of(limits={"example.com/gpu": "1"}),
            1,
            "requested: requests.example.com/gpu=1, used: requests.example.com/gpu=1, limited: requests.example.com/gpu=1",
        ),
        (
            quota({"requests.cpu": "2", "limits.cpu": "9"}),
            spec_of(),
            0,
            "must specify limits.cpu for: app; requests.cpu for: app",
        ),
        # A pod's own resources stand for those of its containers.
        (
            quota({"limits.cpu": "2"}),
            spec_of(resources={"limits": {"cpu": "2"}}),
            1,
            "requested: limits.cpu=2, used: limits.cpu=2, limited: limits.cpu=2",
        ),
        (quota({"limits.cpu": "2"}), spec_of(resources={"limits": {}}), 0, "must specify limits.cpu for: app"),
        (
            quota({"pods": "1"}, scopes=["BestEffort"]),
            spec_of({"cpu": "1"}, resources={}),
            1,
            "requested: pods=1, used: pods=1, limited: pods=1",
        ),
        (quota({"pods": "1"}, scopes=["BestEffort"]), spec_of(), 1, "requested: pods=1, used: pods=1, limited: pods=1"),
        (quota({"pods": "1"}, scopes=["NotBestEffort"]), spec_of(), 3, ""),
        (quota({"pods": "1"}, scopes=["Terminating"]), spec_of(), 3, ""),
        (
            quota({"pods": "1"}, scopes=["Terminating"]),
            spec_of(activeDeadlineSeconds=9),
            1,
            "requested: pods=1, used: pods=1, limited: pods=1",
        ),
        (
            quota(
                {"pods": "0"},
                scopeSelector={"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]},
            ),
            spec_of(priorityClassName="high"),
            0,
            "requested: pods=1, used: pods=0, limited: pods=0",
        ),
        (
            quota(
                {"pods": "0"},
                scopeSelector={"matchExpressions": [{"scopeName": "PriorityClass", "operator": "NotIn", "values": ["high"]}]},
            ),
            spec_of(priorityClassName="high"),
            3,
            "",
        ),
        (quota({"services": "0", "persistentvolumeclaims": "0"}), spec_of(), 3, ""),
    ],
)
def test_quotas_admit_as_many_as_they_leave(limit: Obj, spec: Obj, n: int, why: str) -> None:
    items = (limit, item("PriorityClass", "high", None, value=1000), deployment(3, spec))
    assert len(made(*items)) == n
    assert [text.rpartition("quota: rq")[2].lstrip(":, ") for text in refused(*items)] == ([why] if why else [])


def test_pods_that_exist_are_left_alone_and_count() -> None:
    """With a status quotas say themselves what is used; without one the pods of the namespace are counted."""
    ended = item("Pod", "done", meta={"uid": "v"}, spec=spec_of({"cpu": "1"}), status={"phase": "Succeeded"})
    pods = [
        item("Pod", f"p{at}", meta={"uid": f"u{at}"}, spec=spec_of({"cpu": "3"}), status={"phase": "Pending"})
        for at in range(2)
    ]
    limits = (limit_range(max={"cpu": "2"}), quota({"requests.cpu": "7", "count/pods": 99}))
    cluster = of(*limits, *pods, ended, deployment(2, spec_of({"cpu": "1"})))
    assert [pod.key.name for pod in pending_pods(cluster)] == ["p0", "p1", "d-missing-1"]
    assert cluster.refused[0].startswith(
        "Deployment shop/d: 1 of its pods that is not in the file would not be admitted: ResourceQuota"
    )


def test_classes_of_priority_and_runtime_count_for_new_pods() -> None:
    classes = [
        item("PriorityClass", "low", None, value=-20, globalDefault=True),
        item("PriorityClass", "high", None, value=1000, preemptionPolicy="Never"),
        item(
            "RuntimeClass",
            "kata",
            None,
            overhead={"podFixed": {"cpu": "250m"}},
            scheduling={"nodeSelector": {"kata": "yes"}, "tolerations": [{"key": "kata", "operator": "Exists"}]},
        ),
    ]
    specs = [
        spec_of(),
        spec_of(priorityClassName="high"),
        spec_of(priorityClassName="system-node-critical"),
        spec_of(runtimeClassName="kata"),
    ]
    found = made(*classes, *(deployment(1, spec, f"d{at}") for at, spec in enumerate(specs)))
    assert [(pod.priority, pod.kind.preempts) for pod in found] == [
        (-20, True),
        (1000, False),
        (2_000_001_000, True),
        (-20, True),
    ]
    assert (found[3].kind.requests.cpu, found[3].kind.node_selector) == (250, (("kata", "yes"),))
    assert "kata" in {toleration.key for toleration in found[3].kind.tolerations}
    assert refused(*classes, deployment(1, spec_of(priorityClassName="gone"))) == [
        "no PriorityClass with name gone was found; known are high, low, system-cluster-critical, system-node-critical"
    ]
    assert refused(*classes, deployment(1, spec_of(runtimeClassName="kaat"))) == [
        'pod rejected: RuntimeClass "kaat" not found; did you mean kata?'
    ]
    assert of(deployment(1, spec_of(priorityClassName="a", runtimeClassName="b"))).unread == (
        "the priority of PriorityClass a: no PriorityClass in the file",
        "the overhead of RuntimeClass b: no RuntimeClass in the file",
    )


_GROUP = """
kind: SlackwaterConfiguration
apiVersion: config.slackwater.dev/v1alpha1
autoscaler:
  nodeGroups: [{name: new, template: {status: {capacity: {cpu: "4", memory: 16Gi, pods: "110"}}}}]
"""


def test_a_daemon_set_takes_what_limit_ranges_give_it_of_a_node_to_come() -> None:
    big = item("Pod", "big", meta=_RUNNING, spec=spec_of({"cpu": "3500m"}), status={"phase": "Pending"})
    daemons = daemon_set(spec_of(nodeSelector={"kubernetes.io/os": "none"}))
    daemons["spec"]["template"]["spec"].pop("nodeSelector")
    settings = loads(_GROUP, source="test")
    full = item("Pod", "full", meta={"uid": "f"}, spec=spec_of({"cpu": "4"}, nodeName="n0"), status=_PHASE)
    helped = [
        [entry.pod for entry in scale_up_answer(of(big, full, daemons, *limits), settings).unhelpable]
        for limits in (
            [],
            [limit_range(defaultRequest={"cpu": "1"})],
            [limit_range(defaultRequest={"cpu": "3"}, max={"cpu": "2"})],
        )
    ]
    assert [[name for name in each if name == "shop/big"] for each in helped] == [[], ["shop/big"], []]


def test_a_template_of_a_buffer_has_the_defaults() -> None:
    buffer = item("CapacityBuffer", spec={"podTemplateRef": {"name": "d"}, "replicas": 2})
    template = item("PodTemplate", template={"spec": spec_of()})
    placed = [
        len(scale_up_answer(of(buffer, template, *limits), Settings()).schedulable)
        for limits in (
            [],
            [limit_range(defaultRequest={"cpu": "3"})],
            [limit_range(defaultRequest={"cpu": "1"}), quota({"requests.cpu": "1"})],
        )
    ]
    assert placed == [2, 1, 1]


def test_answers_say_what_is_not_admitted() -> None:
    pending = item("Pod", "there", meta=_RUNNING, spec=spec_of(), status={"phase": "Pending"})
    cluster = of(quota({"pods": "2"}, {"hard": {"pods": "2"}, "used": {"pods": "1"}}), pending, deployment(3, spec_of()))
    made_text = "Deployment shop/d: 1 of its pods is not in the file, and is added: shop/d-missing-1"
    refused_text = (
        "Deployment shop/d: 2 of its pods that are not in the file would not be admitted: "
        "ResourceQuota shop/rq: exceeded quota: rq, requested: pods=1, used: pods=2, limited: pods=2"
    )
    assert scale_up_answer(cluster, Settings()).remarks == (made_text, refused_text)
    assert scale_down_answer(cluster, Settings()).remarks == (made_text, refused_text)
    assert [line.remarks for line in placement_lines(cluster)] == [(refused_text,), (made_text, refused_text)]
    assert explain_offline(cluster, Settings(), "node", "", "n0").remarks[1:] == (made_text, refused_text)
    with pytest.raises(ClusterError, match=re.escape(f"pod shop/d-missing-2: is not in the file; {refused_text}")):
        explain_offline(cluster, Settings(), "pod", "shop", "d-missing-2")
    (left,) = cluster.headroom.quotas
    assert left.left == (("pods", 0),)


@pytest.mark.parametrize("output", ["json", "table"])
def test_placement_without_a_pending_pod_still_says_it(output: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    running = item("Pod", "there", meta=_RUNNING, spec=spec_of(nodeName="n0"), status=_PHASE)
    file = tmp_path / "cluster.json"
    objects = [node_manifest("n0"), quota({"pods": "1"}), running, deployment(1, spec_of())]
    file.write_text(json.dumps({"kind": "List", "items": objects}))
    assert main(["simulate", "placement", "--cluster", str(file), "-o", output]) == 0
    printed = capsys.readouterr()
    said = printed.err if output == "json" else printed.out
    assert said.startswith(
        "Deployment shop/d: 1 of its pods that is not in the file would not be admitted: ResourceQuota shop/rq: "
    )


_LOTS = "quantity 'lots': want a number with one of the suffixes"
_BAD_CLAIM = {"resources": {"requests": {"storage": "lots"}}}
_BAD_SPEC = spec_of({"cpu": "lots"})


@pytest.mark.parametrize(
    ("objects", "error"),
    [
        *(
            ([limit_range(**{key: {"cpu": "lots"}})], f"items[1].spec.limits[0] (LimitRange shop/lr): {_LOTS}")
            for key in ("default", "defaultRequest", "min", "max", "maxLimitRequestRatio")
        ),
        ([quota({"cpu": "lots"})], f"items[1].spec (ResourceQuota shop/rq): {_LOTS}"),
        ([quota({}, {"hard": {"cpu": "lots"}})], f"items[1].status (ResourceQuota shop/rq): {_LOTS}"),
        ([quota({}, {"used": {"cpu": "lots"}})], f"items[1].status (ResourceQuota shop/rq): {_LOTS}"),
        (
            [quota({}), item("PersistentVolumeClaim", spec=_BAD_CLAIM)],
            f"items[2].spec.resources (PersistentVolumeClaim shop/d): {_LOTS}",
        ),
        (
            [
                item(
                    "StatefulSet",
                    spec={"replicas": 1, "volumeClaimTemplates": [{"metadata": {"name": "v"}, "spec": _BAD_CLAIM}]},
                )
            ],
            f"items[1].spec.resources (PersistentVolumeClaim shop/v-d-0): {_LOTS}",
        ),
        (
            [quota({}), item("PersistentVolumeClaim", spec={"resources": 7})],
            "items[2].spec.resources (PersistentVolumeClaim shop/d): got int, want object",
        ),
        (
            [item("RuntimeClass", "r", None, overhead={"podFixed": {"cpu": "lots"}})],
            f"items[1].overhead (RuntimeClass r): {_LOTS}",
        ),
        (
            [limit_range(min={"cpu": "1"}), deployment(1, _BAD_SPEC)],
            f"items[2].spec.template.spec.containers[0].resources.requests.cpu (Deployment shop/d): {_LOTS}",
        ),
        (
            [limit_range(min={"cpu": "1"}), daemon_set(_BAD_SPEC)],
            f"items[2].spec.template.spec.containers[0].resources.requests.cpu (DaemonSet shop/d): {_LOTS}",
        ),
        (
            [quota({"cpu": "1"}), item("Pod", spec=_BAD_SPEC)],
            f"items[2].spec.containers[0].resources.requests.cpu (Pod shop/d): {_LOTS}",
        ),
        (
            [limit_range(), deployment(1, spec_of(priorityClassName=["a"]))],
            "items[2].spec.template.spec.priorityClassName (Deployment shop/d): got array, want str | null",
        ),
        (
            [deployment(1, spec_of(runtimeClassName={}))],
            "items[1].spec.template.spec.runtimeClassName (Deployment shop/d): got object, want str | null",
        ),
        (
            [item("RuntimeClass", "r", None), deployment(1, spec_of(runtimeClassName="r", nodeSelector=7))],
            "items[2].spec.template.spec.nodeSelector (Deployment shop/d): got int, want object | null",
        ),
    ],
)
def test_what_admission_cannot_read_is_named(objects: list[Obj], error: str) -> None:
    with pytest.raises(ClusterError) as err:
        of(*objects)
    assert str(err.value).startswith(error)


def test_many_limits_of_a_namespace_cost_little_more_than_one() -> None:
    """Each pod is decoded once, not once for each quota; LimitRanges judge a controller's spec once, not once for each pod."""

    def seconds(count: int) -> float:
        limits = [{**each, "metadata": {**each["metadata"], "name": f"l{n}"}} for n in range(count) for each in limited]
        before = time.process_time()
        of(*limits, *pods, deployment(500, spec_of({"cpu": "1"})))
        return time.process_time() - before

    limited = (limit_range(min={"cpu": "1m"}), quota({"cpu": "1M"}))
    pods = [item("Pod", f"p{n}", spec=spec_of({"cpu": "1"}), meta={"uid": str(n)}) for n in range(300)]
    times = [(seconds(40), seconds(1)) for _ in range(5)]  # in turn: other work on the machine slows both alike
    many, one = map(min, zip(*times, strict=True))
    assert many < 6 * one
