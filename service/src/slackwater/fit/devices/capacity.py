"""Consumable capacity: how much of each capacity of a device a request consumes, by the device's policy.

A request consumes the amount that it states, rounded up by the policy. Without a stated amount it consumes the policy's
default, or else the whole capacity.
"""

from typing import Final

from slackwater.model.devices import Capacity, Device, RequestPolicy
from slackwater_protocol.units import NANO, NANOS_PER_MILLI

_LARGEST: Final = 2**63 - 1
#: What a request consumes of each capacity of a device: (name, consumed, what the device has).
Consumption = tuple[tuple[str, int, int], ...]


class AmountError(Exception):
    """A requested amount that kube-scheduler cannot compute with: it ends the pod's scheduling cycle with an error."""


def consumption(
    device: Device, asked: tuple[tuple[str, int], ...], *, thousandths: bool = False, in_range: bool = False
) -> Consumption | None:
    """What a request for these amounts consumes of an idle device; None if the device never has that much.

    `thousandths`: ranges of whole thousandths are counted in thousandths. `in_range`: raises `AmountError` for an amount that
    is negative, too large, or not a whole number of thousandths where these are counted.
    """
    amounts = dict(asked)
    if amounts and amounts.keys() - {each.name for each in device.capacity}:
        return None
    consumed = [
        (each, _consumed(each, amounts.get(each.name), thousandths=thousandths, in_range=in_range)) for each in device.capacity
    ]
    if in_range and any(amount < 0 for _, amount in consumed):
        raise AmountError("a capacity value is negative")
    if any(amount > each.amount or _violates(amount, each.policy, thousandths=thousandths) for each, amount in consumed):
        return None
    return tuple((each.name, amount, each.amount) for each, amount in consumed)


def _consumed(capacity: Capacity, asked: int | None, *, thousandths: bool, in_range: bool) -> int:
    policy = capacity.policy
    if asked is None:
        return capacity.amount if policy is None or policy.default is None else policy.default
    if policy is None:
        return asked
    if policy.least is not None:
        return _rounded(asked, policy, policy.least, thousandths=thousandths, in_range=in_range)
    return next((value for value in policy.values if asked <= value), asked)


def _rounded(asked: int, policy: RequestPolicy, least: int, *, thousandths: bool, in_range: bool) -> int:
    if asked < least:
        return least
    if policy.step is None:
        return asked
    unit = _unit(policy, thousandths=thousandths)
    first, stride = _in(least, unit), _in(policy.step, unit)
    steps, rest = divmod(_in(asked, unit) - first, stride)
    amount = (first + stride * (steps + bool(rest))) * unit
    # Quantities above 2^63-1 are read as that.
    too_large = asked >= _LARGEST * NANO or max(asked, amount) > _LARGEST * unit
    if in_range and (too_large or (unit == NANOS_PER_MILLI and asked % unit)):
        raise AmountError("a capacity request cannot be represented in the range of a device")
    return amount


def _unit(policy: RequestPolicy, *, thousandths: bool) -> int:
    """The unit (in 10^-9) in which kube-scheduler counts the steps of a range: one, or with `thousandths` a thousandth if all
    amounts of the range are whole thousandths."""
    amounts = [each for each in (policy.least, policy.most, policy.step) if each is not None]
    fit = all(each % NANOS_PER_MILLI == 0 and each <= _LARGEST * NANOS_PER_MILLI for each in amounts)
    return NANOS_PER_MILLI if thousandths and fit else NANO


def _in(nanos: int, unit: int) -> int:
    return -(-nanos // unit)


def _violates(consumed: int, policy: RequestPolicy | None, *, thousandths: bool) -> bool:
    if policy is None or consumed == policy.default:
        return False
    if policy.ranged:
        if policy.most is not None and consumed > policy.most:
            return True
        if policy.step is None:
            return False
        unit = _unit(policy, thousandths=thousandths)
        if unit == NANOS_PER_MILLI and consumed % unit:
            return True
        return bool((_in(consumed, unit) - _in(policy.least or 0, unit)) % _in(policy.step, unit))
    return bool(policy.values) and consumed not in policy.values
