"""The extender wire by example. The Go bodies were written by encoding/json from k8s.io/kube-scheduler 0.36.3."""

import json
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from slackwater_protocol.extender import (
    ExtenderArgs,
    ExtenderBindingArgs,
    ExtenderBindingResult,
    ExtenderFilterResult,
    ExtenderPreemptionArgs,
    ExtenderPreemptionResult,
    HostPriority,
    HostPriorityList,
    MetaPod,
    MetaVictims,
    Victims,
)

POD: dict[str, Any] = {
    "metadata": {"name": "p", "namespace": "ns", "uid": "u-1"},
    "spec": {"containers": None},
    "status": {},
}
POD_JSON = '{"metadata":{"name":"p","namespace":"ns","uid":"u-1"},"spec":{"containers":null},"status":{}}'
NODES: dict[str, Any] = {"metadata": {}, "items": [{"metadata": {"name": "n1"}, "spec": {}}]}
NODES_JSON = '{"metadata":{},"items":[{"metadata":{"name":"n1"},"spec":{}}]}'

#: What Go wrote, byte for byte what we write too, and what it means.
GO_BODIES: list[Any] = [
    pytest.param(
        '{"Pod":' + POD_JSON + ',"Nodes":null,"NodeNames":["n1","n2"]}',
        ExtenderArgs(pod=POD, node_names=["n1", "n2"]),
        id="args, cache capable",
    ),
    pytest.param(
        '{"Pod":' + POD_JSON + ',"Nodes":' + NODES_JSON + ',"NodeNames":null}',
        ExtenderArgs(pod=POD, nodes=NODES),
        id="args, not cache capable",
    ),
    pytest.param(
        '{"Nodes":null,"NodeNames":["n1","n2"],"FailedNodes":{"n3":"full"},'
        '"FailedAndUnresolvableNodes":{"n4":"gone"},"Error":"x"}',
        ExtenderFilterResult(
            node_names=["n1", "n2"],
            failed_nodes={"n3": "full"},
            failed_and_unresolvable_nodes={"n4": "gone"},
            error="x",
        ),
        id="filter result",
    ),
    pytest.param(
        '[{"Host":"n1","Score":10},{"Host":"n2","Score":0}]',
        HostPriorityList([HostPriority(host="n1", score=10), HostPriority(host="n2", score=0)]),
        id="priorities",
    ),
    pytest.param(
        '{"PodName":"p","PodNamespace":"ns","PodUID":"u-1","Node":"n1"}',
        ExtenderBindingArgs(pod_name="p", pod_namespace="ns", pod_uid="u-1", node="n1"),
        id="binding",
    ),
    pytest.param('{"Error":"no"}', ExtenderBindingResult(error="no"), id="binding result"),
    pytest.param(
        '{"NodeNameToMetaVictims":{"n1":{"Pods":[{"UID":"u-2"}],"NumPDBViolations":1}}}',
        ExtenderPreemptionResult(
            node_name_to_meta_victims={"n1": MetaVictims(pods=[MetaPod(uid="u-2")], num_pdb_violations=1)}
        ),
        id="preemption result",
    ),
]

#: Go writes null for what is empty; we write the empty value.
GO_BODIES_WITH_NULLS: list[Any] = [
    pytest.param(
        '{"Nodes":null,"NodeNames":null,"FailedNodes":null,"FailedAndUnresolvableNodes":null,"Error":""}',
        ExtenderFilterResult(),
        id="filter result",
    ),
    pytest.param("null", HostPriorityList([]), id="priorities"),
    pytest.param(
        '{"Pod":' + POD_JSON + ',"NodeNameToVictims":null,'
        '"NodeNameToMetaVictims":{"n1":{"Pods":[{"UID":"u-2"}],"NumPDBViolations":1}}}',
        ExtenderPreemptionArgs(
            pod=POD, node_name_to_meta_victims={"n1": MetaVictims(pods=[MetaPod(uid="u-2")], num_pdb_violations=1)}
        ),
        id="preemption, cache capable",
    ),
    pytest.param(
        '{"Pod":' + POD_JSON + ',"NodeNameToVictims":{"n1":{"Pods":[' + POD_JSON + '],"NumPDBViolations":0},'
        '"n2":{"Pods":null,"NumPDBViolations":0}},"NodeNameToMetaVictims":null}',
        ExtenderPreemptionArgs(pod=POD, node_name_to_victims={"n1": Victims(pods=[POD]), "n2": Victims()}),
        id="preemption, not cache capable",
    ),
    pytest.param('{"NodeNameToMetaVictims":null}', ExtenderPreemptionResult(), id="preemption result"),
]


