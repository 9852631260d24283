"""Checks manifests and completes them as the API server does before it stores them, as far as the fields matter for the
placement of pods.

- `check_shape`: checks the types of lists, amounts, affinities, tolerations and spread constraints, so that an error names its
  place. Completing rewrites these parts, and the decoders read some of them as separate bytes, so an error found later would
  not say where in the object it is.
- `completed_pod`, `completed_template`: a new object with defaulted requests, rounded amounts, host ports and default
  tolerations.

Invariant: an object that comes from an API server is complete already and stays equal. The decoders in `adapters.kube` add the
other defaults: `matchLabelKeys`, allocatable from capacity, the name label of namespaces, volume binding modes.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from slackwater.adapters.kube.pod_requests import Ask
from slackwater.adapters.kube.structs import AffinityWire, PodWire, Quantity, SpreadWire, TolerationWire, Wire
from slackwater.model.kubernetes_rules import DEFAULT_VERSION, KubernetesVersion, Rule
from slackwater_protocol.units import QuantityError, parse_nanos

_Amounts = dict[str, Quantity | None]
NESTED_TOO_DEEPLY: Final = "lists or objects are nested too deeply, want them flatter"
#: msgspec's error message: what is wrong, and the place.
_LOCATED: Final = re.compile(r"(?P<what>.*?)(?: - at `\$\.?(?P<place>[^`]*)`)?", re.DOTALL)
_EXPECTED: Final = re.compile(r"Expected (?P<want>.+?), got (?P<got>.+)", re.DOTALL)
_AMOUNT: Final = re.compile(r"(requests|limits|overhead|allocatedResources|allocatable|capacity)\.[^.]*")


class _Resources(Wire):
    requests: _Amounts | None = None
    limits: _Amounts | None = None


class _Container(Wire):
    resources: _Resources | None = None
    ports: list[dict[str, Any]] | None = None


class _PodSpec(Wire):
    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = None
    overhead: _Amounts | None = None
    resources: _Resources | None = None
    affinity: AffinityWire | None = None
    tolerations: list[TolerationWire] | None = None
    topology_spread_constraints: list[SpreadWire] | None = None


class _ContainerStatus(Wire):
    resources: _Resources | None = None
    allocated_resources: _Amounts | None = None


class _PodStatus(Wire):
    container_statuses: list[_ContainerStatus] | None = None
    init_container_statuses: list[_ContainerStatus] | None = None
    resources: _Resources | None = None
    allocated_resources: _Amounts | None = None


class _Pod(Wire):
    spec: _PodSpec | None = None
    status: _PodStatus | None = None


class _Template(Wire):
    spec: _PodSpec | None = None


class _ControllerSpec(Wire):
    template: _Template | None = None


class _Controller(Wire):
    spec: _ControllerSpec | None = None


class _NodeStatus(Wire):
    allocatable: _Amounts | None = None
    capacity: _Amounts | None = None


class _Node(Wire):
    status: _NodeStatus | None = None


_SHAPES: Final[Mapping[str, msgspec.json.Decoder[Any]]] = {
    "Pod": msgspec.json.Decoder(_Pod),
    "DaemonSet": msgspec.json.Decoder(_Controller),
    "Node": msgspec.json.Decoder(_Node),
}


def check_shape(kind: str, raw: msgspec.Raw) -> None:
    """Checks the types of a Pod, DaemonSet or Node; other kinds pass. Raises msgspec's ValidationError, which has the path."""
    if kind in _SHAPES:
        _SHAPES[kind].decode(raw)


def problem_of(kind: str, raw: msgspec.Raw, err: Exception) -> tuple[str, str]:
    """The path that a decoding error is about ("" if unknown), and what is wrong there."""
    if isinstance(err, RecursionError):
        return "", NESTED_TOO_DEEPLY
    if isinstance(err, QuantityError) and kind in _SHAPES:
        return next(_bad_amounts(msgspec.to_builtins(_SHAPES[kind].decode(raw)), ""), ""), str(err)
    found = _LOCATED.fullmatch(str(err))
    place, what = (found["place"] or "", found["what"]) if found else ("", str(err))
    expected = _EXPECTED.fullmatch(what)
    return place, f"got {expected['got']}, want {expected['want']}".replace("`", "") if expected else what


def _bad_amounts(part: object, path: str) -> Iterator[str]:
    """Yields the paths of the amounts that are invalid or negative."""
    if isinstance(part, list):
        for index, each in enumerate(part):
            yield from _bad_amounts(each, f"{path}[{index}]")
    elif isinstance(part, dict):
        for key, each in part.items():
            yield from _bad_amounts(each, f"{path}.{key}" if path else key)
    elif isinstance(part, Quantity) and _AMOUNT.search(path) and _is_invalid_amount(part):
        yield path


def _is_invalid_amount(amount: Quantity) -> bool:
    try:
        return parse_nanos(amount) < 0
    except QuantityError:
        return True


_NOT_READY: Final = "node.kubernetes.io/not-ready"
_UNREACHABLE: Final = "node.kubernetes.io/unreachable"
_HUGE_PAGES: Final = "hugepages-"
_NANOS_PER_MILLI: Final = 10**6
#: The keys under which a pod has resource amounts.
_AMOUNTS: Final = frozenset({"requests", "limits", "overhead", "allocatedResources"})
_SUPPORTED: Final = ("cpu", "memory")
Object = Mapping[str, Any]


