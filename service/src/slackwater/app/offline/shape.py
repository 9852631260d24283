"""Checks the types in a manifest before it is completed: lists, amounts, affinities, tolerations, spread constraints.

The check exists for the error's path. Completing rewrites these parts, and the decoders read some of them as separate bytes, so
an error found later would not say where in the object it is.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from slackwater.adapters.kube.wire import AffinityWire, Quantity, SpreadWire, TolerationWire, Wire
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
    elif isinstance(part, Quantity) and _AMOUNT.search(path) and _is_bad(part):
        yield path


def _is_bad(amount: Quantity) -> bool:
    try:
        return parse_nanos(amount) < 0
    except QuantityError:
        return True
