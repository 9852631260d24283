"""A pod read by its likeness to one before it has the kind that it would have on its own."""

import json
from collections.abc import Sequence
from itertools import combinations, product
from typing import Any, Final, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.adapters.kube.decode import PodDecoder
from slackwater.adapters.kube.pod_requests import Ask
from slackwater.adapters.kube.pod_signature import plain_signature
from slackwater.adapters.kube.structs import PodWire
from slackwater.model.kubernetes_rules import DEFAULT_VERSION, SUPPORTED, KubernetesVersion
from slackwater.model.pod_constraints import Kind, KindInterner
from tests.bench.objects import a_plain_pod, a_realistic_pod
from tests.oracle.generator import generate

#: The request formula differs between these two.
_VERSIONS: Final = (DEFAULT_VERSION, KubernetesVersion.parse(SUPPORTED[-1]))
_SMALL: Final = {"cpu": "1", "memory": "1Gi"}
_LARGE: Final = {"cpu": "2", "memory": "1Gi", "example.com/gpu": "1"}
_RULE: Final = {"action": "RestartAllContainers"}
_APP: Final = {"matchLabels": {"app": "a"}}
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_ZONES: Final = {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}

#: What may stand in a container; the first is plain.
_CONTAINERS: Final[tuple[dict[str, Any], ...]] = (
    {"resources": {"requests": _SMALL}},
    {},
    {"resources": {"requests": _LARGE}},
    {"resources": {"requests": _SMALL, "limits": _LARGE}},
    {"resources": {"limits": _SMALL}},
    {"image": "other"},
    {"name": "other"},
    {"restartPolicy": "Always", "resources": {"requests": _SMALL}},
    {"restartPolicy": "Never"},
    {"restartPolicy": "Never", "restartPolicyRules": [_RULE]},
    {"ports": [{"containerPort": 80}]},
    {"ports": [{"containerPort": 80, "hostPort": 80}]},
    {"ports": [{"containerPort": 80, "hostPort": 81, "protocol": "UDP", "hostIP": "10.0.0.1"}]},
)
_STATUSES: Final[tuple[dict[str, Any], ...]] = (
    {},
    {"resources": {"requests": _SMALL}, "allocatedResources": _SMALL},
    {"resources": {"requests": _LARGE}, "allocatedResources": _SMALL},
    {"resources": {"requests": _SMALL}, "allocatedResources": _LARGE},
    {"resources": {"requests": _SMALL}},
)


