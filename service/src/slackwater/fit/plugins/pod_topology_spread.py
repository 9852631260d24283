"""kube-scheduler's PodTopologySpread: selected pods must (DoNotSchedule) or should (ScheduleAnyway) be spread over the values
of a node label.

For each constraint the matching pods on counting nodes are summed by value of the constraint's label. The pod fits on a node if
the sum for the node's value, plus one if the pod matches itself, exceeds the smallest sum by at most maxSkew. Nodes count if
they have the labels of all constraints and the constraint's policies do not exclude them. Pods that are being deleted do not
count.

The score prefers nodes whose value of a label has few pods that the constraint selects. If the pod has no constraints,
kube-scheduler uses default ones: its built-in ones spread pods of the same Service or controller over hosts and zones, and
nodes need not have these labels; a profile may list others. The selector of default constraints is `spread_by_default`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from typing import Final

import numpy as np

from slackwater.fit.plugins import Predicate
from slackwater.fit.plugins.node_affinity import matching_rows
from slackwater.fit.plugins.taint_toleration import repelled
from slackwater.fit.scoring import HIGHEST
from slackwater.model.columns import Codes, Int64, Mask, Rows
from slackwater.model.objects import ZONE
from slackwater.model.pod_constraints import SpreadConstraint
from slackwater.model.reasons import Reason
from slackwater.model.selectors import selects
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.counted_pods import PodsMatching
from slackwater.snapshot.counters import Counter
from slackwater.snapshot.equivalence_groups import NumberedGroup
from slackwater.snapshot.node_facts import ABSENT, HOSTNAME
from slackwater.snapshot.row_journal import Selection


def hard_constraints(kind: NumberedGroup) -> tuple[SpreadConstraint, ...]:
    return tuple(constraint for constraint in kind.asks.spread if constraint.hard)


def judge_pod_topology_spread(snapshot: ClusterSnapshot, kind: NumberedGroup, rows: Selection) -> Codes:
    constraints = hard_constraints(kind)
    carrying = rows_with_labels(snapshot, constraints)
    codes = np.zeros(snapshot.n_rows, np.uint8)
    counting = CountingRows(snapshot, kind, carrying)
    for constraint in constraints:
        ids = snapshot.facts.label(constraint.topology_key).ids[: snapshot.n_rows]
        matches = matches_by_value(snapshot, kind, constraint, counting)
        counted = matches[matches != ABSENT]
        least = int(counted.min()) if len(counted) >= constraint.min_domains else 0
        itself = int(selects(constraint.selector, kind.labels))
        here = np.maximum(np.append(matches, 0)[ids], 0)
        open_codes = codes == Reason.OK
        codes[open_codes & (ids == ABSENT)] = Reason.SPREAD_LABEL_MISSING
        codes[open_codes & (ids != ABSENT) & (here + itself - least > constraint.max_skew)] = Reason.SPREAD_SKEW
    return codes[rows]


def rows_with_labels(snapshot: ClusterSnapshot, constraints: Sequence[SpreadConstraint]) -> Mask:
    """Rows whose nodes have the topology keys of all constraints."""
    carrying = snapshot.facts.live[: snapshot.n_rows].copy()
    for constraint in constraints:
        carrying &= snapshot.facts.label(constraint.topology_key).ids[: snapshot.n_rows] != ABSENT
    return carrying


class CountingRows:
    """The rows of `carrying` (nodes with the labels of all constraints) that a constraint's policies do not exclude. There are
    only four kinds of policies, however many constraints."""

    def __init__(self, snapshot: ClusterSnapshot, kind: NumberedGroup, carrying: Mask) -> None:
        self._snapshot = snapshot
        self._kind = kind
        self._carrying = carrying
        self._kept: dict[tuple[bool, bool], Mask] = {}

    def of(self, constraint: SpreadConstraint) -> Mask:
        policies = constraint.honor_affinity, constraint.honor_taints
        if policies not in self._kept:
            self._kept[policies] = self._counting(constraint)
        return self._kept[policies]

    def _counting(self, constraint: SpreadConstraint) -> Mask:
        counting, facts, kind = self._carrying, self._snapshot.facts, self._kind.kind
        every = slice(0, self._snapshot.n_rows)
        if constraint.honor_affinity and (kind.node_selector or kind.node_affinity is not None):
            counting = counting & matching_rows(facts, kind, every)
        if constraint.honor_taints:
            counting = counting & ~repelled(facts, kind)[facts.taints.ids[every]]
        return counting


def matches_by_value(snapshot: ClusterSnapshot, kind: NumberedGroup, constraint: SpreadConstraint, rows: CountingRows) -> Int64:
    """The number of matching pods for each value of the topology key, shape (values,); ABSENT if no counting node has the
    value."""
    column = snapshot.facts.label(constraint.topology_key)
    counting = rows.of(constraint)
    ids = column.ids[: snapshot.n_rows][counting]
    n_values = len(column.values)
    if constraint.selector == ():  # kube-scheduler counts nothing for a selector that selects everything
        matches = np.zeros(n_values, np.int64)
    else:
        pods = snapshot.counters.read(spread_counter(snapshot, kind, constraint))[: snapshot.n_rows][counting]
        matches = np.bincount(ids, weights=pods, minlength=n_values).astype(np.int64)
    matches[np.bincount(ids, minlength=n_values) == 0] = ABSENT
    return matches


def spread_counter(snapshot: ClusterSnapshot, kind: NumberedGroup, constraint: SpreadConstraint) -> Counter:
    """The counter of the pods in the group's namespace that the constraint selects, without those that are being deleted."""
    return snapshot.counters.matching(pods_of_constraint(kind, constraint))


def pods_of_constraint(kind: NumberedGroup, constraint: SpreadConstraint) -> PodsMatching:
    return PodsMatching(((frozenset({kind.kind.namespace}), constraint.selector),), living=True)


def spread_stamp(snapshot: ClusterSnapshot, kind: NumberedGroup) -> tuple[int, ...]:
    """Version numbers that change whenever the verdicts of this predicate for the equivalence group may have changed."""
    counters = [spread_counter(snapshot, kind, constraint).version for constraint in hard_constraints(kind)]
    return (snapshot.facts.journal.position, *counters)


@dataclass(frozen=True, slots=True)
class DefaultSpread:
    """The soft constraints for pods that state none, as (label, `maxSkew`) pairs. `system`: these are kube-scheduler's built-in
    ones, for which a node need not have the labels."""

    constraints: tuple[tuple[str, int], ...]
    system: bool = False


SYSTEM_DEFAULT: Final = DefaultSpread(((HOSTNAME, 3), (ZONE, 5)), system=True)


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


TOPOLOGY_SPREAD: Final = Predicate(
    name="PodTopologySpread",
    part=lambda _, kind: kind.id if hard_constraints(kind) else None,
    judge=judge_pod_topology_spread,
    reads="anywhere",
    stamp=spread_stamp,
)
