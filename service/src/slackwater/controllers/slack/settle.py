"""Places placeholders: each where it was, if it still fits there; the others are placed, one pass for each equivalence group.

Real pods are in the snapshot before, so a placeholder never takes room from a pod, but loses its place to one. New places are
sought on the fullest nodes first, so that whole nodes stay free and can be removed. Everything that finds a place stays in the
snapshot. Deliberately absent: new nodes for those that find none.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from slackwater.controllers.slack.state import Placeholder
from slackwater.fit.packing import NOWHERE, Hints, place_pods
from slackwater.model.columns import Rows
from slackwater.model.ids import NodeName
from slackwater.model.placeholders import a_placeholder
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.node_facts import CPU, MEMORY

_NO_NODE = NodeName("")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """Placed placeholders. `rows` has the place of each, NOWHERE if it has none. `pushed` are the numbers that lost their
    place.
    """

    placeholders: tuple[Placeholder, ...]
    rows: Rows
    pushed: tuple[int, ...] = ()

    @property
    def homeless(self) -> tuple[Placeholder, ...]:
        return tuple(each for each in self.placeholders if each.place is None)


def settled(snapshot: ClusterSnapshot, placeholders: Sequence[Placeholder]) -> Settled:
    """Places placeholders: each stays where it was if it still fits there.

    Raises `UnreadLabel` if the snapshot was built without the placeholders' equivalence groups."""
    n_pods = len(placeholders)
    if not n_pods or not snapshot.n_rows:
        lost = tuple(each.number for each in placeholders if each.place is not None)
        homeless = tuple(replace(each, place=None) for each in placeholders)
        return Settled(placeholders=homeless, rows=np.full(n_pods, NOWHERE, np.intp), pushed=lost)
    row_of = snapshot.facts.row_of
    before = np.fromiter((row_of.get(each.place or _NO_NODE, NOWHERE) for each in placeholders), np.intp, n_pods)
    kinds = snapshot.number([each.pod for each in placeholders])
    order = np.argsort(kinds, kind="stable")
    rows: Rows = np.full(n_pods, NOWHERE, np.intp)
    rows[order] = place_pods(snapshot, kinds[order], rows=_fullest_first(snapshot), hints=Hints(pods=before[order])).rows
    found = tuple(_at(snapshot, each, row) for each, row in zip(placeholders, rows.tolist(), strict=True))
    pushed = tuple(
        old.number for old, new in zip(placeholders, found, strict=True) if old.place is not None and old.place != new.place
    )
    return Settled(placeholders=found, rows=rows, pushed=pushed)


def _at(snapshot: ClusterSnapshot, placeholder: Placeholder, row: int) -> Placeholder:
    place = None if row == NOWHERE else snapshot.facts.nodes[row].name
    if place == placeholder.place:
        return placeholder
    pod = placeholder.pod
    return replace(placeholder, place=place, pod=a_placeholder(placeholder.number, pod.kind, pod.labels, node=place))


def _fullest_first(snapshot: ClusterSnapshot) -> Rows:
    """Rows by the share of CPU and memory that pods take, fullest first, in steps of 1/64; then by row."""
    rows = slice(0, snapshot.n_rows)
    has = np.maximum(snapshot.facts.allocatable[[CPU, MEMORY], rows], 1)
    share = (snapshot.used[[CPU, MEMORY], rows] / has).sum(axis=0)
    return np.argsort(-np.floor(share * 64), kind="stable").astype(np.intp)
