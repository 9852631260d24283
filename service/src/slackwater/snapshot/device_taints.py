"""The taints of DeviceTaintRules on the devices that the rules select, as kube-scheduler's tracker of ResourceSlices adds them.

In: the rules, and slices as their drivers publish them. Out: slices whose devices have the taints of the rules after their own.
The order of the rules is that of their names; no verdict depends on it.
"""

from collections.abc import Iterable
from dataclasses import replace

from slackwater.model.devices import Device, DeviceTaint, DeviceTaintRule, ResourceSlice

#: Taints by the device's name; None: of every device of a pool.
_OfPool = dict[str | None, tuple[DeviceTaint, ...]]


class RuleTaints:
    """The taints of some rules, looked up by driver, pool and device."""

    def __init__(self, rules: Iterable[DeviceTaintRule]) -> None:
        self._by_pool: dict[tuple[str | None, str | None], _OfPool] = {}
        for rule in sorted(rules, key=lambda each: each.name):
            if rule.selector is not None:
                driver, pool, device = rule.selector
                found = self._by_pool.setdefault((driver, pool), {})
                found[device] = (*found.get(device, ()), rule.taint)

    def on(self, one: ResourceSlice, *, pool: str | None = None) -> ResourceSlice:
        """The slice with the taints of the rules. `pool` is the name of its pool if that differs from the slice's: nodes that
        are only planned have no pools yet."""
        found = self._of_pool(one.driver, one.pool if pool is None else pool) if self._by_pool else ()
        return replace(one, devices=tuple([_tainted(each, found) for each in one.devices])) if found else one

    def _of_pool(self, driver: str, pool: str) -> tuple[_OfPool, ...]:
        keys = ((driver, pool), (driver, None), (None, pool), (None, None))
        return tuple([self._by_pool[key] for key in keys if key in self._by_pool])


def _tainted(device: Device, found: Iterable[_OfPool]) -> Device:
    more = tuple([taint for taints in found for name in (device.name, None) for taint in taints.get(name, ())])
    return replace(device, taints=(*device.taints, *more)) if more else device
