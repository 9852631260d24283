"""Decodes the price part of Karpenter's NodeOverlays (karpenter.sh/v1alpha1), as its CRD describes it: `spec.requirements`,
`spec.weight`, and one of `spec.price` and `spec.priceAdjustment`. Files of a cluster have them, commands read them from the API
server, and the service before each loop of the autoscaler if NodePools are its groups."""

import re
from typing import Final

import msgspec
from msgspec import field

from slackwater.adapters.api_objects import Int32, ObjectDecoder, RequirementWire, Wire
from slackwater.adapters.kube.decode import read_meta
from slackwater.model.prices import PriceOverlay
from slackwater.model.selectors import karpenter_requirement
from slackwater_protocol.money import micros_of

_ADJUSTMENT: Final = re.compile(r"([+-])([0-9]*\.?[0-9]+)(%?)")


class _Spec(Wire):
    requirements: list[RequirementWire] | None = None
    weight: Int32 = 0
    price: str | None = None
    price_adjustment: str | None = None


class _OverlayWire(Wire):
    spec: _Spec = field(default_factory=_Spec)


_OVERLAY: Final = ObjectDecoder(_OverlayWire)


def decode_overlay(raw: bytes | msgspec.Raw) -> PriceOverlay | None:
    """Decodes a NodeOverlay; None if it changes no price. Raises ValueError."""
    spec, name = _OVERLAY.decode(raw).spec, read_meta(raw).name
    if spec.price is None and spec.price_adjustment is None:
        return None
    try:
        requirements = tuple(karpenter_requirement(each.key, each.operator, each.values) for each in spec.requirements or ())
    except ValueError as err:
        raise ValueError(f"spec.{err}") from err
    if spec.price is not None:
        return PriceOverlay(name=name, weight=spec.weight, requirements=requirements, price=_micros("spec.price", spec.price))
    text = spec.price_adjustment or ""
    found = _ADJUSTMENT.fullmatch(text)
    if found is None:
        raise ValueError(f"spec.priceAdjustment: got {text!r:.80}, want a signed number or percentage such as +10% or -0.5")
    micros = _micros("spec.priceAdjustment", found[2]) * (-1 if found[1] == "-" else 1)
    return PriceOverlay(
        name=name,
        weight=spec.weight,
        requirements=requirements,
        added=0 if found[3] else micros,
        percent=micros if found[3] else 0,
    )


def _micros(path: str, text: str) -> int:
    try:
        return micros_of(f"0{text}" if text.startswith(".") else text)
    except ValueError as err:
        raise ValueError(f"{path}: got {text!r:.80}, want {err}") from err
