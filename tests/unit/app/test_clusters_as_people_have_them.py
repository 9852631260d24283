"""Clusters in the forms that tools write: null fields, compressed, several lists in one text, the folders of dumps."""

import copy
import gzip
import json
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slackwater.app.offline import sources
from slackwater.app.offline.cluster import Cluster, read_cluster
from slackwater.app.offline.explain import explain_offline
from slackwater.app.offline.files import load_cluster
from slackwater.app.offline.objects import ClusterError
from slackwater.app.offline.placement import placement_lines
from slackwater.app.offline.scaledown import scale_down_answer
from slackwater.app.offline.scaleup import scale_up_answer
from slackwater.app.settings import Settings
from slackwater.cli.main import main
from slackwater.model.resources import amounts_of
from tests.support.configuration import HEAD
from tests.support.manifests import Obj, node_manifest, owned_by, pod_manifest

_BUDGET = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "web", "namespace": "shop", "labels": {"app": "web"}},
    "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    "status": {
        "disruptionsAllowed": 1,
        "observedGeneration": 1,
        "conditions": [{"type": "X", "status": "True", "reason": "Y"}],
    },
}
_REPLICA_SET = {
    "apiVersion": "apps/v1",
    "kind": "ReplicaSet",
    "metadata": {"name": "web", "namespace": "shop"},
    "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}},
    "status": {"replicas": 2},
}


