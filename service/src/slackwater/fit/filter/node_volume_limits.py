"""kube-scheduler's NodeVolumeLimits: a node can attach a limited number of volumes of each CSI driver.

`snapshot.volume_counts` defines what counts as a volume. Pods share one answer if none of their volumes is mounted yet and they
have as many volumes of each driver.
"""

from collections import Counter
from collections.abc import Hashable, Iterable

import numpy as np

from slackwater.model.columns import Codes, Mask, Rows
from slackwater.model.reasons import Reason
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.equivalence_groups import Numbered
from slackwater.snapshot.selection import Selection, coded
from slackwater.snapshot.volume_counts import Handle, VolumeCounts


def volume_limits_part(snapshot: ClusterSnapshot, kind: Numbered) -> Hashable | None:
    """The part that decides the verdicts: equal parts have equal verdicts on every row. None where no limit applies to the
    pod."""
    if not (kind.asks.claims or kind.asks.inline_disks):
        return None
    counts = snapshot.volume_counts
    new = counts.handles(kind)
    if not new:
        return None
    if any(counts.rows_mounting(handle) for handle in new):
        return new
    return tuple(sorted(_by_driver(new).items()))


def judge_node_volume_limits(snapshot: ClusterSnapshot, kind: Numbered, rows: Selection) -> Codes:
    counts = snapshot.volume_counts
    wanted = np.arange(snapshot.n_rows)[rows]
    new = counts.handles(kind)
    exceeded = _exceeded(counts, _by_driver(new), wanted)
    mounting = {row for handle in new for row in counts.rows_mounting(handle)}
    for at in np.flatnonzero(np.isin(wanted, list(mounting))).tolist() if mounting else ():
        row = int(wanted[at])
        more = (handle for handle in new if row not in counts.rows_mounting(handle))
        exceeded[at] = _exceeded(counts, _by_driver(more), wanted[at : at + 1])[0]
    return coded(exceeded, Reason.VOLUME_LIMIT)


def _exceeded(counts: VolumeCounts, more: Counter[str], rows: Rows) -> Mask:
    """Rows where `more` volumes of each driver exceed the driver's limit."""
    exceeded = np.zeros(len(rows), np.bool_)
    for driver, count in more.items():
        exceeded |= counts.present(driver)[rows] > counts.limits(driver)[rows] - count
    return exceeded


def _by_driver(handles: Iterable[Handle]) -> Counter[str]:
    return Counter(driver for driver, _ in handles)
