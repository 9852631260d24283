"""Pods to nodes: each on the node with the best score that fits when its turn comes.

Pods of one priority are taken kind by kind: then several of a kind go to equally good rows at the price of one look. What was
placed stands in the picture only while the choice is made: the caller keeps the room, and tells the picture so. Deliberately
absent: who waits (`backlog`), how many may be told at once (`pace`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from slackwater.decide.steering.ranking import OwnScore, Ranking
from slackwater.model.events import Pick
from slackwater.model.objects import Pod
from slackwater.simulate.kindtable import KindId
from slackwater.simulate.picture import Picture

#: Kinds whose rankings are kept: 125 kB each at 5,000 nodes.
_MOST_KINDS = 128


@dataclass(frozen=True, slots=True)
class Choice:
    """`unfit` fit nowhere as things are."""

    picks: tuple[Pick, ...]
    unfit: tuple[Pod, ...]


class Chooser:
    """Keeps rankings from one choice to the next, as long as the picture is the same."""

    def __init__(self, own: OwnScore) -> None:
        self._own = own
        self._picture: Picture | None = None
        self._rankings: dict[KindId, Ranking] = {}

    def forget(self) -> None:
        """Everything is scored anew: images on nodes, which no journal tells of, may have changed, or our own score."""
        self._rankings.clear()

    def choose(self, picture: Picture, pods: Sequence[Pod]) -> Choice:
        """Nodes for the pods, which come in order of priority. The picture is as before afterwards."""
        if picture is not self._picture:
            self._picture, self._rankings = picture, {}
        picks: list[Pick] = []
        unfit: list[Pod] = []
        with picture.fork():
            for kind, same in _by_kind(pods, picture.number(pods).tolist()):
                rows = self._rows(picture, kind, len(same))
                picks += [Pick(pod.uid, picture.facts.nodes[row].name) for pod, row in zip(same, rows, strict=False)]
                unfit += same[len(rows) :]
        return Choice(tuple(picks), tuple(unfit))

    def _rows(self, picture: Picture, kind: KindId, count: int) -> list[int]:
        """Up to `count` rows, one for each pod, which now stand there."""
        ranking = self._ranking(picture, kind)
        at_once = 1 if ranking.social else count
        found: list[int] = []
        while len(found) < count:
            best = ranking.best(min(at_once, count - len(found))).tolist()
            if not best:
                break
            for row in best:
                picture.place(kind, row)
            found += best
        return found

    def _ranking(self, picture: Picture, kind: KindId) -> Ranking:
        known = self._rankings.pop(kind, None)
        if known is None and len(self._rankings) >= _MOST_KINDS:
            del self._rankings[next(iter(self._rankings))]
        self._rankings[kind] = known or Ranking(picture, kind, self._own)
        return self._rankings[kind]


def _by_kind(pods: Sequence[Pod], kinds: Sequence[int]) -> Iterator[tuple[KindId, list[Pod]]]:
    """Pods of one priority and kind together, in the order of the first of each kind."""
    numbered = list(zip(pods, kinds, strict=True))
    for _, group in groupby(numbered, key=lambda one: one[0].priority):
        by_kind: dict[int, list[Pod]] = {}
        for pod, kind in group:
            by_kind.setdefault(kind, []).append(pod)
        for kind, same in by_kind.items():
            yield KindId(kind), same
