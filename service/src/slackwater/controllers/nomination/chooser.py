"""The chooser: places pending pods in a snapshot, each on the feasible node with the best score when its turn comes.

Pods of one priority are placed by equivalence group, so several of them go to equally good rows at the cost of one search. The
placements are undone in the snapshot at the end of a choice; the caller holds the room and updates the snapshot. Deliberately
absent: which pods wait (`backlog`), how many may be nominated at once (`window`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from slackwater.controllers.nomination.ranking import Ranking
from slackwater.controllers.nomination.room import Scoring
from slackwater.fit.filter.inter_pod_affinity import term_counter
from slackwater.model.events import Pick
from slackwater.model.objects import Pod
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.equivalence_groups import KindId

#: Equivalence groups whose rankings are kept: 125 kB each at 5,000 nodes.
_MOST_KINDS = 128


@dataclass(frozen=True, slots=True)
class Choice:
    """The result of one choice: a node for some pods, and the pods that fit nowhere now or whose best node is not known yet."""

    picks: tuple[Pick, ...]
    unfit: tuple[Pod, ...]


class Chooser:
    """Chooses nodes for pods, and keeps rankings from one choice to the next as long as the snapshot is the same one."""

    def __init__(self, scoring: Scoring) -> None:
        self._scoring = scoring
        self._snapshot: ClusterSnapshot | None = None
        self._rankings: dict[KindId, Ranking] = {}

    def forget(self) -> None:
        """Drops all rankings: our own score, or the images on nodes, which are in no journal, may have changed."""
        self._rankings.clear()

    def choose(
        self, snapshot: ClusterSnapshot, pods: Sequence[Pod], elsewhere: Sequence[Pod] = (), told: Sequence[Pod] = ()
    ) -> Choice:
        """Chooses nodes for the pods, which come in order of priority. Leaves the snapshot as it was.

        `elsewhere` are pods that kube-scheduler is placing now, on unknown nodes. Pods of the same equivalence groups whose
        place depends on where those go are not nominated. `told` are pods that were nominated and are not bound. Of a group
        with a hard topology spread only one pod at a time is nominated: kube-scheduler may take them in another order.
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
        """Up to `count` rows, one for each pod; the pods are placed there in the snapshot."""
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
        self._rankings[kind] = known or Ranking(snapshot, kind, self._scoring)
        return self._rankings[kind]


def _kinds(snapshot: ClusterSnapshot, pods: Sequence[Pod]) -> set[int]:
    """The equivalence groups of the pods that have pod constraints."""
    picky = [pod for pod in pods if pod.kind.pod_constraints is not None]
    return set(snapshot.number(picky).tolist()) if picky else set()


def _is_strict(snapshot: ClusterSnapshot, kind: KindId) -> bool:
    """Does the place of other pods of the group decide which rows are feasible for one of its pods?"""
    asks = snapshot.of(kind).asks
    return bool(asks.affinity or asks.anti_affinity or asks.host_ports or asks.disks or any(each.hard for each in asks.spread))


def _begins_a_series(snapshot: ClusterSnapshot, kind: KindId) -> bool:
    """Is the pod the first of those that must join each other by pod affinity? A wrong node would bind all of them."""
    numbered = snapshot.of(kind)
    affinity = numbered.asks.affinity
    return bool(affinity) and not snapshot.counters.read(term_counter(snapshot, *affinity))[: snapshot.n_rows].any()


def _by_kind(pods: Sequence[Pod], kinds: Sequence[int]) -> Iterator[tuple[KindId, list[Pod]]]:
    """Pods grouped by priority and equivalence group, in the order of the first pod of each group."""
    numbered = list(zip(pods, kinds, strict=True))
    for _, group in groupby(numbered, key=lambda one: one[0].priority):
        by_kind: dict[int, list[Pod]] = {}
        for pod, kind in group:
            by_kind.setdefault(kind, []).append(pod)
        for kind, same in by_kind.items():
            yield KindId(kind), same