@pytest.mark.parametrize(("body", "want"), GO_BODIES + GO_BODIES_WITH_NULLS)
def test_bodies_of_go_are_read(body: str, want: BaseModel) -> None:
    assert type(want).model_validate_json(body) == want
    assert type(want).model_validate(json.loads(body)) == want


@pytest.mark.parametrize(("want", "value"), GO_BODIES)
def test_bodies_are_written_as_go_writes_them(want: str, value: BaseModel) -> None:
    assert value.model_dump_json() == want
    assert value.model_dump(mode="json") == json.loads(want)


@pytest.mark.parametrize("case", [str.lower, str.upper, str.swapcase], ids=["lower", "upper", "swapped"])
def test_keys_are_read_in_any_case_but_not_those_inside_a_pod(case: Any) -> None:
    pod = {"Metadata": {"NAME": "p"}}
    body = {
        case("Pod"): pod,
        case("NodeNameToMetaVictims"): {"Node-1": {case("Pods"): [{case("UID"): "u"}], case("NumPDBViolations"): 2}},
    }
    want = MetaVictims(pods=[MetaPod(uid="u")], num_pdb_violations=2)
    args = ExtenderPreemptionArgs.model_validate_json(json.dumps(body))
    assert args == ExtenderPreemptionArgs(pod=pod, node_name_to_meta_victims={"Node-1": want})


def test_the_last_of_two_keys_that_differ_in_case_wins_as_in_go() -> None:
    assert ExtenderBindingResult.model_validate_json('{"Error":"first","error":"last"}').error == "last"


def test_unknown_keys_are_ignored() -> None:
    body = '{"PodName":"p","PodNamespace":"ns","PodUID":"u","Node":"n","Later":{"Node":"other"}}'
    want = ExtenderBindingArgs(pod_name="p", pod_namespace="ns", pod_uid="u", node="n")
    assert ExtenderBindingArgs.model_validate_json(body) == want


@pytest.mark.parametrize(
    ("model", "body", "want_path"),
    [
        (ExtenderArgs, "{}", ("Pod",)),
        (ExtenderArgs, '{"pod":null}', ("Pod",)),
        (ExtenderArgs, '{"pod":[]}', ("Pod",)),
        (ExtenderArgs, '{"pod":{},"nodenames":"n1"}', ("NodeNames",)),
        (ExtenderArgs, '{"pod":{},"nodenames":["n1",2]}', ("NodeNames", 1)),
        (ExtenderArgs, "[]", ()),
        (ExtenderBindingArgs, '{"podName":"p","podNamespace":"ns","podUID":"u"}', ("Node",)),
        (ExtenderBindingArgs, '{"podName":3,"podNamespace":"ns","podUID":"u","node":"n"}', ("PodName",)),
        (HostPriorityList, '[{"host":"n","score":"3"}]', (0, "Score")),
        (HostPriorityList, '[{"host":"n","score":3.0}]', (0, "Score")),
        (HostPriorityList, '[{"host":"n","score":true}]', (0, "Score")),
        (HostPriorityList, '[{"host":"n","score":9223372036854775808}]', (0, "Score")),
        (
            ExtenderPreemptionResult,
            '{"nodeNameToMetaVictims":{"n":{"pods":[{}]}}}',
            ("NodeNameToMetaVictims", "n", "Pods", 0, "UID"),
        ),
    ],
)
def test_a_body_that_lacks_or_mistakes_something_is_refused_with_its_path(
    model: type[BaseModel], body: str, want_path: tuple[str | int, ...]
) -> None:
    with pytest.raises(ValidationError) as refused:
        model.model_validate_json(body)
    assert [error["loc"] for error in refused.value.errors()] == [want_path]


def test_bodies_cannot_be_changed_after_they_were_read() -> None:
    result = ExtenderBindingResult()
    with pytest.raises(ValidationError, match="frozen"):
        result.error = "late"
