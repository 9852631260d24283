"""Checks the types of an object's lists, amounts, affinities, tolerations and spread constraints, so that an error names its
place.

Completing rewrites these parts, and the decoders read some of them as separate bytes, so an error found later would not say
where in the object it is.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec

from slackwater.adapters.api_objects import Quantity, Wire
from slackwater.adapters.kube.structs import AffinityWire, SpreadWire, TolerationWire
from slackwater_protocol.units import QuantityError, parse_nanos

#: An object with a template that is read as a pod.
TEMPLATED: Final = "template"
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

    def lacks_defaults(self, *, host: bool) -> bool:
        asks = self.resources
        lacking = asks is not None and asks.limits and not asks.limits.keys() <= (asks.requests or {}).keys()
        return bool(lacking or (host and self.ports))


class PodSpecShape(Wire):
    host_network: bool | None = None
    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = None
    overhead: _Amounts | None = None
    resources: _Resources | None = None
    affinity: AffinityWire | None = None
    tolerations: list[TolerationWire] | None = None
    topology_spread_constraints: list[SpreadWire] | None = None
    node_selector: dict[str, str] | None = None
    priority_class_name: str | None = None
    runtime_class_name: str | None = None

    def lacks_defaults(self) -> bool:
        host, containers = bool(self.host_network), (*(self.containers or ()), *(self.init_containers or ()))
        return any(container.lacks_defaults(host=host) for container in containers)

    def is_uneven(self) -> bool:
        containers = (*(self.containers or ()), *(self.init_containers or ()))
        return is_uneven(self.overhead) or _any_uneven((self.resources, *(each.resources for each in containers)))


class _ContainerStatus(Wire):
    resources: _Resources | None = None
    allocated_resources: _Amounts | None = None


class PodStatusShape(Wire):
    container_statuses: list[_ContainerStatus] | None = None
    init_container_statuses: list[_ContainerStatus] | None = None
    resources: _Resources | None = None
    allocated_resources: _Amounts | None = None

    def is_uneven(self) -> bool:
        parts = (self, *(self.container_statuses or ()), *(self.init_container_statuses or ()))
        return _any_uneven(each.resources for each in parts) or any(is_uneven(each.allocated_resources) for each in parts)


class PodShape(Wire):
    spec: PodSpecShape | None = None
    status: PodStatusShape | None = None


class _Template(Wire):
    spec: PodSpecShape | None = None


class _ControllerSpec(Wire):
    template: _Template | None = None


class _Controller(Wire):
    spec: _ControllerSpec | None = None
    template: _Template | None = None  #: where a PodTemplate has its template


class _NodeStatus(Wire):
    allocatable: _Amounts | None = None
    capacity: _Amounts | None = None


class _Node(Wire):
    status: _NodeStatus | None = None


_SHAPES: Final[Mapping[str, msgspec.json.Decoder[Any]]] = {
    "Pod": msgspec.json.Decoder(PodShape),
    TEMPLATED: msgspec.json.Decoder(_Controller),
    "Node": msgspec.json.Decoder(_Node),
}


def check_shape(kind: str, raw: msgspec.Raw) -> object:
    """Checks the types of a Pod, Node or "template" (an object with one), and returns the parts that it has checked; other
    kinds pass. Raises msgspec's ValidationError, which has the path."""
    return _SHAPES[kind].decode(raw) if kind in _SHAPES else None


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


def may_be_uneven(amount: object) -> bool:
    """May the amount be no whole number of thousandths?"""
    return isinstance(amount, str) and _is_text_uneven(amount)


@lru_cache(maxsize=4096)
def _is_text_uneven(amount: str) -> bool:
    return amount.endswith(("n", "u")) or "." in amount or "e-" in amount.lower()


def is_uneven(amounts: _Amounts | None) -> bool:
    return any(map(may_be_uneven, amounts.values())) if amounts else False


def _any_uneven(resources: Iterable[_Resources | None]) -> bool:
    return any(is_uneven(each.requests) or is_uneven(each.limits) for each in resources if each is not None)