def completed_pod(pod: Object, kubernetes: KubernetesVersion = DEFAULT_VERSION) -> dict[str, Any]:
    """A copy of a pod with the defaults that an API server of this version sets. Raises ValueError for an invalid quantity."""
    spec = dict(_rounded(pod.get("spec") or {}))
    for key in ("containers", "initContainers"):
        if spec.get(key):
            spec[key] = [_container(container, host=bool(spec.get("hostNetwork"))) for container in spec[key]]
    if spec.get("resources"):
        spec["resources"] = _pod_level(spec, kubernetes)
    spec["tolerations"] = [*(spec.get("tolerations") or ()), *_default_tolerations(spec.get("tolerations") or ())]
    return {**pod, "spec": spec, "status": _rounded(pod.get("status") or {})}


def completed_template(controller: Object, kubernetes: KubernetesVersion = DEFAULT_VERSION) -> dict[str, Any]:
    """A copy of a controller with its pod template completed. Raises ValueError for an invalid quantity."""
    spec = dict(controller.get("spec") or {})
    template = dict(spec.get("template") or {})
    template["spec"] = completed_pod({"spec": template.get("spec") or {}}, kubernetes)["spec"]
    return {**controller, "spec": {**spec, "template": template}}


def _rounded(part: Any) -> Any:
    """Rounds every amount up to thousandths, as the API server does."""
    if isinstance(part, list):
        return [_rounded(item) for item in part]
    if not isinstance(part, Mapping):
        return part
    return {key: _in_thousandths(value) if key in _AMOUNTS else _rounded(value) for key, value in part.items()}


def _in_thousandths(amounts: Any) -> Any:
    if not isinstance(amounts, Mapping):
        return amounts
    return {name: _up_to_milli(amount) for name, amount in amounts.items()}


def _up_to_milli(amount: Any) -> Any:
    if not isinstance(amount, str) or not (amount.endswith(("n", "u")) or "." in amount or "e-" in amount.lower()):
        return amount
    nanos = parse_nanos(amount)
    return amount if nanos % _NANOS_PER_MILLI == 0 else f"{-(-nanos // _NANOS_PER_MILLI)}m"


def _container(container: Object, *, host: bool) -> dict[str, Any]:
    done = dict(container)
    resources = done.get("resources") or {}
    if resources.get("limits"):
        done["resources"] = {**resources, "requests": {**resources["limits"], **(resources.get("requests") or {})}}
    if host and done.get("ports"):
        done["ports"] = [{**port, "hostPort": port.get("hostPort") or port.get("containerPort", 0)} for port in done["ports"]]
    return done


def _pod_level(spec: Object, kubernetes: KubernetesVersion) -> dict[str, Any]:
    """The pod-level resources, with requests defaulted from the containers' requests and from the limits (KEP-2837)."""
    resources = dict(spec["resources"])
    limits, requests = dict(resources.get("limits") or {}), dict(resources.get("requests") or {})
    if limits or requests:
        for name in _huge_pages(spec, "limits"):
            if name not in requests:
                limits.setdefault(name, _total(spec, "limits", name))
    if limits or (requests and kubernetes.follows(Rule.POD_LEVEL_DEFAULTS)):
        for name in _SUPPORTED:
            if _is_named(spec, name):
                requests.setdefault(name, _total(spec, "requests", name))
        for name, limit in limits.items():
            if name in _SUPPORTED or name.startswith(_HUGE_PAGES):
                requests.setdefault(name, limit)
    return {**resources, **({"limits": limits} if limits else {}), **({"requests": requests} if requests else {})}


def _containers(spec: Object) -> list[Object]:
    return [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]


def _listed(container: Object, which: str) -> Mapping[str, Any]:
    return (container.get("resources") or {}).get(which) or {}


def _is_named(spec: Object, name: str) -> bool:
    return any(name in _listed(container, "requests") for container in _containers(spec))


def _huge_pages(spec: Object, which: str) -> list[str]:
    names = (name for container in _containers(spec) for name in _listed(container, which))
    return sorted({name for name in names if name.startswith(_HUGE_PAGES)})


def _total(spec: Object, which: str, name: str) -> str:
    """The aggregate of one resource over all containers as kube-scheduler computes it, init containers included; a quantity in
    nanos."""

    def asking(container: Object) -> dict[str, Any]:
        amount = _listed(container, which).get(name)
        requests = {} if amount is None else {"cpu": amount}
        kept = {key: container[key] for key in ("name", "restartPolicy") if key in container}
        return {**kept, "resources": {"requests": requests}}

    bare = {key: [asking(c) for c in spec.get(key) or ()] for key in ("containers", "initContainers")}
    wire = msgspec.json.decode(msgspec.json.encode({"spec": bare}), type=PodWire)
    return f"{Ask(wire, placed=False).cpu_nanos()}n"


def _default_tolerations(tolerations: Iterable[Object]) -> list[dict[str, Any]]:
    """The tolerations that the admission plug-in DefaultTolerationSeconds adds: five minutes for nodes that are not ready or
    unreachable."""
    return [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        for key in (_NOT_READY, _UNREACHABLE)
        if not any((t.get("key") or key) == key and (t.get("effect") or "NoExecute") == "NoExecute" for t in tolerations)
    ]
