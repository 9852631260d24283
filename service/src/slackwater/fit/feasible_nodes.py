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

from collections.abc import Collection, Hashable
from dataclasses import dataclass
from typing import Final

import numpy as np

from slackwater.fit.plugins import Predicate, Refusal
from slackwater.fit.plugins.dynamic_resources import DEVICES, dynamic_resources_reasons
from slackwater.fit.plugins.inter_pod_affinity import POD_AFFINITY
from slackwater.fit.plugins.node_accounting import LEDGER
from slackwater.fit.plugins.node_affinity import LEFT_OUT, NODE_AFFINITY, judge_node_affinity
from slackwater.fit.plugins.node_resources import RESOURCES_FIT, short_resources
from slackwater.fit.plugins.pod_topology_spread import TOPOLOGY_SPREAD
from slackwater.fit.plugins.single_facts import (
    NODE_DECLARED_FEATURES,
    NODE_NAME,
    NODE_PORTS,
    NODE_UNSCHEDULABLE,
    features_text,
    judge_node_unschedulable,
)
from slackwater.fit.plugins.taint_toleration import TAINT_TOLERATION, judge_taint_toleration
from slackwater.fit.plugins.volume_binding import VOLUME_BINDING, binding_reasons
from slackwater.fit.plugins.volume_rules import NODE_VOLUME_LIMITS, VOLUME_RESTRICTIONS, VOLUME_ZONE, missing_driver_text
from slackwater.model.columns import Codes, Mask, Rows
from slackwater.model.ids import Row
from slackwater.model.kubernetes_rules import KubernetesVersion, Rule
from slackwater.model.pod_constraints import Kind
from slackwater.model.reasons import Reason
from slackwater.model.scheduler_profile import profile_of
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.equivalence_groups import KindId, NumberedGroup
from slackwater.snapshot.node_facts import NodeFacts
from slackwater.snapshot.row_journal import Selection, coded

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


class _KeptCodes:
    """The cached codes of one predicate for one part of equivalence groups, shape (capacity of the snapshot,), and the versions
    that the codes are based on."""

    __slots__ = ("codes", "facts", "n_rows", "pods", "stamp")

    def __init__(self, capacity: int) -> None:
        self.codes: Codes = np.zeros(capacity, np.uint8)
        self.n_rows = 0
        self.facts = self.pods = -1
        self.stamp: tuple[int, ...] | None = None


def feasible(snapshot: ClusterSnapshot, kind: KindId, *, without: Collection[Predicate] = ()) -> Verdicts:
    """Judges all rows for the equivalence group. The caller may write to the arrays.

    `without` are predicates that are left out, for a caller that judges by them itself.
    """
    numbered = snapshot.of(kind)
    refusal = refused(snapshot, numbered)
    if refusal is not None:
        return Verdicts(np.full(snapshot.n_rows, refusal.reason, np.uint8), refusal)
    codes: Codes | None = None
    disabled = profile_of(snapshot.facts.profiles, numbered.kind).disabled
    for predicate in predicates_of(snapshot.facts.kubernetes):
        part = None if predicate in without or predicate.name in disabled else predicate.part(snapshot, numbered)
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


def feasible_on(snapshot: ClusterSnapshot, kind: KindId, rows: Rows) -> Mask:
    """Which of these rows are feasible for the equivalence group, shape (len(rows),). For few rows this costs less than
    `feasible`."""
    numbered = snapshot.of(kind)
    if numbered.asks.resource_claims or numbered.asks.container_devices or refused(snapshot, numbered) is not None:
        return feasible(snapshot, kind).feasible[rows]
    disabled = profile_of(snapshot.facts.profiles, numbered.kind).disabled
    mask: Mask = np.ones(len(rows), np.bool_)
    for predicate in predicates_of(snapshot.facts.kubernetes):
        part = None if predicate.name in disabled else predicate.part(snapshot, numbered)
        if part is not None:
            mask &= _codes(snapshot, numbered, predicate, part)[rows] == 0
    return mask


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
    if not (kind.kind.node_affinity or kind.asks.claims or kind.asks.resource_claims):
        return None
    disabled = profile_of(snapshot.facts.profiles, kind.kind).disabled
    found = (each.refuse(snapshot, kind) for each in _REFUSING if each.name not in disabled)
    return next((refusal for refusal in found if refusal is not None), None)