def _terms(term: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    return tuple(
        {field: {strength: [term if strength == _REQUIRED else {"weight": 5, "podAffinityTerm": term}]}}
        for field in ("podAffinity", "podAntiAffinity")
        for strength in (_REQUIRED, _PREFERRED)
    )


#: Every part of a pod that a kind is read from, and what may stand there; the first of each is plain.
_PARTS: Final[dict[str, tuple[Any, ...]]] = {
    "metadata.namespace": ("default", "other"),
    "metadata.labels": (None, {"app": "a"}, {"app": "b"}, {"app": "a", "version": "1"}),
    "metadata.annotations": (None, {"slackwater.dev/bounds": '{"min":{"cpu":1,"mem":"1Gi"},"max":{"cpu":2,"mem":"2Gi"}}'}),
    "spec.nodeName": (None, "n1"),
    "spec.schedulerName": (None, "slackwater"),
    "spec.preemptionPolicy": (None, "Never", "PreemptLowerPriority"),
    "spec.priority": (None, 7),
    "spec.overhead": (None, {"cpu": "1"}, {"memory": "1Gi"}),
    "spec.resources": (None, {"requests": _SMALL}, {"requests": _LARGE}),
    "spec.nodeSelector": (None, {"zone": "a"}, {"zone": "b"}, {"zone": "a", "disk": "ssd"}),
    "spec.tolerations": (None, [{"operator": "Exists"}], [{"key": "k", "value": "v"}]),
    "spec.hostNetwork": (None, True),
    "spec.hostUsers": (None, False, True),
    "spec.resourceClaims": (None, [{"name": "gpu"}], [{"name": "nic"}]),
    "spec.affinity": (
        None,
        {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": [_ZONES]}}},
        {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": []}}},
        {"nodeAffinity": {_PREFERRED: [{"weight": 1, "preference": _ZONES}]}},
        *_terms({"topologyKey": "zone", "labelSelector": _APP}),
        *_terms({"topologyKey": "zone", "labelSelector": _APP, "matchLabelKeys": ["version"]}),
        *_terms({"topologyKey": "zone", "labelSelector": _APP, "mismatchLabelKeys": ["version"]}),
    ),
    "spec.topologySpreadConstraints": (
        None,
        [{"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": _APP}],
        [{"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": _APP}],
        [{"topologyKey": "zone", "labelSelector": _APP, "matchLabelKeys": ["version"]}],
    ),
    "spec.volumes": (
        None,
        [{"name": "v", "secret": {"secretName": "s"}}],
        [{"name": "v", "image": {"reference": "big"}}],
        [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}],
        [{"name": "v", "ephemeral": {}}],
        [{"name": "v", "gcePersistentDisk": {"pdName": "d"}}],
        [{"name": "v", "awsElasticBlockStore": {"volumeID": "d"}}],
        [{"name": "v", "iscsi": {"iqn": "d"}}],
        [{"name": "v", "rbd": {"image": "d"}}],
        [{"name": "v", "azureDisk": {"diskURI": "d"}}],
        [{"name": "v", "cinder": {"volumeID": "d"}}],
        [{"name": "v", "portworxVolume": {"volumeID": "d"}}],
    ),
    "app": _CONTAINERS,
    "second": (None, *_CONTAINERS),
    "init": (None, *_CONTAINERS),
    "appStatus": (None, *_STATUSES),
    "initStatus": (None, *_STATUSES),
    "status.conditions": (None, [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]),
    "status.resources": (None, {"requests": _SMALL}, {"requests": _LARGE}, {"limits": _LARGE}),
    "status.allocatedResources": (None, _SMALL, _LARGE),
}
_choices: Final = st.fixed_dictionaries({part: st.sampled_from(values) for part, values in _PARTS.items()})
_plain_but_for: Final = st.dictionaries(st.sampled_from(sorted(_PARTS)), st.integers(0, 12), max_size=3)


def _body(chosen: dict[str, Any], number: int) -> dict[str, Any]:
    parts: dict[str, dict[str, Any]] = {"metadata": {"name": f"p{number}", "uid": f"u{number}"}, "spec": {}, "status": {}}
    for part, value in chosen.items():
        section, _, key = part.partition(".")
        if key and value is not None:
            parts[section][key] = value
    containers = [{"name": name, "image": "i", **c} for name, c in _named(chosen, "app", "second")]
    inits = [{"name": name, "image": "i", **c} for name, c in _named(chosen, "init")]
    parts["spec"] |= {"containers": containers} | ({"initContainers": inits} if inits else {})
    parts["status"]["containerStatuses"] = [{**s, "name": "app"} for _, s in _named(chosen, "appStatus")]
    parts["status"]["initContainerStatuses"] = [{**s, "name": "init"} for _, s in _named(chosen, "initStatus")]
    return {"kind": "Pod", **parts}


def _named(chosen: dict[str, Any], *parts: str) -> list[tuple[str, dict[str, Any]]]:
    return [(part, chosen[part]) for part in parts if chosen[part] is not None]


def _nearly_plain(but_for: dict[str, int]) -> dict[str, Any]:
    return {part: values[but_for.get(part, 0) % len(values)] for part, values in _PARTS.items()}


def _alone(raw: bytes, version: KubernetesVersion = DEFAULT_VERSION) -> Kind:
    """A decoder that has read nothing before can find no likeness."""
    return PodDecoder(KindInterner(), version).decode(raw).kind


def _agree(bodies: list[dict[str, Any]], versions: Sequence[KubernetesVersion] = _VERSIONS) -> None:
    for version in versions:
        after_others = PodDecoder(KindInterner(), version)
        for body in bodies:
            raw = json.dumps(body).encode()
            assert after_others.decode(raw).kind == _alone(raw, version)


@given(st.lists(_plain_but_for, min_size=2, max_size=8))
def test_pods_that_differ_in_little_have_their_own_kinds(pods: list[dict[str, int]]) -> None:
    _agree([_body(_nearly_plain(but_for), number) for number, but_for in enumerate(pods)])


@given(_choices, st.lists(_plain_but_for, min_size=1, max_size=5))
def test_pods_that_differ_in_little_from_any_pod_have_their_own_kinds(
    first: dict[str, Any], others: list[dict[str, int]]
) -> None:
    changed = [{part: _PARTS[part][n % len(_PARTS[part])] for part, n in but_for.items()} for but_for in others]
    _agree([_body({**first, **change}, number) for number, change in enumerate([{}, *changed])])


@pytest.mark.parametrize("node", [0, 1], ids=["pending", "placed"])
def test_every_two_differences_of_a_plain_pod_are_seen(node: int) -> None:
    """All pairs: some parts matter only together, such as a pod's labels and rules that read them."""
    bodies: list[dict[str, Any]] = []
    for one, other in combinations(_PARTS, 2):
        for first, second in product(range(len(_PARTS[one])), range(len(_PARTS[other]))):
            bodies.append(_body(_nearly_plain({"spec.nodeName": node, one: first, other: second}), len(bodies)))
    _agree(bodies, _VERSIONS if node else _VERSIONS[:1])  # the status counts for pods with a node only


def test_rules_that_read_labels_are_found_however_they_are_written() -> None:
    """JSON may write any letter as an escape."""
    after_others = PodDecoder(KindInterner())
    spread = [{"topologyKey": "zone", "labelSelector": _APP, "matchLabelKeys": ["app"]}]
    for value in ("a", "b"):
        body = _body({**_nearly_plain({}), "metadata.labels": {"app": value}, "spec.topologySpreadConstraints": spread}, 0)
        raw = json.dumps(body).replace("matchLabelKeys", "matchL\\u0061belKeys").encode()
        assert after_others.decode(raw).kind == _alone(raw)


def test_generated_clusters_are_read_the_same() -> None:
    for index in range(30):
        _agree([item for item in generate(11, index)["items"] if item["kind"] == "Pod"])


def test_ordinary_pods_are_plain() -> None:
    """Else the law above would hold of a shortcut that nothing takes."""
    pods = [a_plain_pod(1), a_plain_pod(1, node="n1"), a_realistic_pod(1, cpu="1", memory="1Gi")]
    found = [plain_signature(msgspec.json.decode(json.dumps(pod), type=PodWire)) for pod in pods]
    assert None not in found
    assert found[0] == found[1] != found[2]


def test_pods_as_the_kubelet_of_1_37_reports_them_are_plain_and_share_their_kind() -> None:
    pods = [a_plain_pod(1, node="n1") for _ in range(2)]
    for pod in pods:
        requests = pod["spec"]["containers"][0]["resources"]["requests"]
        pod["status"] = {"resources": {"requests": requests}, "allocatedResources": requests}
    found = [plain_signature(msgspec.json.decode(json.dumps(pod), type=PodWire)) for pod in pods]
    assert found[0] is not None
    assert found[0] == found[1]


class _Reads:
    """Stands for a struct, and notes the fields that are read of it and of the structs within it."""

    def __init__(self, of: Any, found: set[str], path: str = "") -> None:
        self._of, self._found, self._path = of, found, path

    def __getattr__(self, name: str) -> Any:
        path = f"{self._path}.{name}"
        self._found.add(path)
        return self._noted(getattr(self._of, name), path)

    def _noted(self, value: Any, path: str) -> Any:
        if isinstance(value, list):
            return [self._noted(each, path) for each in value]
        return _Reads(value, self._found, path) if isinstance(value, msgspec.Struct) else value


@pytest.mark.parametrize("version", SUPPORTED)
def test_the_signature_reads_every_field_that_the_requests_are_read_from(version: str) -> None:
    """Pods of every shape, since the formula reads some fields only beside others."""
    formula: set[str] = set()
    signature: set[str] = set()
    for of_app, of_pod, reason in product(_STATUSES, (None, _SMALL), ("Deferred", "Infeasible")):
        body = _body({**_nearly_plain({"spec.nodeName": 1, "init": 1}), "appStatus": of_app, "initStatus": of_app}, 0)
        if of_pod is not None:
            body["status"] |= {"resources": {"requests": of_pod}, "allocatedResources": of_pod}
        for conditions in (None, [{"type": "PodResizePending", "status": "True", "reason": reason}]):
            body["status"]["conditions"] = conditions
            wire = msgspec.json.decode(json.dumps(body), type=PodWire)
            ask = Ask(cast("PodWire", _Reads(wire, formula)), KubernetesVersion.parse(version))
            assert ask.requests() == Ask(wire, KubernetesVersion.parse(version)).requests()
            plain_signature(cast("PodWire", _Reads(wire, signature)))
    assert ".status.container_statuses.resources.requests" in formula
    assert formula <= signature, f"read by the formula, but no part of the signature: {sorted(formula - signature)}"
