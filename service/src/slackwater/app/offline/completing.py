"""Completes manifests as the API server does before it stores them, as far as the fields matter for placing pods.

In: an object as a JSON value. Out: a new one with defaulted requests, rounded amounts, host ports and default tolerations. An
object that comes from an API server is complete already and stays equal. The decoders in `adapters.kube` add the other
defaults: `matchLabelKeys`, allocatable from capacity, the name label of namespaces, volume binding modes.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from slackwater.adapters.kube.ask import Ask
from slackwater.adapters.kube.wire import PodWire
from slackwater_protocol.units import parse_nanos

_NOT_READY: Final = "node.kubernetes.io/not-ready"
_UNREACHABLE: Final = "node.kubernetes.io/unreachable"
_HUGE_PAGES: Final = "hugepages-"
_NANOS_PER_MILLI: Final = 10**6
#: The keys under which a pod has resource amounts.
_AMOUNTS: Final = frozenset({"requests", "limits", "overhead", "allocatedResources"})
_SUPPORTED: Final = ("cpu", "memory")
Object = Mapping[str, Any]


def completed_pod(pod: Object) -> dict[str, Any]:
    """A completed copy of a pod. Raises ValueError for an invalid quantity."""
    spec = dict(_rounded(pod.get("spec") or {}))
    for key in ("containers", "initContainers"):
        if spec.get(key):
            spec[key] = [_container(container, host=bool(spec.get("hostNetwork"))) for container in spec[key]]
    if spec.get("resources"):
        spec["resources"] = _pod_level(spec)
    spec["tolerations"] = [*(spec.get("tolerations") or ()), *_default_tolerations(spec.get("tolerations") or ())]
    return {**pod, "spec": spec, "status": _rounded(pod.get("status") or {})}


def completed_template(controller: Object) -> dict[str, Any]:
    """A copy of a controller with its pod template completed. Raises ValueError for an invalid quantity."""
    spec = dict(controller.get("spec") or {})
    template = dict(spec.get("template") or {})
    template["spec"] = completed_pod({"spec": template.get("spec") or {}})["spec"]
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


def _pod_level(spec: Object) -> dict[str, Any]:
    """The pod-level resources, with requests defaulted from the containers' requests and from the limits (KEP-2837)."""
    resources = dict(spec["resources"])
    limits, requests = dict(resources.get("limits") or {}), dict(resources.get("requests") or {})
    if limits or requests:
        for name in _huge_pages(spec, "limits"):
            if name not in requests:
                limits.setdefault(name, _total(spec, "limits", name))
    if limits:
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