def _codes(snapshot: ClusterSnapshot, kind: NumberedGroup, predicate: Predicate, part: Hashable) -> Codes:
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


def _renew_rows(snapshot: ClusterSnapshot, kind: NumberedGroup, predicate: Predicate, kept: _KeptCodes) -> None:
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


def _changed_rows(snapshot: ClusterSnapshot, predicate: Predicate, kept: _KeptCodes) -> Rows | None:
    """The rows to judge again because their node changed, or their pods if the predicate reads them. None means all rows."""
    if kept.facts < 0:
        return None
    most = max(8, snapshot.n_rows // 4)
    changed = snapshot.facts.journal.since(kept.facts, at_most=most)
    if predicate.reads == "facts" or changed is None:
        return changed
    moved = snapshot.journal.since(kept.pods, at_most=most)
    return moved if moved is None or not len(changed) else np.union1d(changed, moved)


def _judge(snapshot: ClusterSnapshot, kind: NumberedGroup, predicate: Predicate, kept: _KeptCodes, rows: Selection) -> None:
    kept.codes[: snapshot.n_rows][rows] = predicate.judge(snapshot, kind, rows)
    snapshot.rows_judged += snapshot.n_rows if isinstance(rows, slice) else len(rows)


def _live(snapshot: ClusterSnapshot, _kind: NumberedGroup, rows: Selection) -> Codes:
    return coded(~snapshot.facts.live[: snapshot.n_rows][rows], Reason.NODE_UNKNOWN)


#: The predicates in the order of kube-scheduler's default profile until 1.36; our own accounting is last. The first that
#: rejects a row gives its code.
PREDICATES: Final = (
    Predicate(name="Live", part=lambda _, kind: True, judge=_live, reads="facts"),
    LEFT_OUT,
    NODE_UNSCHEDULABLE,
    NODE_NAME,
    TAINT_TOLERATION,
    NODE_AFFINITY,
    NODE_PORTS,
    RESOURCES_FIT,
    VOLUME_RESTRICTIONS,
    NODE_VOLUME_LIMITS,
    VOLUME_BINDING,
    VOLUME_ZONE,
    TOPOLOGY_SPREAD,
    POD_AFFINITY,
    DEVICES,
    NODE_DECLARED_FEATURES,
    LEDGER,
)
#: The predicates in the order of kube-scheduler's default profile since 1.37.
_NAME_FIRST: Final = (*PREDICATES[:2], NODE_NAME, NODE_UNSCHEDULABLE, *PREDICATES[4:])
#: Those that may refuse the pod itself, in order.
_REFUSING: Final = (NODE_AFFINITY, VOLUME_RESTRICTIONS, VOLUME_BINDING, VOLUME_ZONE, DEVICES)


def predicates_of(version: KubernetesVersion) -> tuple[Predicate, ...]:
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


def words(snapshot: ClusterSnapshot, kind: KindId, row: Row, reason: Reason, refusal: Refusal | None) -> list[str]:
    """kube-scheduler's messages for a verdict that the caller already has. `refusal` is that of the pod itself, or None."""
    if refusal is not None:
        return [refusal.text]
    numbered = snapshot.of(kind)
    match reason:
        case Reason.OK:
            found: list[str] = []
        case Reason.RESOURCES_SHORT | Reason.RESOURCES_ABOVE_NODE:
            found = short_resources(snapshot, numbered, row)
        case Reason.VOLUME_NODE_CONFLICT | Reason.VOLUME_BIND_CONFLICT | Reason.STORAGE_SHORT | Reason.VOLUME_NOT_FOUND:
            found = binding_reasons(snapshot, numbered, row)
        case Reason.CSI_DRIVER_MISSING:
            found = [missing_driver_text(snapshot, numbered, row)]
        case Reason.NODE_FEATURES:
            found = [features_text(snapshot, numbered, row)]
        case Reason.DEVICES_NOT_MODELLED:
            found = dynamic_resources_reasons(snapshot, numbered, row, reason)
        case _:
            found = [reason.text]
    return found
