"""Pods to nodes: each on the node with the best score that fits when its turn comes.

Pods of one priority are taken kind by kind: then several of a kind go to equally good rows at the price of one look. What was
placed stands in the snapshot only while the choice is made: the caller keeps the room, and tells the snapshot so. Deliberately
absent: who waits (`backlog`), how many may be told at once (`pace`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from slackwater.controllers.nomination.ranking import Ranking
from slackwater.controllers.nomination.room import OwnScore
from slackwater.fit.filter.inter_pod_affinity import term_counter
from slackwater.model.events import Pick
from slackwater.model.objects import Pod
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.equivalence_groups import KindId

#: Kinds whose rankings are kept: 125 kB each at 5,000 nodes.
_MOST_KINDS = 128


@dataclass(frozen=True, slots=True)
class Choice:
    """`unfit` fit nowhere as things are, or nobody can tell yet where."""

    picks: tuple[Pick, ...]
    unfit: tuple[Pod, ...]


class Chooser:
    """Keeps rankings from one choice to the next, as long as the snapshot is the same."""

    def __init__(self, own: OwnScore) -> None:
        self._own = own
        self._snapshot: ClusterSnapshot | None = None
        self._rankings: dict[KindId, Ranking] = {}

    def forget(self) -> None:
        """Everything is scored again: images on nodes, which no journal tells of, may have changed, or our own score."""
        self._rankings.clear()

    def choose(
        self, snapshot: ClusterSnapshot, pods: Sequence[Pod], elsewhere: Sequence[Pod] = (), told: Sequence[Pod] = ()
    ) -> Choice:
        """Nodes for the pods, which come in order of priority. The snapshot is as before afterwards.

        `elsewhere` are pods that kube-scheduler puts nobody knows where at this moment. Of the kinds that they are of, pods are
        not nominated whose place depends on where the others of their kind stand. `told` are pods that were told and are
        not bound: of those that have to spread evenly one is told at a time, as kube-scheduler may take them in another order.
        """
        if snapshot is not self._snapshot:
            self._snapshot, self._rankings = snapshot, {}
        unsure, still = _kinds(snapshot, elsewhere), _kinds(snapshot, told)
        picks: list[Pick] = []
        unfit: list[Pod] = []
        with snapshot.fork():
            for kind, same in _by_kind(pods, snapshot.number(pods).tolist()):
                known = not (_is_strict(snapshot, kind) and (kind in unsure or _begins_a_series(snapshot, kind)))
                spreads = any(each.hard for each in snapshot.of(kind).asks.spread)
                most = int(kind not in still) if spreads else len(same)
                rows = self._rows(snapshot, kind, min(most, len(same))) if known else []
                picks += [Pick(pod.uid, snapshot.facts.nodes[row].name) for pod, row in zip(same, rows, strict=False)]
                unfit += same[len(rows) :]
        return Choice(tuple(picks), tuple(unfit))

    def _rows(self, snapshot: ClusterSnapshot, kind: KindId, count: int) -> list[int]:
        """Up to `count` rows, one for each pod, which now stand there."""
        ranking = self._ranking(snapshot, kind)
        at_once = 1 if ranking.social else count
        found: list[int] = []
        while len(found) < count:
            best = ranking.best(min(at_once, count - len(found))).tolist()
            if not best:
                break
            for row in best:
                snapshot.place(kind, row)
            found += best
        return found

    def _ranking(self, snapshot: ClusterSnapshot, kind: KindId) -> Ranking:
        known = self._rankings.pop(kind, None)
        if known is None and len(self._rankings) >= _MOST_KINDS:
            del self._rankings[next(iter(self._rankings))]
        self._rankings[kind] = known or Ranking(snapshot, kind, self._own)
        return self._rankings[kind]


def _kinds(snapshot: ClusterSnapshot, pods: Sequence[Pod]) -> set[int]:
    """The kinds of those that ask for more than room."""
    picky = [pod for pod in pods if pod.kind.pod_constraints is not None]
    return set(snapshot.number(picky).tolist()) if picky else set()


def _is_strict(snapshot: ClusterSnapshot, kind: KindId) -> bool:
    """Do others of the kind decide where one of its pods may go at all?"""
    asks = snapshot.of(kind).asks
    return bool(asks.affinity or asks.anti_affinity or asks.host_ports or asks.disks or any(each.hard for each in asks.spread))


def _begins_a_series(snapshot: ClusterSnapshot, kind: KindId) -> bool:
    """Is it the first that others of its kind have to stand beside? Were it wrong, all of them would be."""
    numbered = snapshot.of(kind)
    affinity = numbered.asks.affinity
    return bool(affinity) and not snapshot.counters.read(term_counter(snapshot, *affinity))[: snapshot.n_rows].any()


def _by_kind(pods: Sequence[Pod], kinds: Sequence[int]) -> Iterator[tuple[KindId, list[Pod]]]:
    """Pods of one priority and kind together, in the order of the first of each kind."""
    numbered = list(zip(pods, kinds, strict=True))
    for _, group in groupby(numbered, key=lambda one: one[0].priority):
        by_kind: dict[int, list[Pod]] = {}
        for pod, kind in group:
            by_kind.setdefault(kind, []).append(pod)
        for kind, same in by_kind.items():
            yield KindId(kind), same
