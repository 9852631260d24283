"""Completes new objects as the API server does before it stores them, as far as that matters for the placement of pods:
defaulted requests, rounded amounts, host ports and default tolerations.

Invariant: an object that comes from an API server is complete already and stays equal. The decoders in `adapters.kube` add the
other defaults: `matchLabelKeys`, allocatable from capacity, the name label of namespaces, volume binding modes.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from slackwater.app.offline.limit_ranges import Object, containers_of, totals
from slackwater.app.offline.shapes import PodShape, PodSpecShape, may_be_uneven
from slackwater.model.kubernetes_rules import DEFAULT_VERSION, KubernetesVersion, Rule
from slackwater_protocol.units import NANOS_PER_MILLI, parse_nanos

#: The fields of an object, undecoded.
FIELDS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_PARTS: Final = msgspec.json.Decoder(list[msgspec.Raw])
_NONE: Final = msgspec.Raw(b"{}")
_NOT_READY: Final = "node.kubernetes.io/not-ready"
_UNREACHABLE: Final = "node.kubernetes.io/unreachable"
_HUGE_PAGES: Final = "hugepages-"
#: The keys under which a pod has resource amounts.
_AMOUNTS: Final = frozenset({"requests", "limits", "overhead", "allocatedResources"})
_SUPPORTED: Final = ("cpu", "memory")
_CONTAINERS: Final = ("containers", "initContainers")


def with_completed_spec(pod: dict[str, Any], shape: PodShape, kubernetes: KubernetesVersion) -> Mapping[str, Any]:
    """`completed_pod` of a pod whose parts are bytes, after amounts are rounded. Parts that are complete stay bytes: most pods
    are an API server's."""
    pod.setdefault("status", _NONE)
    if shape.status is not None and shape.status.is_uneven():
        pod["status"] = _rounded(msgspec.json.decode(pod["status"]))
    spec = shape.spec or PodSpecShape()
    if spec.resources is not None or spec.is_uneven():
        return completed_pod({**pod, "spec": _rounded(msgspec.json.decode(pod["spec"]))}, kubernetes)
    parts: dict[str, Any] = {} if shape.spec is None else FIELDS.decode(pod["spec"])
    if spec.lacks_defaults():
        parts |= _completed_containers(
            {key: msgspec.json.decode(parts[key]) for key in _CONTAINERS if key in parts}, spec.host_network
        )
    tolerations = spec.tolerations or []
    if missing := _default_tolerations([(each.key, each.effect) for each in tolerations]):
        parts["tolerations"] = [*(_PARTS.decode(parts["tolerations"]) if tolerations else ()), *missing]
    return {**pod, "spec": parts}


def completed_pod(pod: Object, kubernetes: KubernetesVersion = DEFAULT_VERSION) -> dict[str, Any]:
    """A copy of a pod, whose amounts are rounded, with the defaults that an API server of this version sets. Raises ValueError
    for an invalid quantity."""
    spec = dict(pod.get("spec") or {})
    spec |= _completed_containers(spec, spec.get("hostNetwork"))
    if spec.get("resources"):
        spec["resources"] = _pod_level(spec, kubernetes)
    tolerations = spec.get("tolerations") or ()
    missing = _default_tolerations((each.get("key") or "", each.get("effect") or "") for each in tolerations)
    spec["tolerations"] = [*tolerations, *missing]
    return {**pod, "spec": spec}


def _completed_containers(spec: Object, host: object) -> dict[str, Any]:
    return {key: [_container(each, host=bool(host)) for each in spec[key]] for key in _CONTAINERS if spec.get(key)}


def completed_template(controller: Object, kubernetes: KubernetesVersion = DEFAULT_VERSION) -> dict[str, Any]:
    """A copy of a controller, or of a PodTemplate in the form of one, with its template completed. Raises ValueError for an
    invalid quantity."""
    spec = dict(controller.get("spec") or {})
    template = dict(controller.get("template") or spec.get("template") or {})
    template["spec"] = completed_pod({"spec": _rounded(template.get("spec") or {})}, kubernetes)["spec"]
    return {**{key: controller[key] for key in controller if key != "template"}, "spec": {**spec, "template": template}}


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
    if not may_be_uneven(amount):
        return amount
    nanos = parse_nanos(amount)
    return amount if nanos % NANOS_PER_MILLI == 0 else f"{-(-nanos // NANOS_PER_MILLI)}m"


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
        for name in _limited_huge_pages(spec):
            if name not in requests:
                limits.setdefault(name, f"{totals(spec, 'limits')[name]}n")
    if limits or (requests and kubernetes.follows(Rule.POD_LEVEL_DEFAULTS)):
        for name in _SUPPORTED:
            if any(name in _listed(container, "requests") for container in containers_of(spec)):
                requests.setdefault(name, f"{totals(spec, 'requests')[name]}n")
        for name, limit in limits.items():
            if name in _SUPPORTED or name.startswith(_HUGE_PAGES):
                requests.setdefault(name, limit)
    return {**resources, **({"limits": limits} if limits else {}), **({"requests": requests} if requests else {})}


def _listed(container: Object, which: str) -> Mapping[str, Any]:
    return (container.get("resources") or {}).get(which) or {}


def _limited_huge_pages(spec: Object) -> list[str]:
    names = (name for container in containers_of(spec) for name in _listed(container, "limits"))
    return sorted({name for name in names if name.startswith(_HUGE_PAGES)})


def _default_tolerations(tolerations: Iterable[tuple[str, str]]) -> list[dict[str, Any]]:
    """The tolerations that the admission plug-in DefaultTolerationSeconds adds: five minutes for nodes that are not ready or
    unreachable. `tolerations`: the keys and effects of the others; an empty one stands for all."""
    tolerated = {key for key, effect in tolerations if effect in {"", "NoExecute"}}
    return [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        for key in (_NOT_READY, _UNREACHABLE)
        if not {"", key} & tolerated
    ]
