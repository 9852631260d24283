"""The pools of devices that a node can use, gathered from the slices that drivers publish.

Only the newest generation of a pool counts. A pool is incomplete while slices of it are missing, and invalid if its slices
contradict one another; devices of such pools are not allocated. The order is kube-scheduler's, which takes the first devices
that suit: pools and slices by name, but pools whose devices have binding conditions after all others.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from slackwater.model.devices import CounterSet, Device, DeviceId, NodeChoice, ResourceSlice
from slackwater.model.ids import Row
from slackwater.model.kubernetes_rules import KubernetesVersion, Rule
from slackwater.model.objects import Node
from slackwater.snapshot.device_table import DeviceTable, PoolId, RuleTaints
from slackwater.snapshot.node_facts import NodeFacts
from slackwater.snapshot.node_selector import rows_of_terms

#: Whether a choice of nodes includes the node whose pools are gathered.
Reaches = Callable[[NodeChoice], bool]


@dataclass(frozen=True, slots=True)
class PoolDevice:
    """A device of a pool. `reached`: the node whose pools are gathered can use it."""

    id: DeviceId
    device: Device
    slice: ResourceSlice
    reached: bool


#: "partial": slices are missing, but devices are allocated nevertheless (Kubernetes 1.34).
PoolState = Literal["usable", "partial", "incomplete", "invalid"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """A pool as one node sees it: `devices` are from slices that concern the node, `others` from slices that do not.

    Both are empty if `state` is "incomplete" or "invalid". All devices of the pool share `counters`. `binding`: some device has
    binding conditions.
    """

    id: PoolId
    state: PoolState
    devices: tuple[PoolDevice, ...] = ()
    others: tuple[PoolDevice, ...] = ()
    counters: tuple[CounterSet, ...] = ()
    binding: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class NodePools:
    """The pools of a node in kube-scheduler's order. Instances are compared by identity."""

    pools: tuple[Pool, ...]


def pools_of(table: DeviceTable, facts: NodeFacts, row: Row) -> NodePools:
    """The pools that the node of a row can use; cached until the node's labels or slices change."""
    node = facts.nodes[row]
    kept: dict[str, tuple[Node, NodePools]] = table.kept.setdefault("pools", {})
    known = kept.get(node.name)
    # Most updates of nodes are only heartbeats: labels and slices alone decide.
    if known is None or not (known[0] is node or (known[0].labels == node.labels and known[0].slices == node.slices)):
        known = kept[node.name] = (node, _gather(table, node, _reaches(facts, row), facts.kubernetes))
    return known[1]


def _reaches(facts: NodeFacts, row: Row) -> Reaches:
    name, at = facts.nodes[row].name, np.array([row], np.intp)

    def reaches(choice: NodeChoice) -> bool:
        if choice.name:
            return choice.name == name
        if choice.every or choice.terms is None:
            return choice.every
        return bool(rows_of_terms(facts, choice.terms, at)[0])

    return reaches


def _gather(table: DeviceTable, node: Node, reaches: Reaches, kubernetes: KubernetesVersion) -> NodePools:
    found: dict[PoolId, list[ResourceSlice]] = {}
    # The older of kube-scheduler's allocators, which it takes without these two features, lacks the rule.
    newer = kubernetes.follows(Rule.CONSUMABLE_CAPACITY) or kubernetes.follows(Rule.BINDING_CONDITIONS)
    own_counters = newer and kubernetes.follows(Rule.COUNTERS_OF_THE_NODE)
    for one in (*table.local.get(node.name, ()), *table.shared):
        if _concerns(one, reaches) or (one.counters and not own_counters):
            _add(found, one)
    if kubernetes.follows(Rule.INCOMPLETE_POOLS_UNUSED):
        pools = [pool for each, slices in found.items() if (pool := _pool(table, each, slices, reaches)) is not None]
    else:
        pools = [_pool_of_own_slices(each, slices, reaches) for each, slices in found.items()]
    if node.slices and node.name not in table.published:
        pools.extend(_planned(node, table.rule_taints))
    pools.sort(key=lambda pool: (pool.binding, pool.id))
    return NodePools(tuple(pools))