def a_full_pod() -> Obj:
    toleration = {"key": "a", "operator": "Equal", "value": "b", "effect": "NoExecute", "tolerationSeconds": 3}
    pod = pod_manifest(
        "a",
        on="n1",
        meta={"uid": "u1", "labels": {"app": "web"}, "annotations": {"x": "y"}, "ownerReferences": [{"kind": "ReplicaSet"}]},
        hostNetwork=True,
        schedulerName="default-scheduler",
        priority=3,
        nodeSelector={"kubernetes.io/hostname": "n1"},
        tolerations=[toleration],
        volumes=[{"name": "v", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}],
    )
    pod["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80, "protocol": "TCP", "hostIP": "0.0.0.0"}]
    condition = {"type": "Ready", "status": "True", "reason": "Ready"}
    return {**pod, "status": {"phase": "Running", "nominatedNodeName": "n2", "conditions": [condition]}}


def the_cluster() -> list[Obj]:
    taints = [{"key": "a", "value": "b", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"}]
    status = {"capacity": {"cpu": "5"}, "conditions": [{"type": "Ready", "status": "True", "reason": "Ready"}]}
    first = node_manifest("n1", taints=taints, unschedulable=True, providerID="x://1", status=status)
    return copy.deepcopy([first, node_manifest("n2"), a_full_pod(), _BUDGET, _REPLICA_SET])


def fields_of(part: Any, *path: str | int) -> Iterator[tuple[str | int, ...]]:
    """The path of each field below `part`, but those that say which object it is."""
    for key, value in part.items() if isinstance(part, dict) else enumerate(part):
        if isinstance(part, dict) and key not in {"kind", "metadata", "name"}:
            yield (*path, key)
        if isinstance(value, dict | list):
            yield from fields_of(value, *path, key)


def read(items: list[Obj]) -> Cluster | tuple[str, ...]:
    try:
        return read_cluster({"kind": "List", "items": items}, add_missing=True)
    except ClusterError as err:
        return err.args


def below(part: Any, path: tuple[str | int, ...]) -> Any:
    for step in path:
        part = part[step]
    return part


def test_a_null_field_is_an_unset_one() -> None:
    """A law: with any field null the cluster, or the refusal, is the one without the field; in a map of texts, with ""."""
    for path in (paths := list(fields_of(the_cluster()))):
        null, unset = the_cluster(), the_cluster()
        below(null, path[:-1])[path[-1]] = None
        if path[-2] in {"labels", "annotations", "nodeSelector", "matchLabels"}:
            below(unset, path[:-1])[path[-1]] = ""
        else:
            del below(unset, path[:-1])[path[-1]]
        assert read(null) == read(unset), path
    assert len(paths) > 80


@pytest.mark.parametrize("form", ["1500u", "1500000n", "0.0015", ".0015", "+15e-4", "15E-4", "2m"])
@pytest.mark.parametrize("spaces", [(",", ":"), (" ,\n ", " :\t")])
@pytest.mark.parametrize("key", ["requests", "limits"])
def test_amounts_are_rounded_up_to_thousandths_however_they_are_written(
    form: str, spaces: tuple[str, str], key: str, tmp_path: Path
) -> None:
    """Each container's for itself: 1.5 thousandths twice are 4."""
    amounts = {"nvidia.com/gpu": "1", "memory": "1Gi", "cpu": form}
    waiting, running = pod_manifest("waiting"), pod_manifest("running", on="n")
    waiting["spec"]["containers"] = [{"name": name, "resources": {key: amounts}} for name in "ab"]
    # Of a pod that is resized the larger counts: what it asks for or what it has.
    running["spec"]["containers"] = [{"name": name, "resources": {"requests": {**amounts, "cpu": "1m"}}} for name in "ab"]
    has = [{"name": name, "allocatedResources": amounts, "resources": {"requests": amounts}} for name in "ab"]
    running["status"] = {**running.get("status", {}), "containerStatuses": has}
    text = json.dumps({"kind": "List", "items": [node_manifest("n"), waiting, running]}, separators=spaces)
    for one in (text, text.replace(f'"{form}"', f'"\\u{ord(form[0]):04x}{form[1:]}"')):
        pods = load_cluster(str(one_file(one)(tmp_path))).pods
        assert [pod.kind.requests for pod in pods] == [amounts_of((4, 2 << 30))] * 2


def in_lists(items: list[Obj]) -> list[Obj]:
    """A list for each kind, as kubectl writes them: without the kind of each object, and with lists that have no object."""
    kinds = dict.fromkeys([*(item["kind"] for item in items), "Deployment", "Event"])
    of = {kind: [item for item in items if item["kind"] == kind] for kind in kinds}
    bare = {kind: [{k: v for k, v in item.items() if k not in {"kind", "apiVersion"}} for item in of[kind]] for kind in kinds}
    return [{"kind": f"{kind}List", "apiVersion": "v1", "metadata": {}, "items": bare[kind]} for kind in kinds]


def as_files(folder: Path, files: dict[str, str | bytes]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder


def one_file(text: str | bytes) -> Callable[[Path], Path]:
    return lambda folder: as_files(folder, {"cluster": text}) / "cluster"


def cluster_info_folder(folder: Path) -> Path:
    lists = {each["kind"]: json.dumps(each, indent=4) for each in in_lists(the_cluster())}
    return as_files(
        folder,
        {
            "nodes.json": lists["NodeList"],
            "shop/pods.json": lists["PodList"],
            "shop/replicasets.json": lists["ReplicaSetList"],
            "shop/events.json": lists["EventList"],
            "shop/budgets.json": lists["PodDisruptionBudgetList"],
            "shop/a/logs.txt": "{ not read",
        },
    )


def must_gather_folder(folder: Path) -> Path:
    """A pod is there twice: in the list of its namespace, and in its own file. Not all files are objects."""
    first, second, *others = the_cluster()
    return as_files(
        folder,
        {
            "image/version.json": '{"version": "4.19"}',
            "image/namespaces/shop/none.yaml": "# nothing\n",
            "image/cluster-scoped-resources/core/nodes/n1.yaml": f"---\n{json.dumps(first)}",
            "image/cluster-scoped-resources/core/nodes/n2.yaml": json.dumps(second),
            "image/namespaces/shop/core/pods.yaml": json.dumps(in_lists([a_full_pod()])[0]),
            "image/namespaces/shop/pods/a/a.yaml": json.dumps(a_full_pod()),
            "image/namespaces/shop/rest.json.gz": gzip.compress(json.dumps({"kind": "List", "items": others[1:]}).encode()),
            "image/namespaces/shop/pods/a/app/logs/current.log": "hello",
        },
    )


_LIST = json.dumps({"kind": "List", "items": the_cluster()})
_LOGS = "==== START logs for container app of pod shop/a ====\nhello\n{}\n==== END logs for container app of pod shop/a ====\n"
_FORMS: dict[str, Callable[[Path], Path]] = {
    "compressed": one_file(gzip.compress(_LIST.encode())),
    "array": one_file(json.dumps(the_cluster())),
    "a line an object": one_file("\n".join(json.dumps(each) for each in the_cluster())),
    "list after list": one_file("".join(json.dumps(each, indent=4) for each in in_lists(the_cluster()))),
    "cluster-info dump": one_file(_LOGS.join(json.dumps(each, indent=4) + "\n" for each in in_lists(the_cluster())) + _LOGS),
    "with a byte order mark": one_file(b"\xef\xbb\xbf" + _LIST.encode()),
    "list after list, each with a mark": one_file("".join(f"\ufeff{json.dumps(each)}\r\n" for each in in_lists(the_cluster()))),
    "PowerShell's UTF-16": one_file("\r\n".join(json.dumps(each) for each in in_lists(the_cluster())).encode("utf-16")),
    "cluster-info dump, a folder": cluster_info_folder,
    "must-gather": must_gather_folder,
}


@pytest.mark.parametrize("form", _FORMS)
def test_every_form_is_the_same_cluster(form: str, tmp_path: Path) -> None:
    found = load_cluster(str(_FORMS[form](tmp_path)))
    assert replace(found, unread=()) == read(the_cluster())
    silent = ("files without an object that says its kind: 2, such as image/namespaces/shop/none.yaml",)
    assert found.unread == (silent if form == "must-gather" else ())


def test_a_folder_of_other_files_is_named_where_no_node_and_no_pod_was_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """kubectl before 1.12 wrote dumps without kinds, and so does OpenShift's insights archive."""
    as_files(tmp_path, {"nodes.json": '{"Items": [{"name": "n1"}]}', "a/pods.json": '{"Items": []}'})
    assert main(["simulate", "placement", "--cluster", str(tmp_path), "-o", "table"]) == 2
    assert "not read: files without an object that says its kind: 2, such as a/pods.json" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({}, "the folder: got no .json, .yaml or .yml file, want what kubectl cluster-info dump writes"),
        ({"a/b.json": '{"kind": "Pod"'}, "a/b.json: neither JSON nor YAML: "),
        ({"a.json.gz": gzip.compress(b"{}" * 99)[:-9]}, "a.json.gz: compressed with gzip, and cannot be unpacked: "),
        ({"a.json": b"\xff\xfe{"}, "a.json: begins as UTF-16, and cannot be decoded: "),
        ({"a.json": json.dumps(the_cluster()[0]) + "\n==== START logs x\n{}"}, "a.json: neither JSON nor YAML: "),
        ({"a.json": json.dumps(the_cluster()[0]) * 2}, "document 1 (Node n1): is there twice, first at document 0"),
    ],
)
def test_what_cannot_be_read_is_named(files: dict[str, str | bytes], problem: str, tmp_path: Path) -> None:
    with pytest.raises(ClusterError) as err:
        load_cluster(str(as_files(tmp_path, files)))
    assert str(err.value).startswith(problem)


def test_logs_without_an_end_take_linear_time(tmp_path: Path) -> None:
    before = time.process_time()
    with pytest.raises(ClusterError):
        load_cluster(str(one_file(json.dumps(the_cluster()[0]) + "\n" + "==== START logs x\n" * 20_000)(tmp_path)))
    assert time.process_time() - before < 5  # 44 s if the end is looked for from each of them


def test_all_texts_of_a_folder_together_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "LARGEST_FILE", 1500)
    as_files(tmp_path, {"a.json": b"{}" * 500, "b.json.gz": gzip.compress(b" " * 501)})
    with pytest.raises(ClusterError, match=re.escape("b.json.gz: more than 1500 bytes with the files before it")):
        list(sources.contents(str(tmp_path)))


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="only Linux says what is mapped")
def test_a_small_file_takes_no_memory_mapping_of_its_own(tmp_path: Path) -> None:
    """Linux allows a process 65,530: a folder with more files ended with MemoryError."""
    as_files(tmp_path, {f"{number}.json": "{}" for number in range(200)})
    before = Path("/proc/self/maps").read_text().count("\n")
    kept = list(sources.contents(str(tmp_path)))
    assert Path("/proc/self/maps").read_text().count("\n") - before < len(kept) // 2


