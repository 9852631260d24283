"""Utilization: how full nodes are, as Cluster Autoscaler counts it: the larger of the requested shares of CPU and memory.

Shares are of allocatable. A node with GPUs is as full as its GPUs. DaemonSet pods count, unless they are to be ignored: then
their requests are subtracted from allocatable too.
"""

from typing import Final, NamedTuple

import numpy as np

from slackwater.model.columns import Int64, Rows
from slackwater.model.eviction_facts import EvictionFacts
from slackwater.model.ids import Row
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.node_facts import CPU, MEMORY
from slackwater.snapshot.running_pods import Standing

#: Extended resources that count as a GPU.
GPUS: Final = ("nvidia.com/gpu", "habana.ai/gaudi", "gpu.intel.com/xe", "amd.com/gpu", "microsoft.com/directx")


class Utilization(NamedTuple):
    """A node's utilization: `share` of `resource`; may exceed 1."""

    share: float
    resource: str

    @property
    def of_gpu(self) -> bool:
        return self.resource in GPUS


def utilizations(snapshot: ClusterSnapshot, rows: Rows) -> list[Utilization]:
    """The utilization of each row."""
    facts = snapshot.facts
    shares = _shares(snapshot.used[[CPU, MEMORY]][:, rows], facts.allocatable[[CPU, MEMORY]][:, rows])
    by_memory = shares[1] > shares[0]
    found = [
        Utilization(share, "memory" if memory else "cpu")
        for share, memory in zip(shares.max(axis=0).tolist(), by_memory.tolist(), strict=True)
    ]
    for name in GPUS:
        line = facts.resource.get(name)
        if line is None:
            continue
        has = facts.allocatable[line, rows] > 0
        of_cards = _shares(snapshot.used[line, rows], facts.allocatable[line, rows])
        for at in np.flatnonzero(has).tolist():
            if not found[at].of_gpu or of_cards[at] > found[at].share:
                found[at] = Utilization(float(of_cards[at]), name)
    return found


def without_daemons(snapshot: ClusterSnapshot, standing: Standing, row: Row) -> Utilization:
    """The utilization of one row, with DaemonSet pods subtracted from requests and from allocatable."""
    daemons = [running_pod.kind for running_pod in standing.on(row) if _is_daemon(running_pod.pod.eviction_facts)]
    asked = snapshot.kinds.requests[:, daemons].sum(axis=1) if daemons else 0
    used, allocatable = snapshot.used[:, row] - asked, snapshot.facts.allocatable[:, row] - asked
    cpu, memory = _shares(used[[CPU, MEMORY]], allocatable[[CPU, MEMORY]]).tolist()
    return Utilization(memory, "memory") if memory > cpu else Utilization(cpu, "cpu")


def _is_daemon(eviction_facts: EvictionFacts) -> bool:
    return eviction_facts.daemon or (eviction_facts.owner is not None and eviction_facts.owner.kind == "DaemonSet")


def _shares(used: Int64, allocatable: Int64) -> "np.ndarray[tuple[int, ...], np.dtype[np.float64]]":
    """Used over allocatable; if nothing is allocatable, 0 if nothing is used, else 1."""
    none = allocatable <= 0
    return np.where(none, (used > 0).astype(np.float64), used / np.where(none, 1, allocatable))
