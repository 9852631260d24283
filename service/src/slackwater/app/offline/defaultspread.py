"""Whose pods kube-scheduler spreads by default: those of the same Services, and of the same controller.

The selector of a pod without spread constraints of its own, from the Services that select it and the ReplicaSet,
StatefulSet or ReplicationController that owns it.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from slackwater.adapters.kube.affinities import selector_of
from slackwater.adapters.kube.wire import MetaWire, SelectorWire, Wire
from slackwater.model.selectors import Requirement, Selector

#: Kinds whose objects are read here, and the API group that an owner reference must name.
OWNERS: Final = {"ReplicationController": "v1", "ReplicaSet": "apps/v1", "StatefulSet": "apps/v1"}
SERVICE: Final = "Service"
_DEFAULT: Final = "default"


class _LabelsSpec(Wire):
    selector: dict[str, str] | None = None


class _SelectorSpec(Wire):
    selector: SelectorWire | None = None


class _ByLabels(Wire):
    """A Service or a ReplicationController."""

    metadata: MetaWire
    spec: _LabelsSpec | None = None


class _BySelector(Wire):
    metadata: MetaWire
    spec: _SelectorSpec | None = None


class _PodSpec(Wire):
    topology_spread_constraints: list[Any] | None = None


class _Pod(Wire):
    metadata: MetaWire
    spec: _PodSpec | None = None


_POD: Final = msgspec.json.Decoder(_Pod)
_BY_LABELS: Final = msgspec.json.Decoder(_ByLabels)
_BY_SELECTOR: Final = msgspec.json.Decoder(_BySelector)
Spreader = _ByLabels | _BySelector


def spreader_of(kind: str) -> Callable[[bytes], Spreader]:
    """How the JSON of a kind is read, a Service or one of `OWNERS`. It raises ValueError."""
    return _BY_LABELS.decode if kind in (SERVICE, "ReplicationController") else _BY_SELECTOR.decode


class Spreading:
    """Services and controllers of a file."""

    def __init__(self, objects: Iterable[tuple[str, Spreader]]) -> None:
        self._services: dict[str, list[dict[str, str]]] = {}
        self._owners: dict[tuple[str, str, str], Spreader] = {}
        for kind, found in objects:
            namespace = found.metadata.namespace or _DEFAULT
            if kind != SERVICE:
                self._owners[kind, namespace, found.metadata.name] = found
            elif isinstance(found, _ByLabels) and found.spec and found.spec.selector:
                self._services.setdefault(namespace, []).append(found.spec.selector)

    def selector_for(self, pod: bytes) -> Selector | None:
        """None where nothing selects the pod, or where it says itself how it spreads. Raises ValueError."""
        wire = _POD.decode(pod)
        if wire.spec and wire.spec.topology_spread_constraints:
            return None
        meta = wire.metadata
        labels, namespace = meta.labels or {}, meta.namespace or _DEFAULT
        exact: dict[str, str] = {}
        for service in self._services.get(namespace, ()):
            if all(labels.get(key) == value for key, value in service.items()):
                exact.update(service)
        more: tuple[Requirement, ...] = ()
        owner = next((each for each in meta.owner_references or () if each.controller), None)
        if owner is not None and OWNERS.get(owner.kind) == owner.api_version:
            match self._owners.get((owner.kind, namespace, owner.name)):
                case _ByLabels(spec=_LabelsSpec(selector=dict(selector))):
                    exact.update(selector)
                case _BySelector(spec=_SelectorSpec(selector=found)):
                    more = selector_of(found) or ()
                case _:
                    pass
        return (*(Requirement(key, "In", (value,)) for key, value in sorted(exact.items())), *more) or None
