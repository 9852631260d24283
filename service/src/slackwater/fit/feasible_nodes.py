"""Feasibility: judges all rows for an equivalence group by every predicate, in the order of kube-scheduler's default profile of
the snapshot's Kubernetes version (`predicates_of`).

    verdicts = feasible(snapshot, kind)        # kind: a KindId of the snapshot
    verdicts.codes                            # a model.reasons.Reason for each row, shape (n_rows,), uint8
    verdicts.rows                             # the rows that are OK

The first predicate that rejects a row gives its code. The pod itself may be refused before any row is judged (kube-scheduler's
PreFilter); then every row has the code of that refusal.

Codes are cached by predicate and by the part of an equivalence group that the predicate reads, so groups that differ elsewhere
share them. Predicates that read only a row's node and pods (resources, ports, volume limits, node facts) judge again only rows
that changed. Predicates about other pods judge all rows again, but only if a pod that they count came or went. So after one pod
came or went, renewing a group costs one row and the predicates that count that pod, whatever the number of nodes and groups.

`admitting` applies only the predicates that depend on nodes alone. This module does not choose among the rows
(`fit.node_scores`), and does not change the snapshot (`ClusterSnapshot.place`).
"""

from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from slackwater.fit.plugins import Refusal
from slackwater.fit.plugins.dynamic_resources import (
    dynamic_resources_part,
    dynamic_resources_reasons,
    dynamic_resources_stamp,
    judge_dynamic_resources,
    refuse_dynamic_resources,
)
from slackwater.fit.plugins.inter_pod_affinity import affinity_stamp, judge_inter_pod_affinity, repelling_counters
from slackwater.fit.plugins.node_accounting import judge_ledger, lacks_request
from slackwater.fit.plugins.node_affinity import judge_node_affinity, names_asked
from slackwater.fit.plugins.node_resources import ignored, judge_node_resources_fit
from slackwater.fit.plugins.pod_topology_spread import judge_pod_topology_spread, spread_stamp
from slackwater.fit.plugins.single_facts import (
    declared_features_part,
    judge_node_declared_features,
    judge_node_name,
    judge_node_ports,
    judge_node_unschedulable,
)
from slackwater.fit.plugins.taint_toleration import judge_taint_toleration
from slackwater.fit.plugins.volume_binding import (
    binding_part,
    binding_stamp,
    judge_volume_binding,
    refuse_volume_binding,
)
from slackwater.fit.plugins.volume_rules import (
    judge_node_volume_limits,
    judge_volume_restrictions,
    judge_volume_zone,
    refuse_volume_restrictions,
    refuse_volume_zone,
    volume_limits_part,
    volume_restrictions_part,
    volume_zone_part,
)
from slackwater.model.columns import Codes, Mask, Rows
from slackwater.model.ids import NodeName, Row
from slackwater.model.kubernetes_rules import KubernetesVersion, Rule
from slackwater.model.pod_constraints import Kind
from slackwater.model.reasons import Reason
from slackwater.model.scheduler_profile import profile_of
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.equivalence_groups import KindId, NumberedGroup
from slackwater.snapshot.node_facts import NodeFacts
from slackwater.snapshot.row_journal import Selection, coded

#: The names of predicates that a caller may leave out because it keeps the counts itself.
SPREAD: Final = "PodTopologySpread"
AFFINITY: Final = "InterPodAffinity"
RESOURCES: Final = "NodeResourcesFit"
LEDGER: Final = "Ledger"
NODE_AFFINITY: Final = "NodeAffinity"
DEVICES: Final = "DynamicResources"
#: The plug-ins that may refuse a pod with volume claims before any node is judged.
_REFUSING: Final = (
    ("VolumeRestrictions", refuse_volume_restrictions),
    ("VolumeBinding", refuse_volume_binding),
    ("VolumeZone", refuse_volume_zone),
)
#: The most answers cached in one snapshot: 5 kB each at 5,000 nodes.
_MOST_KEPT: Final = 4_096


@dataclass(frozen=True, slots=True)
class Verdicts:
    """A reason for each row. `refusal` is set if the pod itself is refused, whatever the node."""

    codes: Codes
    refusal: Refusal | None = None

    @property
    def feasible(self) -> Mask:
        feasible: Mask = self.codes == Reason.OK
        return feasible

    @property
    def rows(self) -> Rows:
        return np.flatnonzero(self.codes == Reason.OK)


