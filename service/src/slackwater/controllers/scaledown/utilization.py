"""Utilization: how full a node is, by Cluster Autoscaler's rule (simulator/utilization/info.go there).

CPU or memory counts, whichever is fuller. Where the node has GPUs or devices of its own, only their use counts: the machine is
bought for them. `utilizations` gives all nodes' utilization, `without_daemons` leaves out DaemonSet pods if the group's rules
say so.

Differences from Cluster Autoscaler keep a node rather than remove it: of GPUs and pools of devices the fullest counts;
allocated devices that the pool no longer lists count as held; a node whose slices list no device is judged by CPU and memory.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from itertools import chain
from typing import Final, NamedTuple

import numpy as np

from slackwater.controllers.scaledown.policy import ScaleDownPolicy
from slackwater.model.columns import Int64, Rows
from slackwater.model.devices import ResourceSlice
from slackwater.model.ids import NodeName, Row
from slackwater.model.resources import GPUS
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.device_table import PoolId
from slackwater.snapshot.node_facts import CPU, MEMORY
from slackwater.snapshot.running_pods import PodsByRow

#: NVIDIA's device plug-in offers a part of a GPU, and a GPU that several pods share, under names of their own.
_PARTS_OF_GPUS: Final = ("nvidia.com/mig-", "nvidia.com/gpu.shared")


class Utilization(NamedTuple):
    """A node's utilization. `share`: the share of `resource` that pods hold, relative to what the node has; it may exceed 1.

    `resource` is cpu, memory, the name of a GPU resource, or driver/pool of devices. DaemonSet pods count, unless the policy
    ignores them: then their requests are subtracted from allocatable too.
    """

    share: float
    resource: str

    @property
    def of_gpu(self) -> bool:
        return is_gpu(self.resource)

    def threshold(self, rules: ScaleDownPolicy) -> float:
        """The highest share at which the node may be removed."""
        return rules.gpu_utilization_threshold if self.of_gpu else rules.utilization_threshold


def is_gpu(resource: str) -> bool:
    return resource in GPUS or resource.startswith(_PARTS_OF_GPUS)


def utilizations(snapshot: ClusterSnapshot, rows: Rows) -> list[Utilization]:
    """The utilization of each row, in the order of `rows`."""
    facts = snapshot.facts
    shares = _shares(snapshot.used_by_others()[[CPU, MEMORY]][:, rows], facts.allocatable[[CPU, MEMORY]][:, rows])
    by_memory = shares[1] > shares[0]
    found = [
        Utilization(share, "memory" if memory else "cpu")
        for share, memory in zip(shares.max(axis=0).tolist(), by_memory.tolist(), strict=True)
    ]
    for at, of_device in (*_of_gpus(snapshot, rows), *_of_devices(snapshot, rows)):
        if found[at].resource in {"cpu", "memory"} or of_device.share > found[at].share:
            found[at] = of_device
    return found


def _of_gpus(snapshot: ClusterSnapshot, rows: Rows) -> list[tuple[int, Utilization]]:
    """The utilization of each GPU resource, with the place of its node in `rows`."""
    found = list[tuple[int, Utilization]]()
    for name in sorted(filter(is_gpu, snapshot.facts.offered)):
        line = snapshot.line(name)
        assert line is not None, name
        shares = _shares(snapshot.used_by_others()[line, rows], snapshot.facts.allocatable[line, rows])
        has = np.flatnonzero(snapshot.facts.allocatable[line, rows] > 0)
        found += [(at, Utilization(float(shares[at]), name)) for at in has.tolist()]
    return found


def _of_devices(snapshot: ClusterSnapshot, rows: Rows) -> list[tuple[int, Utilization]]:
    """The utilization of each pool of devices that a driver publishes for one node alone, with the node's place in `rows`."""
    table, nodes = snapshot.devices, snapshot.facts.nodes
    if not table.published:
        return []
    held: dict[PoolId, set[str]] = {}
    for device in chain(table.in_use, table.shares):
        held.setdefault((device.driver, device.pool), set()).add(device.device)
    found = list[tuple[int, Utilization]]()
    for at, row in enumerate(rows.tolist()):
        node = nodes[row].name
        for pool in dict.fromkeys((one.driver, one.pool) for one in table.published.get(node, ())):
            generation = max(one.generation for one in table.by_pool[pool])
            newest = [one for one in table.by_pool[pool] if one.generation == generation]
            share = _share_of_pool(newest, node, held.get(pool, ()))
            found += [] if share is None else [(at, Utilization(share, "/".join(pool)))]
    return found


def _share_of_pool(slices: Sequence[ResourceSlice], node: NodeName, allocated: Collection[str]) -> float | None:
    """The share of the node's devices in the pool that are allocated; None if it has none.

    Devices that are parts of something with counters count by what they take of it: the mean, over the counter sets that
    devices take from, of the fullest counter. All other devices count by number.
    """
    devices = {device.name: device for one in slices if one.nodes.name == node for device in one.devices}
    held = set(allocated).difference(d.name for one in slices if one.nodes.name != node for d in one.devices)
    counters = {each.name: each for one in slices for each in one.counters}
    parts = {name: d for name, d in devices.items() if d.consumes and all(each.name in counters for each in d.consumes)}
    whole = (devices.keys() | held) - parts.keys()
    shares = [len(whole & held) / len(whole)] if whole else []
    taken: Counter[tuple[str, str]] = Counter()
    for name in parts.keys() & held:
        for each in parts[name].consumes:
            taken.update({(each.name, counter): amount for counter, amount in each.counters})
    sets = {each.name for part in parts.values() for each in part.consumes}
    if sets:
        fullest = (
            max((taken[name, counter] / amount for counter, amount in counters[name].counters if amount), default=0.0)
            for name in sets
        )
        shares.append(sum(fullest) / len(sets))
    return max(shares, default=None)


def without_daemons(
    used: Utilization, snapshot: ClusterSnapshot, running_pods: PodsByRow, row: Row, rules: ScaleDownPolicy | None
) -> Utilization:
    """The row's utilization by its group's rules: if they ignore DaemonSet pods, these are subtracted from requests and from
    allocatable. `used` is the utilization with them."""
    if rules is None or not rules.ignore_daemon_sets_utilization or used.resource not in {"cpu", "memory"}:
        return used
    if used.share <= rules.utilization_threshold:
        return used
    daemons = [
        running.kind
        for running in running_pods.on(row)
        if (facts := running.pod.eviction_facts).daemon or (facts.owner is not None and facts.owner.kind == "DaemonSet")
    ]
    lines = slice(len(snapshot.facts.resource))
    asked = snapshot.kinds.requests[lines, daemons].sum(axis=1) if daemons else 0
    left, allocatable = snapshot.used_by_others()[lines, row] - asked, snapshot.facts.allocatable[lines, row] - asked
    cpu, memory = _shares(left[[CPU, MEMORY]], allocatable[[CPU, MEMORY]]).tolist()
    return Utilization(memory, "memory") if memory > cpu else Utilization(cpu, "cpu")


def _shares(used: Int64, allocatable: Int64) -> "np.ndarray[tuple[int, ...], np.dtype[np.float64]]":
    """Used divided by allocatable, element by element. If nothing is allocatable: 0 if nothing is used, else 1."""
    none = allocatable <= 0
    return np.where(none, (used > 0).astype(np.float64), used / np.where(none, 1, allocatable))
