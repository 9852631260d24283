"""Decodes the selectors of Services and of pods' controllers, by which kube-scheduler spreads pods by default."""

from collections.abc import Mapping
from typing import Final

import msgspec

from slackwater.adapters.kube.pod_constraints import selector_of
from slackwater.adapters.kube.structs import SelectorWire, Wire
from slackwater.model.selectors import Requirement, Selector


class _LabelsSpec(Wire):
    selector: dict[str, str] | None = None


class _SelectorSpec(Wire):
    selector: SelectorWire | None = None


class _ByLabels(Wire):
    """A Service or a ReplicationController."""

    spec: _LabelsSpec | None = None


class _BySelector(Wire):
    """A ReplicaSet or a StatefulSet."""

    spec: _SelectorSpec | None = None


_BY_LABELS: Final = msgspec.json.Decoder(_ByLabels)
_BY_SELECTOR: Final = msgspec.json.Decoder(_BySelector)


def decode_service(raw: bytes | msgspec.Raw) -> Mapping[str, str]:
    """The labels of the pods that a Service selects; empty if it selects none. Raises ValueError."""
    spec = _BY_LABELS.decode(raw).spec
    return (spec.selector if spec is not None else None) or {}


def decode_selector(kind: str, raw: bytes | msgspec.Raw) -> Selector:
    """The selector of a controller of this kind; None if it has none. Raises ValueError."""
    if kind == "ReplicationController":
        return tuple(Requirement(key, "In", (value,)) for key, value in sorted(decode_service(raw).items()))
    spec = _BY_SELECTOR.decode(raw).spec
    return None if spec is None else selector_of(spec.selector)
