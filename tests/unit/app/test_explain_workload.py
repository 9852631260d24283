"""`slackwater explain deployment` and its like, from a file: which pods are missing and why, which have no node, which fail."""

import json
from pathlib import Path
from typing import Any

import pytest

from slackwater.cli.main import main
from tests.support.manifests import Obj, node_manifest, pod_manifest

CONTAINER = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}


def a_workload(kind: str = "ReplicaSet", name: str = "web", *, owner: str = "", status: Obj | None = None, **spec: Any) -> Obj:
    """A controller that the API server has; `owner` is the Deployment that has made it."""
    meta = {"name": name, "namespace": "shop", "uid": f"uid-{name}", "generation": 1}
    if owner:
        meta["ownerReferences"] = [
            {"apiVersion": "apps/v1", "kind": "Deployment", "name": owner, "uid": "d", "controller": True}
        ]
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [CONTAINER], **spec.pop("pod", {})}}
    body = {"selector": {"matchLabels": {"app": "web"}}, "template": template, **spec}
    api = "batch/v1" if kind == "Job" else "apps/v1"
    return {
        "apiVersion": api,
        "kind": kind,
        "metadata": meta,
        "spec": body,
        "status": {"observedGeneration": 1, **(status or {})},
    }


def a_pod(name: str, maker: str = "ReplicaSet/web", *, on: str | None = None, ready: bool = False, **status: Any) -> Obj:
    kind, _, owner = maker.partition("/")
    pod = pod_manifest(name, cpu="1", on=on)
    refs = [{"apiVersion": "apps/v1", "kind": kind, "name": owner, "uid": f"uid-{owner}", "controller": True}]
    pod["metadata"] |= {"uid": f"uid-{name}", "ownerReferences": refs}
    pod["status"] = {"phase": "Pending", "conditions": [{"type": "Ready", "status": str(ready)}], **status}
    return pod


def failed(message: str, about: str = "web", at: str = "2026-01-01T00:00:00Z") -> Obj:
    about_object = {"kind": "ReplicaSet", "name": about, "namespace": "shop"}
    meta = {"name": f"e-{at}", "namespace": "shop"}
    return {
        "kind": "Event",
        "metadata": meta,
        "reason": "FailedCreate",
        "involvedObject": about_object,
        "message": message,
        "lastTimestamp": at,
    }


def quota(hard: str, used: str) -> Obj:
    meta = {"name": "team", "namespace": "shop"}
    return {
        "kind": "ResourceQuota",
        "metadata": meta,
        "spec": {"hard": {"cpu": hard}},
        "status": {"hard": {"cpu": hard}, "used": {"cpu": used}},
    }


@pytest.fixture
def explain(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)

    def answer(what: str, *items: Obj) -> dict[str, Any]:
        path = tmp_path / "cluster.json"
        path.write_text(json.dumps({"kind": "List", "items": [node_manifest("n1"), *items]}))
        assert main(["explain", what, "-n", "shop", "--cluster", str(path), "-o", "json"]) == 0
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        return found

    return answer


def codes(answer: dict[str, Any]) -> list[str]:
    return [reason["code"] for reason in answer["reasons"]]


def test_a_deployment_counts_the_pods_of_its_replica_sets(explain: Any) -> None:
    sets = [a_workload(name="web-1", owner="web", replicas=1), a_workload(name="web-2", owner="web", replicas=2)]
    pods = [a_pod("a", "ReplicaSet/web-1", on="n1", ready=True), a_pod("b", "ReplicaSet/web-2"), a_pod("c", "ReplicaSet/other")]
    answer = explain("deploy/web", a_workload("Deployment", replicas=3), *sets, *pods)
    assert answer["facts"] == {"wanted": 3, "pods": 2, "ready": 1, "pending": 1, "missing": 1}
    assert answer["state"] == "short of pods"
    assert codes(answer) == ["not_made", "pods_pending"]


def test_missing_pods_of_a_new_replica_set_count_although_old_pods_stand_in(explain: Any) -> None:
    sets = [a_workload(name="web-1", owner="web", replicas=2), a_workload(name="web-2", owner="web", replicas=1)]
    pods = [a_pod(name, "ReplicaSet/web-1", on="n1", ready=True) for name in ("a", "b")]
    answer = explain("deploy/web", a_workload("Deployment", replicas=2), *sets, *pods, failed("boom", "web-2"))
    assert answer["facts"]["missing"] == 1
    assert answer["reasons"][0]["detail"] == "boom"


