"""PodTopologySpread (ScheduleAnyway): prefers nodes whose value of a label has few pods that the constraint selects.

If the pod has no constraints, kube-scheduler uses default ones: its built-in ones spread pods of the same Service or controller
over hosts and zones, and nodes need not have these labels; a profile may list others. The selector of default constraints is
`spread_by_default`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from typing import Final

import numpy as np

from slackwater.fit.filter.pod_topology_spread import CountingRows, rows_with_labels, spread_counter
from slackwater.fit.score.normalizing import HIGHEST
from slackwater.model.columns import Int64, Mask, Rows
from slackwater.model.pod_constraints import SpreadConstraint
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.equivalence_groups import NumberedGroup
from slackwater.snapshot.node_facts import ABSENT, HOSTNAME

_ZONE: Final = "topology.kubernetes.io/zone"


@dataclass(frozen=True, slots=True)
class DefaultSpread:
    """The soft constraints for pods that state none, as (label, `maxSkew`) pairs. `system`: these are kube-scheduler's built-in
    ones, for which a node need not have the labels."""

    constraints: tuple[tuple[str, int], ...]
    system: bool = False


SYSTEM_DEFAULT: Final = DefaultSpread(((HOSTNAME, 3), (_ZONE, 5)), system=True)


def domains_differ(_snapshot: ClusterSnapshot, kind: NumberedGroup, default: DefaultSpread = SYSTEM_DEFAULT) -> bool:
    return bool(soft_constraints(kind, default)[0])


def score_pod_topology_spread(
    snapshot: ClusterSnapshot, kind: NumberedGroup, rows: Rows, default: DefaultSpread = SYSTEM_DEFAULT
) -> Int64:
    constraints, labels_wanted = soft_constraints(kind, default)
    if not constraints or not len(rows):
        return np.zeros(len(rows), np.int64)
    labelled = rows_with_labels(snapshot, constraints) if labels_wanted else snapshot.facts.live[: snapshot.n_rows].copy()
    scored = rows[labelled[rows]]
    raw = np.zeros(snapshot.n_rows, np.float64)
    counting = CountingRows(snapshot, kind, labelled)
    for constraint in constraints:
        raw += _score_for_count(snapshot, kind, constraint, counting, scored)
    whole = np.trunc(raw)
    whole += raw - whole >= 0.5  # half away from zero, as Go rounds
    return _normalized(whole.astype(np.int64)[rows], labelled[rows])


def soft_constraints(kind: NumberedGroup, default: DefaultSpread = SYSTEM_DEFAULT) -> tuple[Sequence[SpreadConstraint], bool]:
    """The constraints that score, and whether only nodes that have the constraints' labels are scored."""
    if kind.asks.spread:
        return [constraint for constraint in kind.asks.spread if not constraint.hard], True
    selector = kind.asks.spread_by_default
    if selector is None:
        return [], False
    constraints = [
        SpreadConstraint(hard=False, max_skew=max_skew, topology_key=key, selector=selector)
        for key, max_skew in default.constraints
    ]
    return constraints, not default.system


def _score_for_count(
    snapshot: ClusterSnapshot, kind: NumberedGroup, constraint: SpreadConstraint, rows: CountingRows, scored: Rows
) -> np.typing.NDArray[np.float64]:
    column = snapshot.facts.label(constraint.topology_key)
    ids = column.ids[: snapshot.n_rows]
    if constraint.selector == ():
        pods = np.zeros(snapshot.n_rows, np.int64)
    else:
        pods = snapshot.counters.read(spread_counter(snapshot, kind, constraint))[: snapshot.n_rows]
    if constraint.topology_key == HOSTNAME:
        counts, n_values = pods, len(scored)
    else:
        # Nodes without the label count together, as the first value: ABSENT is -1.
        counting, n_ids = rows.of(constraint), len(column.values) + 1
        by_value = np.bincount(ids[counting] + 1, weights=pods[counting], minlength=n_ids)
        counts, n_values = by_value[ids + 1], int(np.count_nonzero(np.bincount(ids[scored] + 1)))
    crowding = counts.astype(np.float64) * log(n_values + 2) + float(constraint.max_skew - 1)
    return np.where(ids != ABSENT, crowding, 0.0)


def _normalized(raw: Int64, labelled: Mask) -> Int64:
    if not labelled.any():
        return np.zeros(len(raw), np.int64)
    lowest, highest = int(raw[labelled].min()), int(raw[labelled].max())
    if highest == 0:
        return np.where(labelled, HIGHEST, 0)
    return np.where(labelled, HIGHEST * (highest + lowest - raw) // highest, 0)
