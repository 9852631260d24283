"""The taints of DeviceTaintRules on the devices that the rules select, as kube-scheduler's tracker of ResourceSlices adds them.

In: the rules, and slices as their drivers publish them. Out: slices whose devices have the taints of the rules after their own.
Rules come in the order of their names; no verdict depends on it.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from slackwater.model.devices import Device, DeviceId, DeviceTaintRule, ResourceSlice

#: Rules by the name of the device that they select; None: every device of a pool.
_OfPool = dict[str | None, tuple[DeviceTaintRule, ...]]
_NONE: Final[tuple[_OfPool, ...]] = ()


class RuleTaints:
    """Some rules, looked up by driver, pool and device."""

    def __init__(self, rules: Iterable[DeviceTaintRule]) -> None:
        self._by_pool: dict[tuple[str | None, str | None], _OfPool] = {}
        for rule in sorted(rules, key=lambda each: each.name):
            if rule.selector is not None:
                driver, pool, device = rule.selector
                found = self._by_pool.setdefault((driver, pool), {})
                found[device] = (*found.get(device, ()), rule)

    def on(self, one: ResourceSlice, *, pool: str | None = None) -> ResourceSlice:
        """The slice with the taints of the rules. `pool` is the name of its pool if that differs from the slice's: nodes that
        are only planned have no pools yet."""
        found = self._of_pool(one.driver, one.pool if pool is None else pool)
        return replace(one, devices=tuple([_tainted(each, found) for each in one.devices])) if found else one

    def selecting(self, device: DeviceId) -> tuple[DeviceTaintRule, ...]:
        """The rules that taint a device."""
        return _selecting(device.device, self._of_pool(device.driver, device.pool))

    def _of_pool(self, driver: str, pool: str) -> tuple[_OfPool, ...]:
        if not self._by_pool:
            return _NONE
        keys = ((driver, pool), (driver, None), (None, pool), (None, None))
        return tuple([self._by_pool[key] for key in keys if key in self._by_pool])


def _selecting(device: str, found: Iterable[_OfPool]) -> tuple[DeviceTaintRule, ...]:
    return tuple([rule for rules in found for name in (device, None) for rule in rules.get(name, ())])


def _tainted(device: Device, found: Iterable[_OfPool]) -> Device:
    rules = _selecting(device.name, found)
    return replace(device, taints=(*device.taints, *(rule.taint for rule in rules))) if rules else device
