"""LimitRanges as the admission plug-in LimitRanger applies them (k8s.io/kubernetes v1.36.3, plugin/pkg/admission/limitranger).

- `LimitRange`: the defaults that it sets in a pod's containers, and why it refuses a pod or a claim.
- `totals`: what a pod requests, or its limits, by resource in nanos.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from slackwater.adapters.api_objects import Quantity, Wire
from slackwater.model.resources import InitRequest, pod_nanos
from slackwater_protocol.units import (
    NANO,
    NANOS_PER_MILLI,
    Bytes,
    MilliCpu,
    parse_nanos,
    quantity_text_cpu,
    quantity_text_memory,
)

Object = Mapping[str, Any]
#: Amounts in nanos by resource.
Totals = dict[str, int]
_REQUESTS, _LIMITS = "requests", "limits"
_MEBI: Final = 2**20
_DECIMAL: Final = {10**9: "G", 10**6: "M"}
_Amounts = dict[str, Quantity]


def text_of(name: str, nanos: int) -> str:
    """An amount of this resource as a quantity."""
    if "cpu" in name:
        return quantity_text_cpu(MilliCpu(-(-nanos // NANOS_PER_MILLI)))
    whole = -(-nanos // NANO)
    for step, suffix in _DECIMAL.items() if whole % _MEBI else ():
        if whole % step == 0:
            return f"{whole // step}{suffix}"
    return quantity_text_memory(Bytes(whole)) if "memory" in name or "storage" in name else str(whole)


def nanos_of(amounts: Mapping[str, Quantity] | None) -> Totals:
    return {name: parse_nanos(amount) for name, amount in (amounts or {}).items()}


def amounts_of(part: Object, which: str) -> Totals:
    """The requests or limits (`which`) of a container, of a pod as a whole, or of a claim."""
    return nanos_of(texts_of(part, which))


def texts_of(part: Object, which: str) -> Mapping[str, Quantity]:
    """The same as they are written, for a question about their names alone."""
    return (part.get("resources") or {}).get(which) or {}


def containers_of(spec: Object) -> list[Object]:
    return [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]


def totals(spec: Object, which: str) -> Totals:
    """The requests or limits of a pod, without its overhead. A resource that no container names is missing."""
    whole = amounts_of(spec, which)
    apps = [amounts_of(each, which) for each in spec.get("containers") or ()]
    inits = [(amounts_of(each, which), each.get("restartPolicy") == "Always") for each in spec.get("initContainers") or ()]
    names = dict.fromkeys(name for each in (*apps, *(init for init, _ in inits), whole) for name in each)
    return {
        name: pod_nanos(
            apps=[each[name] for each in apps if name in each],
            inits=[InitRequest(each[name], sidecar) for each, sidecar in inits if name in each],
            pod_level=whole.get(name),
        )
        for name in names
    }


class _Item(Wire):
    type: str = ""
    default: _Amounts = msgspec.field(default_factory=dict)
    default_request: _Amounts = msgspec.field(default_factory=dict)
    max: _Amounts = msgspec.field(default_factory=dict)
    min: _Amounts = msgspec.field(default_factory=dict)
    max_limit_request_ratio: _Amounts = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        for amounts in (self.default, self.default_request, self.max, self.min, self.max_limit_request_ratio):
            nanos_of(amounts)  # raises ValueError, to which the decoder adds the place

    def refusals(self, requests: Totals, limits: Totals, *, at_most: str = "limit") -> Iterator[str]:
        """Why LimitRanger refuses what asks for this, in its words. `at_most`: what has to be there for a maximum."""
        asked = {"request": requests, "limit": limits}
        for name, bound in sorted(self.min.items()):
            yield from self._outside("minimum", name, bound, asked)
        for name, bound in sorted(self.max.items()):
            yield from self._outside("maximum", name, bound, {at_most: asked[at_most], **asked})
        for name, bound in sorted(self.max_limit_request_ratio.items()):
            request, limit = requests.get(name), limits.get(name)
            about = f"{name} max limit to request ratio per {self.type} is {bound}, but"
            if not request or not limit:
                missing = "limit" if request else "request"
                yield f"{about} no {missing} is specified or {missing} is 0"
            elif limit * NANO > request * parse_nanos(bound):
                yield f"{about} provided ratio is {limit / request:f}"

    def _outside(self, which: str, name: str, bound: Quantity, asked: Mapping[str, Totals]) -> Iterator[str]:
        """The first of what is asked for has to be there, and what is there within the bound."""
        about, first = f"{which} {name} usage per {self.type} is {bound}", next(iter(asked))
        if name not in asked[first]:
            yield f"{about}.  No {first} is specified"
            return
        for what, amounts in asked.items():
            has, least = amounts.get(name), parse_nanos(bound)
            if has is not None and (has < least if which == "minimum" else has > least):
                yield f"{about}, but {what} is {text_of(name, has)}"
                return


class _Spec(Wire):
    limits: tuple[_Item, ...] = ()


class LimitRange(Wire):
    """A LimitRange. The API server has set its own defaults, or they are set here (SetDefaults_LimitRangeItem)."""

    spec: _Spec = msgspec.field(default_factory=_Spec)

    def defaulted(self, spec: Object) -> dict[str, Any]:
        """The completed spec of a pod with the defaults of its containers."""
        limits, requests = _Amounts(), _Amounts()
        for item in self.spec.limits:
            if item.type == "Container":
                default = {**item.max, **item.default}
                limits |= default
                requests |= {**item.min, **default, **item.default_request}

        def filled(container: Object) -> dict[str, Any]:
            asks = container.get("resources") or {}
            wanted = {
                **asks,
                _LIMITS: {**limits, **(asks.get(_LIMITS) or {})},
                _REQUESTS: {**requests, **(asks.get(_REQUESTS) or {})},
            }
            return {**container, "resources": wanted}

        kinds = [key for key in ("containers", "initContainers") if spec.get(key)]
        return {**spec, **{key: [filled(each) for each in spec[key]] for key in kinds}}

    def refusal(self, spec: Object) -> str:
        """Why no pod with this spec is admitted; "" if it is."""
        found = list[str]()
        for item in self.spec.limits:
            parts = containers_of(spec) if item.type == "Container" else []
            asked = [(amounts_of(each, _REQUESTS), amounts_of(each, _LIMITS)) for each in parts]
            asked += [(totals(spec, _REQUESTS), totals(spec, _LIMITS))] if item.type == "Pod" else []
            found += (why for each in asked for why in item.refusals(*each))
        return ", ".join(dict.fromkeys(found))

    def refusal_of_claim(self, spec: Object) -> str:
        """Why no claim with this spec is admitted; "" if it is."""
        items = (item for item in self.spec.limits if item.type == "PersistentVolumeClaim")
        return ", ".join(why for item in items for why in item.refusals(amounts_of(spec, _REQUESTS), {}, at_most="request"))