def _planned(node: Node, rule_taints: RuleTaints) -> Iterable[Pool]:
    """The pools of a node that does not exist yet, by its template. Their names contain the node's, so they are its own; a pool
    without a name gets the node's, which is what most drivers call it. Rules that name no pool taint their devices too."""
    by_pool: dict[PoolId, list[ResourceSlice]] = {}
    for one in node.slices:
        name = f"{one.pool}:{node.name}" if one.pool else node.name
        by_pool.setdefault((one.driver, name), []).append(rule_taints.on(one, pool=name))
    return [_build(pool, slices, (), lambda _: True) for pool, slices in by_pool.items()]


def _concerns(one: ResourceSlice, reaches: Reaches) -> bool:
    """Whether the node can use any device of the slice."""
    nodes = one.nodes
    if nodes.name or nodes.every or nodes.terms is not None:
        return reaches(nodes)
    return one.per_device and any(device.nodes is not None and reaches(device.nodes) for device in one.devices)


def _add(found: dict[PoolId, list[ResourceSlice]], one: ResourceSlice) -> None:
    """Adds a slice to its pool. Ignores the slice if the pool has a newer generation, and drops older slices."""
    slices = found.setdefault((one.driver, one.pool), [])
    if slices and one.generation < slices[0].generation:
        return
    if slices and one.generation > slices[0].generation:
        slices.clear()
    slices.append(one)


def _pool(table: DeviceTable, pool: PoolId, slices: list[ResourceSlice], reaches: Reaches) -> Pool | None:
    """The pool, given its slices that concern the node. None if no slice of the newest generation concerns the node."""
    wanted, generation = slices[0].slices, slices[0].generation
    if len(slices) == wanted:
        return _build(pool, slices, (), reaches)
    everywhere = table.by_pool[pool]
    if any(one.generation > generation for one in everywhere):
        return None
    current = [one for one in everywhere if one.generation == generation]
    if len(current) != wanted:
        return Pool(id=pool, state="incomplete")
    mine = {one.name for one in slices}
    return _build(pool, slices, [one for one in current if one.name not in mine], reaches)


def _pool_of_own_slices(pool: PoolId, slices: list[ResourceSlice], reaches: Reaches) -> Pool:
    """The pool by the rules of Kubernetes 1.34, which ignores slices that do not concern the node."""
    state: PoolState = "usable" if len(slices) == slices[0].slices else "partial"
    return _build(pool, slices, (), reaches, state)


def _build(
    pool: PoolId,
    slices: Sequence[ResourceSlice],
    rest: Sequence[ResourceSlice],
    reaches: Reaches,
    state: PoolState = "usable",
) -> Pool:
    slices = sorted(slices, key=lambda one: one.name)
    with_devices = [one for one in slices if not one.counters]
    names = [device.name for one in with_devices for device in one.devices]
    counters = [each for one in (*slices, *rest) for each in one.counters]
    known = {each.name: {name for name, _ in each.counters} for each in counters}
    if (
        len(set(names)) < len(names)
        or len(known) < len(counters)
        or not all(_consumes_known(device, known) for one in (*slices, *rest) for device in one.devices)
    ):
        return Pool(id=pool, state="invalid")
    return Pool(
        id=pool,
        state=state,
        devices=tuple(_devices(pool, with_devices, reaches)),
        others=tuple(_devices(pool, rest, lambda _: False)),
        counters=tuple(counters),
        binding=any(device.binding is not None for one in with_devices for device in one.devices),
    )


def _devices(pool: PoolId, slices: Iterable[ResourceSlice], reaches: Reaches) -> Iterable[PoolDevice]:
    for one in slices:
        for device in one.devices:
            reached = reaches(device.nodes or NodeChoice()) if one.per_device else True
            yield PoolDevice(DeviceId(*pool, device.name), device, one, reached)


def _consumes_known(device: Device, known: dict[str, set[str]]) -> bool:
    """Whether the device consumes only counters that its pool has."""
    return all(
        each.name in known and all(counter in known[each.name] for counter, _ in each.counters) for each in device.consumes
    )