def test_objects_of_two_names_are_two_whatever_their_uids(tmp_path: Path) -> None:
    pods = [pod_manifest(name, meta={"uid": "u"}) for name in "ab"]
    found = load_cluster(str(one_file("".join(map(json.dumps, [node_manifest("n"), *pods])))(tmp_path)))
    assert [pod.key.name for pod in found.pods] == ["a", "b"]


@pytest.mark.parametrize(
    ("status", "removable"),
    [
        (None, 1),
        ({"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}, 1),
        ({"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 1, "expectedPods": 2, "observedGeneration": 1}, 0),
        ({"disruptionsAllowed": 0, "conditions": [{"type": "DisruptionAllowed", "status": "False"}]}, 0),
    ],
)
def test_a_budget_whose_status_was_never_observed_is_computed(status: Obj | None, removable: int) -> None:
    meta = {"labels": {"app": "web"}, **owned_by("web", uid="r")}
    ready = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    pods = [pod_manifest(f"p{at}", on=f"n{at}", meta=meta) | ready for at in range(2)]
    items = [*(node_manifest(f"n{at}") for at in range(2)), *pods, {**_BUDGET, "status": status}, _REPLICA_SET]
    assert len(scale_down_answer(read_cluster({"kind": "List", "items": items}), Settings()).removable) == removable


def config_map(name: str, text: str) -> Obj:
    return {"kind": "ConfigMap", "metadata": {"name": name, "namespace": "kube-system"}, "data": {"file": text}}


def test_configurations_among_the_objects_are_named_with_how_to_pass_them() -> None:
    theirs = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles: []\n"
    other = config_map("words", "say nothing of a KubeSchedulerConfiguration")
    maps = [
        config_map("scheduler", theirs),
        config_map("ours", json.dumps(HEAD)),
        config_map("ours-2", json.dumps(HEAD, indent=1)),
    ]
    cluster = read_cluster({"kind": "List", "items": [*the_cluster(), pod_manifest("new"), *maps, other, HEAD]})
    notes = (
        "the KubeSchedulerConfiguration in ConfigMap kube-system/scheduler, which is not read from here: "
        "name a file with it in extender.schedulerConfig of --config",
        "the SlackwaterConfiguration in ConfigMap kube-system/ours, which is not read from here: pass it with --config",
        "the SlackwaterConfiguration in ConfigMap kube-system/ours-2, which is not read from here: pass it with --config",
        "the SlackwaterConfiguration at items[10], which is not read from here: pass it with --config",
    )
    up, down, (line, *_) = (
        scale_up_answer(cluster, Settings()),
        scale_down_answer(cluster, Settings()),
        placement_lines(cluster),
    )
    explained = (
        explain_offline(cluster, Settings(), "pod", "shop", "new"),
        explain_offline(cluster, Settings(), "node", "", "n1"),
    )
    for said in (up.skipped, down.skipped, line.skipped, *(each.notes for each in explained)):
        assert tuple(said)[-4:] == notes


@pytest.mark.parametrize(
    ("api", "kind"),
    [
        ("config.openshift.io/v1", "Node"),
        ("longhorn.io/v1beta2", "Node"),
        ("batch.volcano.sh/v1alpha1", "Job"),
        ("serving.knative.dev/v1", "Service"),
        ("apps.kruise.io/v1beta1", "StatefulSet"),
    ],
)
def test_objects_of_other_apis_are_not_those_of_kubernetes(api: str, kind: str) -> None:
    other = {"apiVersion": api, "kind": kind, "metadata": {"name": "cluster", "namespace": "shop"}, "spec": {"tasks": []}}
    assert read([*the_cluster(), other]) == read(the_cluster())