def test_a_quota_is_named_with_the_raise_that_admits_all_missing_pods(explain: Any) -> None:
    answer = explain("rs/web", a_workload(replicas=4), quota("2", "1"), a_pod("a", on="n1", ready=True))
    assert codes(answer) == ["quota_exceeded"]
    assert answer["reasons"][0]["objects"] == ["resourcequota team"]
    assert [remedy["change"] for remedy in answer["remedies"]] == ["raise cpu of ResourceQuota team from 2 to 4"]


@pytest.mark.parametrize(
    ("message", "code", "objects", "detail"),
    [
        (
            'pods "w" is forbidden: exceeded quota: team, requested: cpu=1, used: cpu=2, limited: cpu=2',
            "quota_exceeded",
            ["resourcequota team"],
            "limited: cpu=2",
        ),
        ('pods "w" is forbidden: maximum cpu usage per Container is 1, but limit is 2', "limit_range", [], "but limit is 2"),
        (
            'error looking up service account shop/robto: serviceaccount "robto" not found',
            "service_account_missing",
            ["serviceaccount robto"],
            "did you mean robot?",
        ),
        (
            'pods "w" is forbidden: no PriorityClass with name hihg was found',
            "priority_class_unknown",
            ["priorityclass hihg"],
            "did you mean high?",
        ),
        ('admission webhook "policy.example" denied the request: no', "pods_refused", [], "denied the request: no"),
    ],
)
def test_what_the_api_server_answered_the_controller_is_the_reason(
    explain: Any, message: str, code: str, objects: list[str], detail: str
) -> None:
    """The newest message counts."""
    known = [{"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1}]
    known.append({"kind": "ServiceAccount", "metadata": {"name": "robot", "namespace": "shop"}})
    old = failed("something else", at="2025-01-01T00:00:00Z")
    answer = explain("rs/web", a_workload(replicas=1), *known, failed(message, at="2026-01-01T00:00:00Z"), old)
    (reason,) = answer["reasons"]
    assert (reason["code"], reason["objects"]) == (code, objects)
    assert detail in reason["detail"]


def test_a_condition_of_the_replica_set_counts_before_events(explain: Any) -> None:
    condition = {"type": "ReplicaFailure", "status": "True", "message": "exceeded quota: team, requested"}
    answer = explain("rs/web", a_workload(replicas=1, status={"conditions": [condition]}), failed("boom"))
    assert codes(answer) == ["quota_exceeded"]


@pytest.mark.parametrize(
    ("workload", "pods", "code", "state"),
    [
        (a_workload("Job", suspend=True, parallelism=2), [], "suspended", "suspended"),
        (a_workload("Job", status={"conditions": [{"type": "Complete", "status": "True"}]}), [], "job_complete", "complete"),
        (a_workload("Job", managedBy="example.com/queue"), [], "not_made", "short of pods"),
        (a_workload("DaemonSet", pod={"nodeSelector": {"disk": "none"}}), [], "selects_no_node", "no nodes"),
        (a_workload("Deployment", paused=True, replicas=2), [], "paused", "short of pods"),
        (
            a_workload("StatefulSet", replicas=2),
            [a_pod("web-0", "StatefulSet/web", on="n1")],
            "awaits_ordinal",
            "short of pods",
        ),
        (
            a_workload("StatefulSet", replicas=2, podManagementPolicy="Parallel"),
            [a_pod("web-0", "StatefulSet/web", on="n1")],
            "not_made",
            "short of pods",
        ),
        (a_workload("DaemonSet", status={"desiredNumberScheduled": 1}), [], "not_made", "short of pods"),
        (a_workload(replicas=1, status={"observedGeneration": 0}), [], "not_observed", "short of pods"),
    ],
)
def test_what_wants_no_pods_now_says_so(explain: Any, workload: Obj, pods: list[Obj], code: str, state: str) -> None:
    answer = explain(f"{workload['kind'].lower()}/web", workload, *pods)
    assert codes(answer)[0] == code
    assert answer["state"] == state


def test_a_job_that_has_failed_says_so_in_its_controllers_words(explain: Any) -> None:
    condition = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "too often"}
    answer = explain("job/web", a_workload("Job", status={"conditions": [condition]}))
    assert (answer["state"], codes(answer)) == ("failed", ["job_failed"])
    assert answer["reasons"][0]["detail"] == "BackoffLimitExceeded: too often"


@pytest.mark.parametrize(
    ("spec", "known", "want"),
    [
        ({"runtimeClassName": "gviser"}, [{"kind": "RuntimeClass", "metadata": {"name": "gvisor"}, "handler": "h"}], "gvisor?"),
        (
            {"serviceAccountName": "robto"},
            [{"kind": "ServiceAccount", "metadata": {"name": "robot", "namespace": "shop"}}],
            "robot?",
        ),
        (
            {"priorityClassName": "urgent"},
            [{"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1}],
            "known are high",
        ),
    ],
)
@pytest.mark.parametrize("answered", [True, False])
def test_of_a_class_that_does_not_exist_a_larger_quota_is_no_remedy(
    explain: Any, spec: Obj, known: list[Obj], want: str, answered: bool
) -> None:
    """Whether the API server has answered the controller, or admission is judged here."""
    kind, name = known[0]["kind"], next(iter(spec.values()))
    said = f'pods "w" is forbidden: {_NOT_FOUND[kind].format(name)}'
    events = [failed(said)] if answered else []
    answer = explain("rs/web", a_workload(replicas=1, pod=spec), *known, quota("1", "1"), *events)
    (reason,) = answer["reasons"]
    assert (reason["objects"], answer["remedies"]) == ([f"{kind.lower()} {name}"], [])
    assert want in reason["detail"]


_NOT_FOUND = {
    "RuntimeClass": 'pod rejected: RuntimeClass "{}" not found',
    "ServiceAccount": 'error looking up service account shop/robto: serviceaccount "{}" not found',
    "PriorityClass": "no PriorityClass with name {} was found",
}


def test_pods_that_wait_are_explained_once_for_equal_specs(explain: Any) -> None:
    lost = a_pod("z")
    lost["spec"]["nodeSelector"] = {"disk": "none"}
    answer = explain("rs/web", a_workload(replicas=4), *(a_pod(name) for name in "abc"), lost)
    assert [(each["count"], each["pods"]) for each in answer["waiting"]] == [(3, ["a", "b", "c"]), (1, ["z"])]
    assert [each["explanation"]["state"] for each in answer["waiting"]] == ["schedulable", "pending"]
    assert answer["state"] == "pending"


def test_pods_that_fail_on_their_node_are_grouped_by_what_kubelets_say(explain: Any) -> None:
    waiting: dict[str, Any] = {"containerStatuses": [{"name": "c", "state": {"waiting": {"reason": "ImagePullBackOff"}}}]}
    answer = explain("rs/web", a_workload(replicas=2), a_pod("a", on="n1", **waiting), a_pod("b", on="n1", **waiting))
    (reason,) = answer["reasons"]
    assert (reason["code"], reason["detail"], reason["objects"]) == (
        "pods_unready",
        "2 pods: ImagePullBackOff",
        ["pod shop/a", "pod shop/b"],
    )
    assert answer["state"] == "not ready"


def test_a_complete_workload_has_no_reasons(explain: Any) -> None:
    answer = explain("rs/web", a_workload(replicas=1), a_pod("a", on="n1", ready=True), a_pod("old", phase="Failed"))
    assert (answer["state"], answer["reasons"], answer["facts"]["pods"]) == ("complete", [], 1)


def test_a_manifest_is_no_workload_without_pods(explain: Any) -> None:
    manifest = a_workload(replicas=1)
    del manifest["metadata"]["uid"]
    assert "it is a manifest" in explain("rs/web", manifest)["reasons"][0]["detail"]


def test_a_workload_may_want_billions_of_pods(explain: Any) -> None:
    answer = explain("rs/web", a_workload(replicas=2**31 - 1))
    assert (answer["facts"]["missing"], codes(answer)) == (2**31 - 1, ["not_made"])


def test_the_table_has_counts_and_each_group_of_pods(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "cluster.json"
    items = [node_manifest("n1"), a_workload(replicas=3), a_pod("a"), a_pod("b"), failed("boom")]
    path.write_text(json.dumps({"kind": "List", "items": items}))
    assert main(["explain", "rs", "web", "-n", "shop", "--cluster", str(path), "-o", "table"]) == 0
    said = capsys.readouterr().out
    for words in (
        "replicaset shop/web: short of pods",
        "refuses the pods (boom)",
        "2 pending, 1 missing",
        "pod a and 1 more: schedulable",
    ):
        assert words in said


@pytest.mark.parametrize(
    ("words", "code", "want"),
    [
        (
            ["deploy", "web", "-n", "shop", "--cluster", "F"],
            3,
            "deployment shop/web: is not in the file; one of this name is in namespace other",
        ),
        (["deploy", "web", "--cluster", "-"], 2, "--cluster: got -, want a file"),
        (["deploy", "web", "--cluster", "F", "--url", "http://127.0.0.1:1"], 2, "--cluster: got --url too"),
    ],
)
def test_what_cannot_be_explained_is_said(
    words: list[str], code: int, want: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    elsewhere = a_workload("Deployment")
    elsewhere["metadata"]["namespace"] = "other"
    (tmp_path / "F").write_text(json.dumps(elsewhere))
    assert main(["explain", *(str(tmp_path / "F") if word == "F" else word for word in words)]) == code
    assert want in capsys.readouterr().err
