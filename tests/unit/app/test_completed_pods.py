"""How the pods of files are completed: as the API server would, and without parsing what is complete already."""

from typing import Any

import msgspec
import pytest

from slackwater.adapters.api_objects import without_nulls
from slackwater.app.offline.completed import completed_pod
from slackwater.app.offline.objects import FoundObject, objects_by_kind

_TOLERATIONS = [
    {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    for key in ("not-ready", "unreachable")
]
_AMOUNTS = {"cpu": "100m", "memory": "64Mi"}


def _container(name: str = "app", **more: Any) -> dict[str, Any]:
    return {"name": name, "env": [{"name": "A", "value": "0.5"}], **more}


def _found(spec: dict[str, Any], status: dict[str, Any] | None = None) -> FoundObject:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "uid": "u"}, "spec": spec, "status": status or {}}
    return objects_by_kind([msgspec.Raw(msgspec.json.encode(pod))], ["Pod"])[0]["Pod"][0]


_SPECS: list[dict[str, Any]] = [
    {},
    {"containers": [_container()]},
    {"containers": [_container(resources={"requests": _AMOUNTS})], "tolerations": _TOLERATIONS},
    {"containers": [_container(resources={"limits": _AMOUNTS})], "tolerations": _TOLERATIONS[:1]},
    {"containers": [_container(resources={"limits": _AMOUNTS, "requests": {"cpu": "1"}})]},
    {"initContainers": [_container("init", resources={"limits": _AMOUNTS})], "containers": [_container()]},
    {"hostNetwork": True, "containers": [_container(ports=[{"containerPort": 80}, {"containerPort": 1, "hostPort": 2}])]},
    {"hostNetwork": False, "containers": [_container(ports=[{"containerPort": 80}])]},
    {"containers": [_container()], "resources": {"limits": {"cpu": "1"}}},
    {"containers": [_container(resources={"requests": {"cpu": "1"}})], "resources": {"requests": {"memory": "1Gi"}}},
    {"containers": [_container()], "tolerations": [{"operator": "Exists"}]},
    {"containers": [_container()], "tolerations": [{"operator": "Exists", "effect": "NoSchedule"}]},
    {"containers": [_container()], "tolerations": [{"key": "node.kubernetes.io/unreachable"}]},
]


@pytest.mark.parametrize("spec", _SPECS)
def test_a_pod_whose_parts_are_bytes_is_completed_as_any_other(spec: dict[str, Any]) -> None:
    want = completed_pod({"spec": spec})["spec"]
    assert _found(spec).decoded(msgspec.json.decode)["spec"] == msgspec.json.decode(msgspec.json.encode(want))


@pytest.mark.parametrize("amount", ["100n", "0.1234", "1e-4", "1500u", "12E-5"])
@pytest.mark.parametrize("place", ["requests", "limits", "overhead", "allocated", "actual", "whole"])
def test_an_amount_below_a_thousandth_is_rounded_up_wherever_it_is(amount: str, place: str) -> None:
    amounts = {"cpu": amount}
    asks: dict[str, Any] = {"resources": {place: amounts}} if place in {"requests", "limits"} else {}
    spec: dict[str, Any] = {"containers": [_container(**asks)], **({"overhead": amounts} if place == "overhead" else {})}
    reported: dict[str, dict[str, Any]] = {
        "allocated": {"allocatedResources": amounts},
        "actual": {"resources": {"requests": amounts}},
    }
    status: dict[str, Any] = {"containerStatuses": [{"name": "app", **reported.get(place, {})}]}
    status |= {"allocatedResources": amounts} if place == "whole" else {}
    body = _found(spec, status).decoded(msgspec.json.decode)
    assert amount not in msgspec.json.encode(body).decode()
    assert body["spec"]["containers"][0]["env"] == [{"name": "A", "value": "0.5"}]


def test_what_an_api_server_has_completed_stays_bytes() -> None:
    asks = {"requests": _AMOUNTS, "limits": {"memory": "64Mi"}}
    seen = list[bytes]()
    spec = {"containers": [_container(resources=asks)], "tolerations": _TOLERATIONS, "volumes": [{"name": "v", "emptyDir": {}}]}
    text = msgspec.json.format(msgspec.json.encode(spec))
    raw = b'{"kind": "Pod", "metadata": {"name": "a", "uid": "u"}, "spec": %s, "status": {}}' % text
    objects_by_kind([msgspec.Raw(raw)], ["Pod"])[0]["Pod"][0].decoded(seen.append)
    for part in msgspec.json.decode(text, type=dict[str, msgspec.Raw]).values():
        assert bytes(part) in seen[0]  # with the spaces that encoding would drop


def test_only_the_null_of_a_probe_is_taken_out_of_the_text() -> None:
    usual = b'{"status": {"conditions": [{"lastProbeTime": null, "type": "Ready"}, {"lastProbeTime":null,"type":"B"}]}}'
    assert without_nulls(usual) == b'{"status": {"conditions": [{ "type": "Ready"}, {"type":"B"}]}}'
    for text, want in (
        (b'{"a":[{"type":"B","lastProbeTime":null}]}', {"a": [{"type": "B"}]}),
        (b'{"lastProbeTime":null,"b":null,"labels":{"c":null}}', {"labels": {"c": ""}}),
        (b'{"a\\"lastProbeTime":null,"b":"c"}', {"b": "c"}),
        (b'{"b":"\\"lastProbeTime\\":null,"}', {"b": '"lastProbeTime":null,'}),
    ):
        assert msgspec.json.decode(without_nulls(text)) == want
