"""`slackwater simulate placement`: files as kubectl writes them and as people write them, answers, exit codes."""

import copy
import io
import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from slackwater.app.offline import ClusterError, placement_lines, read_cluster
from slackwater.cli.main import main
from slackwater_protocol.names import GATE
from tests.support.answers import json_of
from tests.support.manifests import Obj, node_manifest, pod_manifest


def a_node(name: str, cpu: str, **spec: Any) -> Obj:
    return node_manifest(name, cpu=cpu, memory="8Gi", **spec)


def a_pod(name: str, cpu: str = "1", **spec: Any) -> Obj:
    return pod_manifest(name, cpu=cpu, meta={"labels": {"app": "web"}}, **spec)


NODES = [a_node("small", "2"), a_node("tainted", "8", taints=[{"key": "gpu", "effect": "NoSchedule"}])]
PODS = [a_pod("runs", nodeName="small"), a_pod("fits"), a_pod("large", "3")]
CLUSTER: Obj = {"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": [*NODES, *PODS]}
TAINTED = {
    "plugin": "TaintToleration",
    "reasons": ["node(s) had untolerated taint(s)"],
    "code": "UnschedulableAndUnresolvable",
}
TOO_LARGE = {"plugin": "NodeResourcesFit", "reasons": ["Insufficient cpu"], "code": "UnschedulableAndUnresolvable"}
WANT = [
    {"pod": "shop/fits", "feasible": ["small"], "rejected": {"tainted": TAINTED}},
    {"pod": "shop/large", "feasible": [], "rejected": {"small": TOO_LARGE, "tainted": TAINTED}},
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "cluster"


def placed(capsys: pytest.CaptureFixture[str], file: Path, *options: str) -> list[Obj]:
    assert main(["simulate", "placement", "--cluster", str(file), "-o", "json", *options]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return [json.loads(line) for line in out.splitlines()]


def said(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    assert main(["simulate", "placement", *argv]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    return err


FORMS = {
    "JSON as kubectl writes it": json.dumps(CLUSTER, indent=4),
    "JSON on one line": json.dumps(CLUSTER),
    "YAML as kubectl writes it": yaml.safe_dump(CLUSTER),
    "a stream of manifests": yaml.safe_dump_all([*NODES, *PODS], explicit_start=True),
    "a stream of lists": yaml.safe_dump_all([{**CLUSTER, "items": NODES}, {**CLUSTER, "items": PODS}]),
    "lists of one kind": yaml.safe_dump_all(
        [
            {"apiVersion": "v1", "kind": "NodeList", "items": [{k: v for k, v in n.items() if k != "kind"} for n in NODES]},
            {"apiVersion": "v1", "kind": "PodList", "items": PODS},
        ]
    ),
}


@pytest.mark.parametrize("text", FORMS.values(), ids=FORMS.keys())
def test_every_form_of_the_same_cluster_gets_the_same_answer(file: Path, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(text)
    assert placed(capsys, file) == WANT


def test_a_file_may_come_from_stdin(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(json.dumps(CLUSTER).encode())))
    assert placed(capsys, Path("-")) == WANT


def test_one_after_another_each_pod_takes_its_room(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(json.dumps({**CLUSTER, "items": [*NODES, a_pod("a"), a_pod("b"), a_pod("c")]}))
    want = [{"pod": "shop/a", "node": "small"}, {"pod": "shop/b", "node": "small"}, {"pod": "shop/c", "node": None}]
    assert placed(capsys, file, "--sequential") == want


def test_one_after_another_pods_that_no_scheduler_tries_take_no_room(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    leaving, gated, ours = (a_pod(name) for name in ("leaving", "gated", "ours"))
    leaving["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}
    gated["spec"]["schedulingGates"] = [{"name": "example.com/quota"}, {"name": GATE}]
    ours["spec"]["schedulingGates"] = [{"name": GATE}]
    file.write_text(json.dumps({**CLUSTER, "items": [*NODES, leaving, gated, a_pod("a"), ours, a_pod("b")]}))
    assert placed(capsys, file, "--sequential") == [
        {"pod": "shop/leaving", "node": None, "untried": "terminating"},
        {"pod": "shop/gated", "node": None, "untried": "gated: example.com/quota"},
        {"pod": "shop/a", "node": "small"},
        {"pod": "shop/ours", "node": "small"},
        {"pod": "shop/b", "node": None},
    ]
    assert main(["simulate", "placement", "--cluster", str(file), "--sequential", "-o", "table"]) == 0
    table = capsys.readouterr().out.splitlines()
    assert (table[1].split(maxsplit=1)[1], table[-1]) == ("- (terminating)", "2 of 5 pods placed")


def test_the_table_counts_reasons(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(json.dumps(CLUSTER))
    assert main(["simulate", "placement", "--cluster", str(file), "-o", "table"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "POD         NODES  WHY NOT THE OTHERS",
        "shop/fits   1/2    1 node(s) had untolerated taint(s)",
        "shop/large  0/2    1 Insufficient cpu, 1 node(s) had untolerated taint(s)",
        "1 of 2 pods fit somewhere",
    ]


def test_the_sequential_table_says_where(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(json.dumps(CLUSTER))
    assert main(["simulate", "placement", "--cluster", str(file), "--sequential", "-o", "table"]) == 0
    want = ["POD         NODE", "shop/fits   small", "shop/large  -", "1 of 2 pods placed"]
    assert capsys.readouterr().out.splitlines() == want


CLAIM = [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]


@pytest.mark.parametrize("option", [[], ["--sequential"]], ids=["placement", "sequential"])
def test_a_kind_that_the_file_lacks_is_unknown_and_the_answer_says_so(
    file: Path, option: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(json.dumps({**CLUSTER, "items": [*NODES, a_pod("stores", volumes=CLAIM)]}))
    (line,) = placed(capsys, file, *option)
    assert line.get("feasible", [line.get("node")]) == ["small"]
    assert "VolumeBinding, VolumeZone: no PersistentVolume in the file" in line["skipped"]
    assert main(["simulate", "placement", "--cluster", str(file), "-o", "table", *option]) == 0
    assert "\nnot judged: VolumeBinding, VolumeZone: no PersistentVolume in the file\n" in capsys.readouterr().out


def test_room_for_new_volumes_is_not_judged_without_published_capacity(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": "s", "resources": {"requests": {"storage": "1Ti"}}}
    storage = [
        {"kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": "shop"}, "spec": spec},
        {
            "kind": "StorageClass",
            "metadata": {"name": "s"},
            "provisioner": "csi.example.com",
            "volumeBindingMode": "WaitForFirstConsumer",
        },
        {"kind": "CSIDriver", "metadata": {"name": "csi.example.com"}, "spec": {"storageCapacity": True}},
    ]
    file.write_text(json.dumps({**CLUSTER, "items": [*NODES, *storage, a_pod("stores", volumes=CLAIM)]}))
    (line,) = placed(capsys, file)
    assert line["feasible"] == ["small"]
    assert "VolumeBinding (room for new volumes): no CSIStorageCapacity in the file" in line["skipped"]


def test_without_nodes_no_rule_was_judged(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(yaml.safe_dump(a_pod("alone")))
    assert placed(capsys, file) == [
        {"pod": "shop/alone", "feasible": [], "rejected": {}, "skipped": ["all rules: no Node in the file"]}
    ]


def test_claims_of_devices_that_the_file_lacks_are_refused_visibly(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    claims = [{"name": "gpu", "resourceClaimName": "gpu"}]
    file.write_text(json.dumps({**CLUSTER, "items": [*NODES, a_pod("device", resourceClaims=claims)]}))
    (line,) = placed(capsys, file)
    assert line["feasible"] == []
    want = {"plugin": "DynamicResources", "reasons": ['could not find ResourceClaim "shop/gpu"']}
    assert line["rejected"]["small"] == {**want, "code": "UnschedulableAndUnresolvable"}
    assert "DynamicResources: no ResourceSlice in the file" in line["skipped"]


def test_device_taint_rules_that_the_version_does_not_read_are_named_for_pods_that_may_get_devices(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rule = {"kind": "DeviceTaintRule", "metadata": {"name": "broken"}, "spec": {"taint": {"effect": "NoSchedule"}}}
    claims, extended = a_pod("claims", resourceClaims=[{"name": "gpu", "resourceClaimName": "gpu"}]), a_pod("extended")
    extended["spec"]["containers"][0]["resources"] = {"limits": {"example.com/gpu": "1"}}
    pods = [claims, extended, a_pod("plain")]
    want = "DynamicResources (taints by rule): the DeviceTaintRules in the file do not count: "
    want += "in Kubernetes 1.36.3 the feature gate DRADeviceTaintRules is off"
    for rules, want_named in (([rule], [True, True, False]), ([], [False, False, False])):
        file.write_text(json.dumps({**CLUSTER, "items": [*NODES, *rules, *pods]}))
        assert [want in line.get("skipped", []) for line in placed(capsys, file)] == want_named


def test_our_own_rules_are_added_on_request(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bare = a_pod("bare")
    bare["spec"]["containers"][0]["resources"] = {}
    file.write_text(json.dumps({**CLUSTER, "items": [*NODES, bare]}))
    assert placed(capsys, file)[0]["feasible"] == ["small"]
    (line,) = placed(capsys, file, "--accounting")
    assert line["rejected"]["small"]["plugin"] == "Slackwater"


def _with(index: int, change: Obj) -> str:
    items = [dict(item) for item in (*NODES, *PODS)]
    items[index] |= change
    return json.dumps({**CLUSTER, "items": items})


BROKEN = {
    "cut short": (json.dumps(CLUSTER)[:-9], "the file: neither JSON nor YAML"),
    "empty": ("", "the file: it is empty"),
    "no object": ("[1, 2]", "document 0: got 1, want an object"),
    "no kind": ('{"items": []}', "kind: got None, want the kind of the object"),
    "no name": (_with(1, {"metadata": {}}), "items[1].metadata.name (Node): got None, want a name"),
    "no quantity": (
        _with(0, {"status": {"allocatable": {"cpu": "lots"}}}),
        "items[0].status.allocatable.cpu (Node small): quantity 'lots': want a number",
    ),
    "odd pod": (_with(3, {"spec": {"containers": 7}}), "items[3].spec.containers (Pod shop/fits): got int, want array"),
    "null for a container": (
        _with(3, {"spec": {"containers": [None]}}),
        "items[3].spec.containers[0] (Pod shop/fits): got null, want object",
    ),
    "no time": (
        _with(0, {"metadata": {"name": "small", "creationTimestamp": "yesterday"}}),
        "items[0] (Node small): metadata.creationTimestamp: got 'yesterday', want a time like 2026-01-31T00:00:00Z",
    ),
    "nested lists": ("[" * 2000 + "]" * 2000, "the file: lists or objects are nested too deeply"),
    "nested lists in JSON": (_with(0, {"spec": []})[:-1] + ', "more": ' + "[" * 2000 + "]" * 2000 + "}", "the file: lists or"),
    "nested beyond the stack": ("[" * 100_000, "the file: lists or objects are nested too deeply"),
    "aliases of aliases": (
        "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
        + "".join(f"{one}: &{one} [{','.join([f'*{other}'] * 10)}]\n" for other, one in pairwise("abcdefgh")),
        "the file: neither JSON nor YAML: aliases for more than 1000000 values",
    ),
    "too many digits": (
        "kind: Pod\nmetadata: {name: p}\nspec: {priority: " + "9" * 5000 + "}\n",
        "the file: neither JSON nor YAML: the number 99999999999999999999... on line 3",
    ),
    "twice": (_with(4, {"metadata": PODS[1]["metadata"]}), "items[4] (Pod shop/fits): is there twice, first at items[3]"),
}


@pytest.mark.parametrize(("text", "want"), BROKEN.values(), ids=BROKEN.keys())
def test_what_cannot_be_read_is_named_by_file_place_and_object(
    file: Path, text: str, want: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(text)
    assert said(capsys, "--cluster", str(file)).startswith(f"slackwater: {file}: {want}")


def test_text_that_is_not_utf_8_is_refused(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_bytes(b'{"kind": "List", "items": ["\xff"]}')
    assert said(capsys, "--cluster", str(file)).startswith(f"slackwater: {file}: ")


def _places(part: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The path of every value below a tree."""
    steps: Iterable[tuple[str | int, object]] = ()
    if isinstance(part, dict):
        steps = part.items()
    elif isinstance(part, list):
        steps = enumerate(part)
    for step, value in steps:
        yield (*path, step)
        yield from _places(value, (*path, step))


_FULL = {
    **CLUSTER,
    "items": [
        *NODES,
        *PODS,
        a_pod("rules", affinity={"nodeAffinity": {}}, tolerations=[{"key": "gpu", "operator": "Exists"}], priority=7),
        {"kind": "PodDisruptionBudget", "metadata": {"name": "b"}, "spec": {"selector": {"matchLabels": {"app": "web"}}}},
        {"kind": "PersistentVolumeClaim", "metadata": {"name": "c"}, "spec": {"resources": {"requests": {"storage": "1Gi"}}}},
        {"kind": "Service", "metadata": {"name": "s", "namespace": "shop"}, "spec": {"selector": {"app": "web"}}},
    ],
}
_ODD: st.SearchStrategy[object] = st.sampled_from(
    [None, [], {}, [None], {"a": None}, 7, -1, 2**80, 1e300, True, "", "yesterday", "9" * 400, [[[[]]]]]
)


@given(place=st.sampled_from(sorted(_places(_FULL), key=repr)), odd=_ODD)
def test_whatever_is_odd_in_a_file_there_is_an_answer_or_a_clear_error(place: tuple[str | int, ...], odd: object) -> None:
    changed = copy.deepcopy(_FULL)
    part: Any = changed
    for step in place[:-1]:
        part = part[step]
    part[place[-1]] = odd
    with suppress(ClusterError):
        for line in map(json_of, placement_lines(read_cluster(changed))):
            assert line.keys() == {"pod", "feasible", "rejected"}


def test_a_file_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    err = said(capsys, "--cluster", str(tmp_path / "nowhere"))
    assert err == f"slackwater: {tmp_path / 'nowhere'}: the file: cannot be read: No such file or directory\n"


def test_help_shows_how_to_get_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "placement", "--help"]) == 0
    assert "kubectl get nodes,pods," in capsys.readouterr().out
