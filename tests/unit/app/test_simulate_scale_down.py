"""`slackwater simulate scale-down`: what could go together from a file, where its pods would live, and why the others stay."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from slackwater.cli.main import main
from tests.support.configuration import HEAD
from tests.support.manifests import Obj, node_labels, node_manifest, pod_manifest


def a_node(name: str, *, cpu: str = "4", group: str | None = None, **meta: Any) -> Obj:
    return node_manifest(name, cpu=cpu, labels=node_labels(name, group), meta=meta)


def a_pod(name: str, on: str | None, cpu: str = "1", *, owner: str | None = "ReplicaSet", **meta: Any) -> Obj:
    owners = [{"apiVersion": "apps/v1", "kind": owner, "name": "web", "controller": True, "uid": "u"}]
    owned = {} if owner is None else {"ownerReferences": owners}
    return pod_manifest(name, cpu=cpu, on=on, meta={"labels": {"app": "web"}, **meta, **owned})


def a_budget(allowed: int) -> Obj:
    spec = {"selector": {"matchLabels": {"app": "web"}}}
    meta = {"name": "web", "namespace": "shop"}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": meta,
        "spec": spec,
        "status": {"disruptionsAllowed": allowed},
    }


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    def run(*items: Obj, config: Obj | None = None, options: tuple[str, ...] = ("-o", "json")) -> Any:
        file = tmp_path / "cluster.json"
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
        more = list(options)
        if config is not None:
            settings = tmp_path / "slackwater.yaml"
            settings.write_text(yaml.safe_dump({**HEAD, "autoscaler": config}))
            more += ["--config", str(settings)]
        assert main(["simulate", "scale-down", "--cluster", str(file), *more]) == 0
        out, err = capsys.readouterr()
        assert err == ""
        return json.loads(out) if "json" in options else out

    return run


def kept(answer: Obj) -> dict[str, str]:
    return {one["node"]: one["reason"] for one in answer["kept"]}


def removable(answer: Obj) -> dict[str, dict[str, str]]:
    return {one["node"]: one["destinations"] for one in answer["removable"]}


def test_what_can_go_and_where_each_pod_would_live(run: Any) -> None:
    answer = run(a_node("n1"), a_node("n2"), a_node("n3"), a_pod("a", "n1"), a_pod("b", "n3", "3"))
    assert removable(answer) == {"n1": {"shop/a": "n3"}, "n2": {}}
    assert {one["node"]: one["empty"] for one in answer["removable"]} == {"n1": False, "n2": True}
    assert answer["kept"] == [
        {"node": "n3", "reason": "NotUnderutilized", "detail": "cpu 75.0%, at most 50.0%", "blockedBy": None}
    ]
    assert 0 < answer["seconds"] < 10


def test_pods_that_block_a_removal_are_named(run: Any) -> None:
    answer = run(a_node("n1"), a_node("n2"), a_pod("alone", "n1", owner=None))
    assert removable(answer) == {"n2": {}}
    assert [(one["node"], one["reason"], one["blockedBy"]) for one in answer["kept"]] == [("n1", "NotReplicated", "shop/alone")]
    assert answer["kept"][0]["detail"] == "the pod has no controller: nothing would create it again"


def test_budgets_are_shared_and_a_file_without_any_says_so(run: Any) -> None:
    items = [a_node("n1"), a_node("n2"), a_node("n3", cpu="64"), a_pod("a", "n1"), a_pod("b", "n2"), a_pod("c", "n3", "40")]
    answer = run(*items, a_budget(1))
    assert (sorted(removable(answer)), kept(answer)["n2"]) == (["n1"], "NotEnoughPdb")
    assert "skipped" not in answer
    assert [note.partition(":")[0] for note in run(*items)["skipped"]] == [
        "disruption budgets, and pods of kube-system without one"
    ]


def test_a_file_without_pods_says_that_every_node_counts_as_empty(run: Any) -> None:
    note = "pods, so that every node counts as empty: no Pod in the file"
    assert run(a_node("n1"), a_node("n2"))["skipped"] == [note]
    assert f"not judged: {note}" in run(a_node("n1"), a_node("n2"), options=("-o", "table"))


def test_pending_pods_that_fit_have_their_room_first(run: Any) -> None:
    answer = run(a_node("n1"), a_node("n2"), a_pod("waits", None, "1"))
    assert (removable(answer), kept(answer)) == ({"n2": {}}, {"n1": "DestinationOfOtherPods"})


def test_a_node_that_waits_for_a_pod_to_complete_cannot_go_now(run: Any) -> None:
    job = a_pod("job", "n1", annotations={"cluster-autoscaler.kubernetes.io/safe-to-evict": "on-completion"})
    answer = run(a_node("n1"), a_node("n2"), job)
    assert answer["kept"][0] == {
        "node": "n1",
        "reason": "BlockedByOnCompletionPod",
        "detail": "a pod of the node has to complete first",
        "blockedBy": "shop/job",
    }


def test_groups_come_from_the_configuration_with_their_minima(run: Any) -> None:
    nodes = [a_node("a1", group="a"), a_node("a2", group="a"), a_node("b1", group="b"), a_node("c1", group="c"), a_node("d1")]
    groups = [{"name": "a", "minSize": 1}, {"name": "b", "scaleDown": {"enabled": False}}]
    answer = run(*nodes, config={"nodeGroups": groups})
    assert (sorted(removable(answer)), kept(answer)) == (
        ["a1"],
        {
            "a2": "NodeGroupMinSizeReached",
            "b1": "ScaleDownDisabledForGroup",
            "c1": "NotAutoscaled",
            "d1": "NotAutoscaled",
        },
    )


def test_without_groups_in_the_configuration_labels_name_them_and_without_labels_every_node_counts(run: Any) -> None:
    assert kept(run(a_node("a1", group="a"), a_node("d1"))) == {"d1": "NotAutoscaled"}
    assert sorted(removable(run(a_node("a1"), a_node("d1")))) == ["a1", "d1"]


def test_annotations_of_nodes_and_thresholds_are_heeded(run: Any) -> None:
    disabled = a_node("n1", annotations={"cluster-autoscaler.kubernetes.io/scale-down-disabled": "true"})
    busy = [a_node("n2"), a_pod("a", "n2", "2500m"), a_node("n3", cpu="64"), a_pod("c", "n3", "60")]
    assert kept(run(disabled, *busy)) == {
        "n1": "ScaleDownDisabledAnnotation",
        "n2": "NotUnderutilized",
        "n3": "NotUnderutilized",
    }
    assert "n2" in removable(run(*busy, config={"scaleDown": {"utilizationThreshold": 0.7}}))


@pytest.mark.parametrize("priority", [0, -100])
def test_do_not_disrupt_is_heeded_on_pods_and_on_nodes(run: Any, priority: int) -> None:
    mark = {"karpenter.sh/do-not-disrupt": "true"}
    pod = a_pod("batch", "n1", annotations=mark)
    pod["spec"]["priority"] = priority
    answer = run(a_node("n1"), a_node("n2", annotations=mark), a_node("n3"), a_node("n4"), pod, a_pod("web", "n3"))
    assert kept(answer) == {"n1": "DoNotDisruptAnnotation", "n2": "ScaleDownDisabledAnnotation"}
    assert answer["kept"][1]["detail"] == "karpenter.sh/do-not-disrupt"


def test_timers_cool_downs_and_parallelism_are_not_applied(run: Any) -> None:
    slow = {"unneededTime": "10h", "delayAfterAdd": "10h", "maxScaleDownParallelism": 1, "maxDrainParallelism": 1}
    nodes = [a_node(f"n{number}") for number in range(12)]
    assert len(removable(run(*nodes, config={"scaleDown": slow}))) == 12


def test_the_table_counts_the_reasons(run: Any) -> None:
    text = run(a_node("n1"), a_node("n2"), a_pod("alone", "n1", owner=None), options=("-o", "table"))
    assert "1 of 2 nodes can go together" in text
    assert "1     NotReplicated  n1: shop/alone: the pod has no controller: nothing would create it again" in text


def test_a_file_that_cannot_be_read_ends_with_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps({"kind": "List", "items": [{"kind": "Node", "metadata": {}}]}))
    assert main(["simulate", "scale-down", "--cluster", str(file)]) == 2
    assert "metadata.name" in capsys.readouterr().err


def ready(name: str) -> Obj:
    node = a_node(name)
    node["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    return node


def slack_of(cpu: str) -> Obj:
    return {"extraCapacity": {"min": {"cpu": cpu, "memory": "3Gi"}, "sizing": "v1", "granularity": 4}}


def test_slack_keeps_its_room(run: Any) -> None:
    config = {"slack": slack_of("3"), "scaleDown": {"utilizationThreshold": 0.4}}
    answer = run(ready("n1"), ready("n2"), ready("n3"), a_pod("a", "n1", "2"), config=config)
    # Two of three placeholders stand beside the pod; the third needs one of the empty nodes, whichever.
    assert sorted(kept(answer).values()) == ["DestinationOfOtherPods", "NotUnderutilized"]
    assert len(removable(answer)) == 1


def test_it_is_shown_where_placeholders_would_go(run: Any) -> None:
    answer = run(ready("n1"), ready("n2"), a_pod("a", "n1", "3500m"), config={"slack": slack_of("2")})
    assert kept(answer)["n2"] == "RoomKeptAsSlack"
    answer = run(ready("n1"), ready("n2"), a_pod("a", "n1", "1"), a_pod("b", "n2", "1"), config={"slack": slack_of("2")})
    (moves,) = removable(answer).values()
    assert (sorted(moves), set(moves.values())) == (["shop/a", "slack/0", "slack/1"], {"n2"})
    bare = run(ready("n1"), ready("n2"), config={"slack": slack_of("2")})
    assert [one["empty"] for one in bare["removable"]] == [True]


def a_rule(**spec: Any) -> Obj:
    """A budget as people write it: without a status."""
    budget = a_budget(0)
    del budget["status"]
    return {**budget, "spec": {**budget["spec"], **spec}}


def a_controller(kind: str, name: str, replicas: int, **meta: Any) -> Obj:
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "shop", **meta},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}},
    }


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        ({"minAvailable": 2}, 1),
        ({"minAvailable": "50%"}, 1),
        ({"maxUnavailable": 1}, 1),
        ({"maxUnavailable": "60%"}, 2),
        ({"maxUnavailable": 0}, 0),
        ({}, 0),
    ],
)
def test_a_budget_without_a_status_is_counted_as_the_disruption_controller_counts(run: Any, spec: Obj, want: int) -> None:
    nodes = [a_node("n1"), a_node("n2"), a_node("n3", cpu="64")]
    pods = [a_pod("a", "n1"), a_pod("b", "n2"), a_pod("c", "n3", "40")]
    answer = run(*nodes, *pods, a_controller("ReplicaSet", "web", 3), a_rule(**spec))
    assert (len(removable(answer)), list(kept(answer).values()).count("NotEnoughPdb")) == (want, 2 - want)
    assert "skipped" not in answer


def test_the_scale_is_the_deployments_and_without_controllers_in_the_file_the_answer_says_so(run: Any) -> None:
    nodes = [a_node("n1"), a_node("n2"), a_node("n3", cpu="64")]
    pods = [a_pod("a", "n1"), a_pod("b", "n2"), a_pod("c", "n3", "40")]
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "d", "controller": True}
    sets = a_controller("ReplicaSet", "web", 3, ownerReferences=[owner])
    rule = a_rule(maxUnavailable=2)
    assert len(removable(run(*nodes, *pods, sets, a_controller("Deployment", "web", 4), rule))) == 1  # one is missing
    answer = run(*nodes, *pods, rule)
    assert len(removable(answer)) == 2
    assert answer["skipped"] == [
        "how many pods controllers want, for budgets without a status: no ReplicaSet in the file, so as many as each has"
    ]


def test_a_pod_of_two_budgets_keeps_its_node(run: Any) -> None:
    second = a_budget(5)
    second["metadata"]["name"] = "second"
    answer = run(a_node("n1"), a_node("n2"), a_pod("a", "n1"), a_budget(5), second)
    assert (kept(answer), answer["kept"][0]["blockedBy"]) == ({"n1": "MultiplePdbs"}, "shop/a")


@pytest.mark.parametrize("said", ["half", "50", "-1%", -1, "%", "9" * 5000 + "%"])
def test_a_rule_that_is_no_amount_is_refused_with_its_place(
    said: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps({"kind": "List", "items": [a_node("n1"), a_rule(minAvailable=said)]}))
    assert main(["simulate", "scale-down", "--cluster", str(file)]) == 2
    assert "items[1] (PodDisruptionBudget shop/web)" in capsys.readouterr().err