#: What a predicate reads to judge a row. facts: the row's node. room: also the row's pods. anywhere: also nodes and pods of
#: other rows.
_Reads = Literal["facts", "room", "anywhere"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Predicate:
    """One predicate. `part` returns what it reads of an equivalence group, or None if it does not apply to the group.

    All rows are judged again when the result of `stamp` changes.
    """

    name: str
    part: Callable[[ClusterSnapshot, NumberedGroup], Hashable | None]
    judge: Callable[[ClusterSnapshot, NumberedGroup, Selection], Codes]
    reads: _Reads
    stamp: Callable[[ClusterSnapshot, NumberedGroup], tuple[int, ...]] = lambda _snapshot, _kind: ()


class _KeptCodes:
    """The cached codes of one predicate for one part of equivalence groups, shape (capacity of the snapshot,), and the versions
    that the codes are based on."""

    __slots__ = ("codes", "facts", "n_rows", "pods", "stamp")

    def __init__(self, capacity: int) -> None:
        self.codes: Codes = np.zeros(capacity, np.uint8)
        self.n_rows = 0
        self.facts = self.pods = -1
        self.stamp: tuple[int, ...] | None = None


def feasible(snapshot: ClusterSnapshot, kind: KindId, *, without: Collection[str] = ()) -> Verdicts:
    """Judges all rows for the equivalence group. The caller may write to the arrays.

    `without` names predicates that are left out, for a caller that judges by them itself.
    """
    numbered = snapshot.of(kind)
    refusal = refused(snapshot, numbered)
    if refusal is not None:
        return Verdicts(np.full(snapshot.n_rows, refusal.reason, np.uint8), refusal)
    codes: Codes | None = None
    disabled = profile_of(snapshot.facts.profiles, numbered.kind).disabled
    for predicate in predicates_of(snapshot.facts.kubernetes):
        part = None if predicate.name in without or predicate.name in disabled else predicate.part(snapshot, numbered)
        if part is None:
            continue
        judged = _codes(snapshot, numbered, predicate, part)
        if codes is None:
            codes = judged.copy()
        else:
            np.copyto(codes, judged, where=codes == 0)
    assert codes is not None
    if numbered.asks.resource_claims or numbered.asks.container_devices:
        return _given_up(snapshot, numbered, codes)
    return Verdicts(codes)


def _given_up(snapshot: ClusterSnapshot, kind: NumberedGroup, codes: Codes) -> Verdicts:
    """Replaces the verdicts by a refusal of the pod if kube-scheduler fails on one of the nodes, since it then ends the pod's
    scheduling cycle with an error."""
    failing = np.flatnonzero(codes == Reason.DEVICES_FAILED)
    if not len(failing):
        return Verdicts(codes)
    text = dynamic_resources_reasons(snapshot, kind, Row(int(failing[0])), Reason.DEVICES_FAILED)[0]
    codes[:] = Reason.DEVICES_FAILED
    return Verdicts(codes, Refusal(Reason.DEVICES_FAILED, text))


def judged_apart(snapshot: ClusterSnapshot, kind: KindId) -> dict[str, Codes]:
    """The codes of each predicate that applies to the equivalence group, by the predicate's name. Callers must not write to
    them.

    If several predicates reject a row, `feasible` has only the first one's code. Refusals of the pod itself are not included.
    """
    numbered = snapshot.of(kind)
    disabled = profile_of(snapshot.facts.profiles, numbered.kind).disabled
    predicates = (each for each in predicates_of(snapshot.facts.kubernetes) if each.name not in disabled)
    parts = ((predicate, predicate.part(snapshot, numbered)) for predicate in predicates)
    return {predicate.name: _codes(snapshot, numbered, predicate, part) for predicate, part in parts if part is not None}


def refused(snapshot: ClusterSnapshot, kind: NumberedGroup) -> Refusal | None:
    """The refusal of the pod itself by the first plug-in that refuses it; None if none does."""
    disabled = profile_of(snapshot.facts.profiles, kind.kind).disabled
    if kind.kind.node_affinity is not None and names_asked(kind.kind) == frozenset() and NODE_AFFINITY not in disabled:
        return Refusal(Reason.AFFINITY_CONFLICT, Reason.AFFINITY_CONFLICT.text)
    for name, refuse in _REFUSING if kind.asks.claims else ():
        refusal = None if name in disabled else refuse(snapshot, kind)
        if refusal is not None:
            return refusal
    return refuse_dynamic_resources(snapshot, kind) if kind.asks.resource_claims and DEVICES not in disabled else None


def _codes(snapshot: ClusterSnapshot, kind: NumberedGroup, predicate: _Predicate, part: Hashable) -> Codes:
    key = (predicate.name, part)
    kept = snapshot.kept.pop(key, None)
    if not isinstance(kept, _KeptCodes) or len(kept.codes) < snapshot.n_rows:
        kept = _KeptCodes(snapshot.facts.capacity)
    if len(snapshot.kept) >= _MOST_KEPT:
        del snapshot.kept[next(iter(snapshot.kept))]
    snapshot.kept[key] = kept
    if predicate.reads == "anywhere":
        position = snapshot.n_rows, snapshot.facts.journal.position
        if kept.stamp != (*position, *predicate.stamp(snapshot, kind)):
            _judge(snapshot, kind, predicate, kept, slice(0, snapshot.n_rows))
            kept.stamp = (*position, *predicate.stamp(snapshot, kind))  # computed again: judging may create counters
    else:
        _renew_rows(snapshot, kind, predicate, kept)
    return kept.codes[: snapshot.n_rows]


def _renew_rows(snapshot: ClusterSnapshot, kind: NumberedGroup, predicate: _Predicate, kept: _KeptCodes) -> None:
    facts, pods = snapshot.facts.journal.position, snapshot.journal.position
    stamp = predicate.stamp(snapshot, kind)
    changed = _changed_rows(snapshot, predicate, kept) if kept.stamp == stamp else None
    if changed is None:
        _judge(snapshot, kind, predicate, kept, slice(0, snapshot.n_rows))
    else:
        changed = changed[changed < snapshot.n_rows]
        if len(changed):
            _judge(snapshot, kind, predicate, kept, changed)
    kept.facts, kept.pods, kept.stamp = facts, pods, stamp


def _changed_rows(snapshot: ClusterSnapshot, predicate: _Predicate, kept: _KeptCodes) -> Rows | None:
    """The rows to judge again because their node changed, or their pods if the predicate reads them. None means all rows."""
    if kept.facts < 0:
        return None
    most = max(8, snapshot.n_rows // 4)
    changed = snapshot.facts.journal.since(kept.facts, at_most=most)
    if predicate.reads == "facts" or changed is None:
        return changed
    moved = snapshot.journal.since(kept.pods, at_most=most)
    if moved is None or not len(changed):
        return moved
    return np.union1d(changed, moved)


def _judge(snapshot: ClusterSnapshot, kind: NumberedGroup, predicate: _Predicate, kept: _KeptCodes, rows: Selection) -> None:
    kept.codes[: snapshot.n_rows][rows] = predicate.judge(snapshot, kind, rows)
    snapshot.rows_judged += snapshot.n_rows if isinstance(rows, slice) else len(rows)


def _live(snapshot: ClusterSnapshot, _kind: NumberedGroup, rows: Selection) -> Codes:
    return coded(~snapshot.facts.live[: snapshot.n_rows][rows], Reason.NODE_UNKNOWN)


def _left_out(snapshot: ClusterSnapshot, kind: NumberedGroup, rows: Selection) -> Codes:
    """Rejects nodes that the affinity does not list, if it lists nodes by name: kube-scheduler looks at no others."""
    row_of = snapshot.facts.row_of
    named = [row_of[NodeName(name)] for name in names_asked(kind.kind) or () if NodeName(name) in row_of]
    return coded(~np.isin(np.arange(snapshot.n_rows)[rows], named), Reason.NODE_LEFT_OUT)


def _ledger(snapshot: ClusterSnapshot, kind: NumberedGroup, rows: Selection) -> Codes:
    assert snapshot.ledger is not None
    if lacks_request(snapshot, kind.kind):
        return np.full(len(np.arange(snapshot.n_rows)[rows]), Reason.MISSING_REQUEST, np.uint8)
    ledger = snapshot.ledger_against(kind.kind)
    assert ledger is not None
    return judge_ledger(kind.kind.requests, ledger, np.arange(snapshot.n_rows)[rows])


def _takes_less(snapshot: ClusterSnapshot, kind: NumberedGroup) -> bool:
    """Is the room of expendable pods not free for the group, although it is for others?"""
    return snapshot.yielding is not None and not kind.kind.preempts


def _of_labels(snapshot: ClusterSnapshot, kind: NumberedGroup) -> Hashable | None:
    part = kind.kind.node_selector, kind.kind.node_affinity, profile_of(snapshot.facts.profiles, kind.kind).added_affinity
    return None if part == ((), None, None) else part


def _of_affinity(snapshot: ClusterSnapshot, kind: NumberedGroup) -> Hashable | None:
    asks = kind.asks.affinity or kind.asks.anti_affinity
    return kind.id if asks or repelling_counters(snapshot, kind) else None


#: The predicates in the order of kube-scheduler's default profile until 1.36; our own accounting is last. The first that
#: rejects a row gives its code.
PREDICATES: Final = (
    _Predicate(name="Live", part=lambda _, kind: True, judge=_live, reads="facts"),
    _Predicate(
        name="LeftOut",
        part=lambda _, kind: kind.kind.node_affinity if names_asked(kind.kind) else None,
        judge=_left_out,
        reads="facts",
    ),
    _Predicate(
        name="NodeUnschedulable",
        part=lambda _, kind: kind.kind.tolerations,
        judge=lambda snapshot, kind, rows: judge_node_unschedulable(snapshot.facts, kind.kind, rows),
        reads="facts",
    ),
    _Predicate(
        name="NodeName",
        part=lambda _, kind: kind.asks.node_name,
        judge=judge_node_name,
        reads="facts",
    ),
    _Predicate(
        name="TaintToleration",
        part=lambda _, kind: kind.kind.tolerations,
        judge=lambda snapshot, kind, rows: judge_taint_toleration(snapshot.facts, kind.kind, rows),
        reads="facts",
    ),
    _Predicate(
        name=NODE_AFFINITY,
        part=_of_labels,
        judge=lambda snapshot, kind, rows: judge_node_affinity(snapshot.facts, kind.kind, rows),
        reads="facts",
    ),
    _Predicate(name="NodePorts", part=lambda _, kind: kind.asks.host_ports or None, judge=judge_node_ports, reads="room"),
    _Predicate(
        name=RESOURCES,
        part=lambda snapshot, kind: (
            kind.kind.requests,
            kind.asks.scalars,
            ignored(snapshot, kind),
            _takes_less(snapshot, kind),
        ),
        judge=judge_node_resources_fit,
        reads="room",
    ),
    _Predicate(
        name="VolumeRestrictions",
        part=volume_restrictions_part,
        judge=judge_volume_restrictions,
        reads="anywhere",
        stamp=lambda snapshot, _: (snapshot.attached_version,),
    ),
    _Predicate(
        name="NodeVolumeLimits",
        part=volume_limits_part,
        judge=judge_node_volume_limits,
        reads="room",
    ),
    _Predicate(name="VolumeBinding", part=binding_part, judge=judge_volume_binding, reads="facts", stamp=binding_stamp),
    _Predicate(name="VolumeZone", part=volume_zone_part, judge=judge_volume_zone, reads="facts"),
    _Predicate(
        name=SPREAD,
        part=lambda _, kind: kind.id if any(constraint.hard for constraint in kind.asks.spread) else None,
        judge=judge_pod_topology_spread,
        reads="anywhere",
        stamp=spread_stamp,
    ),
    _Predicate(name=AFFINITY, part=_of_affinity, judge=judge_inter_pod_affinity, reads="anywhere", stamp=affinity_stamp),
    _Predicate(
        name=DEVICES,
        part=dynamic_resources_part,
        judge=judge_dynamic_resources,
        reads="room",
        stamp=dynamic_resources_stamp,
    ),
    _Predicate(
        name="NodeDeclaredFeatures",
        part=declared_features_part,
        judge=judge_node_declared_features,
        reads="facts",
    ),
    _Predicate(
        name=LEDGER,
        part=lambda snapshot, kind: (
            (kind.kind.requests, lacks_request(snapshot, kind.kind), _takes_less(snapshot, kind))
            if snapshot.ledger is not None
            else None
        ),
        judge=_ledger,
        reads="room",
    ),
)
_NODE_UNSCHEDULABLE, _NODE_NAME = PREDICATES[2:4]
#: The predicates in the order of kube-scheduler's default profile since 1.37.
_NAME_FIRST: Final = (*PREDICATES[:2], _NODE_NAME, _NODE_UNSCHEDULABLE, *PREDICATES[4:])


def predicates_of(version: KubernetesVersion) -> tuple[_Predicate, ...]:
    """The predicates in the order of the version's default profile."""
    return _NAME_FIRST if version.follows(Rule.NODE_NAME_FIRST) else PREDICATES


#: The predicates that depend on nodes alone, in kube-scheduler's order.
NODE_RULES = (judge_node_unschedulable, judge_taint_toleration, judge_node_affinity)


def admitting(kind: Kind, facts: NodeFacts) -> Mask:
    """Which rows `NODE_RULES` accept for the equivalence group, shape (n_rows,); closed rows are not accepted."""
    rows = slice(0, facts.n_rows)
    mask: Mask = facts.live[rows].copy()
    for rule in NODE_RULES:
        mask &= rule(facts, kind, rows) == Reason.OK
    return mask
