"""The devices of a snapshot: objects of dynamic resource allocation, the allocations that plans assume, and what is in use.

Slices are here with the taints of DeviceTaintRules on their devices (`RuleTaints`), after the devices' own, as kube-scheduler's
tracker of ResourceSlices adds them.

`DeviceTable` lies over `model.devices.DeviceObjects`. A plan puts a claim with its assumed allocation (`put_claim`), and takes
it off again. The table counts which devices all allocations together use.

Deliberately absent: which devices a claim would get (`fit.devices`).
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from slackwater.model.devices import (
    CLASS_RESOURCE_PREFIX,
    ClaimKey,
    Device,
    DeviceClass,
    DeviceId,
    DeviceObjects,
    DeviceTaintRule,
    ResourceClaim,
    ResourceSlice,
)
from slackwater.model.ids import NodeName, PodUid
from slackwater.snapshot.ports_and_volumes import add_to

PoolId = tuple[str, str]


class DeviceTable:
    """The objects about devices, with a plan's assumptions.

    `in_use` are devices that allocations hold alone, with their number; `shares` those that several requests share, and
    `consumed` how much of their capacity is taken. `local` are the slices with devices of each node, `shared` all others;
    `by_pool` is another view of them. `published` are the slices that name a node, by its name, without the taints of rules:
    new nodes are modelled on them. `version` increases when an allocation changes that may concern nodes other than the one
    where its pod runs.
    """

    def __init__(self, objects: DeviceObjects) -> None:
        self.objects = objects
        self.in_use: Counter[DeviceId] = Counter()
        self.shares: Counter[DeviceId] = Counter()
        self.consumed: dict[DeviceId, dict[str, int]] = {}
        self.local: dict[str, list[ResourceSlice]] = {}
        self.shared: list[ResourceSlice] = []
        self.by_pool: dict[PoolId, list[ResourceSlice]] = {}
        self.published: dict[str, list[ResourceSlice]] = {}
        self.rule_taints = RuleTaints(objects.taint_rules.values())
        self.version = 0
        #: Increases with every change of an allocation.
        self.revision = 0
        #: Cached answers of `fit.devices`, which alone writes here.
        self.kept: dict[object, Any] = {}
        self._assumed: dict[ClaimKey, ResourceClaim | None] = {}
        self._of_pod: dict[str, dict[ClaimKey, None]] = {}
        self._classes = _by_resource(objects.classes.values())
        self._wide_pools: set[PoolId] = set()
        for one in objects.slices.values():
            self._index(one)
        for claim in objects.claims.values():
            self._count(claim, 1)
            self._note_users(claim)

    def claim(self, key: ClaimKey) -> ResourceClaim | None:
        """The claim as a plan assumes it, else as the API server has it; None if it does not exist."""
        found = self._assumed.get(key, _ABSENT)
        return self.objects.claims.get(key) if found is _ABSENT else found

    def claims_of(self, pod: PodUid) -> list[ResourceClaim]:
        """The claims that are reserved for a pod, and those that the pod owns."""
        found = (self.claim(key) for key in self._of_pod.get(pod, ()))
        return [claim for claim in found if claim is not None and pod in (claim.owner, *claim.users)]

    def class_of(self, resource: str) -> DeviceClass | None:
        """The class that backs an extended resource; of several classes the newest."""
        return self._classes.get(resource)

    def put_claim(self, key: ClaimKey, claim: ResourceClaim | None) -> ResourceClaim | None:
        """Assumes this value of a claim (None: the claim does not exist). Returns the value before."""
        before = self.claim(key)
        if before is not None:
            self._count(before, -1)
        if claim is not None:
            self._count(claim, 1)
            self._note_users(claim)
        self._assumed[key] = claim
        return before

    def nodes_of(self, claim: ResourceClaim) -> set[NodeName]:
        """The nodes that have a slice of a pool from which the claim's allocation takes devices: verdicts on these nodes may
        change with the claim."""
        pools = {(each.device.driver, each.device.pool) for each in claim.allocation.devices} if claim.allocation else set()
        return {NodeName(one.nodes.name) for pool in pools for one in self.by_pool.get(pool, ()) if one.nodes.name}

    def assumed(self) -> DeviceObjects:
        """All objects as one value, with the assumptions applied."""
        if not self._assumed:
            return self.objects
        claims = {**self.objects.claims, **self._assumed}
        return replace(self.objects, claims={key: claim for key, claim in claims.items() if claim is not None})

    def _index(self, as_published: ResourceSlice) -> None:
        one = self.rule_taints.on(as_published)
        pool = (one.driver, one.pool)
        self.by_pool.setdefault(pool, []).append(one)
        if one.nodes.name and not one.counters:
            self.local.setdefault(one.nodes.name, []).append(one)
        else:
            self.shared.append(one)
        if one.nodes.name:
            self.published.setdefault(one.nodes.name, []).append(as_published)
        else:
            self._wide_pools.add(pool)

    def _note_users(self, claim: ResourceClaim) -> None:
        for uid in filter(None, (*claim.users, claim.owner)):
            self._of_pod.setdefault(uid, {})[claim.key] = None

    def _count(self, claim: ResourceClaim, count: int) -> None:
        """Adds the devices of a claim's allocation to those in use; with `count` -1 removes them. Admin access puts no device
        in use."""
        self.revision += 1
        for each in claim.allocation.devices if claim.allocation is not None else ():
            if each.admin:
                continue
            if (each.device.driver, each.device.pool) in self._wide_pools:
                self.version += 1
            if each.share is None:
                add_to(self.in_use, each.device, count)
            else:
                add_to(self.shares, each.device, count)
                amounts = self.consumed.setdefault(each.device, {})
                for name, amount in each.consumed:
                    amounts[name] = amounts.get(name, 0) + count * amount
                if not any(amounts.values()):
                    del self.consumed[each.device]


_ABSENT: Final[Any] = object()


def _by_resource(classes: Iterable[DeviceClass]) -> dict[str, DeviceClass]:
    """Maps each extended resource to the class that backs it: the newest, and of equally old ones the first by name.

    Like kube-scheduler's ExtendedResourceCache, which takes in the classes by name when it starts, it passes over a class whose
    resource is backed by a newer one, with the resource that is named for the class.
    """
    found: dict[str, DeviceClass] = {}
    for each in sorted(classes, key=lambda one: one.name):
        if each.extended_resource is not None:
            known = found.get(each.extended_resource)
            if known is not None and each.created <= known.created:
                continue
            found[each.extended_resource] = each
        found[CLASS_RESOURCE_PREFIX + each.name] = each
    return found


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
