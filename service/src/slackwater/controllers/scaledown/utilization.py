"""How full nodes are, as Cluster Autoscaler counts it: the larger share of CPU and memory that is requested of allocatable.

A node with graphics cards is as full as its cards. DaemonSets' pods count, unless they are to be ignored: then what they ask
is taken off allocatable too.
"""

from typing import Final, NamedTuple

import numpy as np

from slackwater.model.columns import Int64, Rows
from slackwater.model.eviction_facts import Ties
from slackwater.model.ids import Row
from slackwater.snapshot.cluster_snapshot import Picture
from slackwater.snapshot.node_facts import CPU, MEMORY
from slackwater.snapshot.running_pods import Standing

#: Extended resources that are graphics cards or the like.
GPUS: Final = ("nvidia.com/gpu", "habana.ai/gaudi", "gpu.intel.com/xe", "amd.com/gpu", "microsoft.com/directx")


class Utilization(NamedTuple):
    """`share` of `resource`; may pass 1."""

    share: float
    resource: str

    @property
    def of_gpu(self) -> bool:
        return self.resource in GPUS


def utilizations(picture: Picture, rows: Rows) -> list[Utilization]:
    """One for each row."""
    facts = picture.facts
    shares = _shares(picture.used[[CPU, MEMORY]][:, rows], facts.allocatable[[CPU, MEMORY]][:, rows])
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
        of_cards = _shares(picture.used[line, rows], facts.allocatable[line, rows])
        for at in np.flatnonzero(has).tolist():
            if not found[at].of_gpu or of_cards[at] > found[at].share:
                found[at] = Utilization(float(of_cards[at]), name)
    return found


def without_daemons(picture: Picture, standing: Standing, row: Row) -> Utilization:
    """Of one row, with what DaemonSets' pods ask left out on both sides."""
    daemons = [tenant.kind for tenant in standing.on(row) if _is_daemon(tenant.pod.ties)]
    asked = picture.kinds.requests[:, daemons].sum(axis=1) if daemons else 0
    used, allocatable = picture.used[:, row] - asked, picture.facts.allocatable[:, row] - asked
    cpu, memory = _shares(used[[CPU, MEMORY]], allocatable[[CPU, MEMORY]]).tolist()
    return Utilization(memory, "memory") if memory > cpu else Utilization(cpu, "cpu")


def _is_daemon(ties: Ties) -> bool:
    return ties.daemon or (ties.owner is not None and ties.owner.kind == "DaemonSet")


def _shares(used: Int64, allocatable: Int64) -> "np.ndarray[tuple[int, ...], np.dtype[np.float64]]":
    """Nothing of nothing is 0, something of nothing is all of it."""
    none = allocatable <= 0
    return np.where(none, (used > 0).astype(np.float64), used / np.where(none, 1, allocatable))
