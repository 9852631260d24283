"""kube-scheduler's PodTopologySpread with DoNotSchedule: selected pods must be spread over the values of a node label.

For each constraint the matching pods on counting nodes are summed by value of the constraint's label. The pod fits on a node if
the sum for the node's value, plus one if the pod matches itself, exceeds the smallest sum by at most maxSkew. Nodes count if
they have the labels of all constraints and the constraint's policies do not exclude them. Pods that are being deleted do not
count.
"""

from collections.abc import Sequence

import numpy as np

from slackwater.fit.filter.node_affinity import matching_rows
from slackwater.fit.filter.taint_toleration import repelled
from slackwater.model.columns import Codes, Int64, Mask
from slackwater.model.pod_constraints import SpreadConstraint
from slackwater.model.reasons import Reason
from slackwater.model.selectors import selects
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.counted_pods import PodsMatching
from slackwater.snapshot.counters import Counter
from slackwater.snapshot.equivalence_groups import NumberedGroup
from slackwater.snapshot.node_facts import ABSENT
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
            counting = counting & ~repelled(facts, kind)[facts.taints[every]]
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
