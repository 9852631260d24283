"""Pods with very many rules of one kind each, as the API's JSON: what one tenant may create, up to the size of a request.

SHAPES["preferred pods"](1_000)      # a pod with a thousand preferred terms
within(SHAPES["labels"], 300_000)    # the largest pod of this shape whose JSON has at most so many bytes
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

Json = dict[str, Any]
Shape = Callable[[int], Json]

_HOST: Final = "kubernetes.io/hostname"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def pod_json(name: str, *, namespace: str = "tenant", **spec: Any) -> Json:
    """A pod with one container; `spec` are more fields of its spec."""
    container = {"name": "app", "image": "app", "resources": {"requests": {"cpu": "10m", "memory": "10Mi"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": "a"}},
        "spec": {"schedulerName": "default-scheduler", "containers": [container], **spec},
    }


def _each(count: int, made: Callable[[int], Any]) -> list[Any]:
    return [made(number) for number in range(count)]


def _pod_terms(rule: str, which: str, operator: str = "In") -> Shape:
    def shape(count: int) -> Json:
        def term(number: int) -> Json:
            requirement = {"key": "app", "operator": operator, "values": [f"x-{number}"]}
            found: Json = {"topologyKey": _HOST, "labelSelector": {"matchExpressions": [requirement]}}
            return found if which == _REQUIRED else {"weight": 1 + number % 100, "podAffinityTerm": found}

        return pod_json("pod-terms", affinity={rule: {which: _each(count, term)}})

    return shape


def _node_terms(which: str) -> Shape:
    def shape(count: int) -> Json:
        def term(number: int) -> Json:
            found: Json = {"matchExpressions": [{"key": f"x-{number}", "operator": "In", "values": ["x-0"]}]}
            return found if which == _REQUIRED else {"weight": 1 + number % 100, "preference": found}

        terms = _each(count, term)
        return pod_json(
            "node-terms", affinity={"nodeAffinity": {which: {"nodeSelectorTerms": terms} if which == _REQUIRED else terms}}
        )

    return shape


def _spread(when: str) -> Shape:
    def shape(count: int) -> Json:
        def constraint(number: int) -> Json:
            selector = {"matchLabels": {"app": f"x-{number}"}}
            key = _HOST if number == 1 else f"x-{number}"
            return {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": when, "labelSelector": selector}

        return pod_json("spread", topologySpreadConstraints=_each(count, constraint))

    return shape


def _resources(count: int) -> Json:
    pod = pod_json("resources")
    amounts = {f"tenant.example/x-{number}": "1" for number in range(count)}
    pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "10m", "memory": "10Mi", **amounts}, "limits": amounts}
    return pod


def _containers(count: int) -> Json:
    resources = {"requests": {"cpu": "1m", "memory": "1Mi", "example.com/gpu": "1"}, "limits": {"example.com/gpu": "1"}}
    return pod_json(
        "containers", containers=_each(count, lambda n: {"name": f"c{n}", "image": f"i{n}", "resources": resources})
    )


def _ports(count: int) -> Json:
    pod = pod_json("ports")
    protocols = ("TCP", "UDP", "SCTP")

    def port(number: int) -> Json:
        at = 1 + number % 65_535
        return {"containerPort": at, "hostPort": at, "protocol": protocols[number // 65_535 % 3]}

    pod["spec"]["containers"][0]["ports"] = _each(count, port)
    return pod


def _node_names(count: int) -> Json:
    requirement = {"key": _HOST, "operator": "In", "values": [f"n-{number}" for number in range(count)]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}
    return pod_json("node-names", affinity={"nodeAffinity": {_REQUIRED: terms}})


def _lists(field: str, made: Callable[[int], Any]) -> Shape:
    def shape(count: int) -> Json:
        pod = pod_json("spec")
        pod["spec"][field] = _each(count, made)
        return pod

    return shape


def _pairs(count: int) -> Json:
    return {f"x-{number}": "v" for number in range(count)}


def _owner(number: int) -> Json:
    return {"apiVersion": "v1", "kind": "K", "name": f"o{number}", "uid": f"u{number}"}


def _with_meta(field: str, made: Callable[[int], Any]) -> Shape:
    def shape(count: int) -> Json:
        pod = pod_json("meta")
        pod["metadata"][field] = made(count)
        return pod

    return shape


#: By name, what makes a pod with so many rules of one kind.
SHAPES: Final[dict[str, Shape]] = {
    "resources": _resources,
    "preferred pods": _pod_terms("podAntiAffinity", _PREFERRED),
    "preferred pods, NotIn": _pod_terms("podAffinity", _PREFERRED, "NotIn"),
    "required apart": _pod_terms("podAntiAffinity", _REQUIRED),
    "required apart, NotIn": _pod_terms("podAntiAffinity", _REQUIRED, "NotIn"),
    "required together": _pod_terms("podAffinity", _REQUIRED),
    "preferred nodes": _node_terms(_PREFERRED),
    "required nodes": _node_terms(_REQUIRED),
    "node selector": lambda count: pod_json("spec", nodeSelector=_pairs(count)),
    "soft spread": _spread("ScheduleAnyway"),
    "hard spread": _spread("DoNotSchedule"),
    "tolerations": _lists("tolerations", lambda n: {"key": f"x-{n}", "operator": "Exists"}),
    "host ports": _ports,
    "claims": _lists("volumes", lambda n: {"name": f"v{n}", "persistentVolumeClaim": {"claimName": f"c{n}"}}),
    "local volumes": _lists("volumes", lambda n: {"name": f"v{n}", "emptyDir": {}}),
    "containers": _containers,
    "gates": _lists("schedulingGates", lambda n: {"name": f"example.com/g{n}"}),
    "device claims": _lists("resourceClaims", lambda n: {"name": f"c{n}", "resourceClaimName": f"r{n}"}),
    "labels": _with_meta("labels", _pairs),
    "owners": _with_meta("ownerReferences", lambda count: _each(count, _owner)),
    "node names": _node_names,
}


def within(shape: Shape, n_bytes: int) -> Json:
    """The largest pod of this shape whose JSON has at most `n_bytes` bytes."""
    per_rule = (len(msgspec.json.encode(shape(1_000))) - len(msgspec.json.encode(shape(0)))) / 1_000
    return shape(int(n_bytes / (per_rule * 1.05)))


def stored(pod: Json, number: int, *, version: int = 1, node: str = "") -> bytes:
    """The pod's JSON as a watch shows it, one of several with this number."""
    meta = {
        **pod["metadata"],
        "name": f"{pod['metadata']['name']}-{number}",
        "uid": f"uid-{number}",
        "resourceVersion": str(version),
    }
    meta["creationTimestamp"] = "2026-01-01T00:00:00Z"
    spec = {**pod["spec"], "nodeName": node} if node else pod["spec"]
    return _distinct(msgspec.json.encode({**pod, "metadata": meta, "spec": spec}), number)


def _distinct(raw: bytes, number: int) -> bytes:
    """The pod with keys, values and resources of its own, so that it shares nothing with others of its shape."""
    return raw.replace(b"x-", b"x%d-" % number)


def shapes(names: Iterable[str] = ()) -> dict[str, Shape]:
    return {name: SHAPES[name] for name in names or SHAPES}
