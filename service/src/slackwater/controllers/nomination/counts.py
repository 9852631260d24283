"""Outcomes of nominations and node choices: counts that only grow, and histograms of how long pods waited.

- `Miss`: the closed list of reasons why a pod was not bound by our nomination.
- `NominationCounts`, `Seconds`: the counts and the histograms, which the metrics endpoint reads.
- `ChosenNodes`: the nodes that filter named alone, until their pods are bound or come back.

In: nominations and choices as they begin and end. Out: plain numbers. Invariant: a miss costs time, never correctness.
"""

from bisect import bisect_left
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from slackwater.cluster.cluster_state import ClusterState
from slackwater.model.ids import NodeName, PodUid


class Miss(StrEnum):
    """Why a pod was not bound by its nomination. `MISSES` explains each reason."""

    LATE = "late"
    REFUSED_IN_TREE = "refused-in-tree"
    REFUSED = "refused"
    ELSEWHERE = "elsewhere"
    EXPIRED = "expired"
    REPLACED = "replaced"
    GONE = "gone"
    UNWRITTEN = "unwritten"


#: The meaning of each reason, as documents and pages show it.
MISSES: Final[dict[Miss, str]] = {
    Miss.LATE: "kube-scheduler was searching already when it could have seen the nomination",
    Miss.REFUSED_IN_TREE: "kube-scheduler's own filters refused the node, and it searched on",
    Miss.REFUSED: "our own filter refused the node when kube-scheduler asked: room was taken meanwhile",
    Miss.ELSEWHERE: "the pod was bound to another node",
    Miss.EXPIRED: "kube-scheduler did not bind the pod in time; the room was given up, the nomination stays a hint",
    Miss.REPLACED: "somebody else nominated the pod for another node, or took the nomination away",
    Miss.GONE: "the pod was deleted, or ended",
    Miss.UNWRITTEN: "the API server did not take the nomination: the pod had changed, or no answer came in time",
}


#: Upper bounds of the buckets, in seconds.
BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


@dataclass(slots=True)
class Seconds:
    """A histogram. `counts[i]`: the number of values above `BUCKETS[i - 1]` and at most `BUCKETS[i]`; the last entry counts the
    values above all bounds. `sum`: the sum of all values, in seconds."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS) + 1))
    sum: float = 0.0

    def observe(self, seconds: float) -> None:
        self.counts[bisect_left(BUCKETS, seconds)] += 1
        self.sum += seconds


@dataclass(slots=True)
class NominationCounts:
    """Counts of nominations in advance, and of nodes that filter chose.

    `made`, `met`: pods that were nominated, and of these the pods that were bound to the nominated node. `dropped`: a node was
    chosen, but the pod could not be nominated any more. `chosen`: filter answered with one node only. `chosen_met`: of these,
    the pods that were bound there. Times begin when the watch first shows the pod; `until_bound` counts every pod of our
    scheduler, nominated or not."""

    made: int = 0
    met: int = 0
    dropped: int = 0
    chosen: int = 0
    chosen_met: int = 0
    missed: dict[Miss, int] = field(default_factory=lambda: dict.fromkeys(Miss, 0))
    until_nominated: Seconds = field(default_factory=Seconds)
    until_bound: Seconds = field(default_factory=Seconds)


class ChosenNodes:
    """The nodes that filter named alone in an answer, by pod, until the pod is bound or gone.

        filter is asked about many nodes -> one chosen, held -> the pod is bound there: met
                                         -> filter is asked again, or the hold ends: the next answers name all feasible nodes

    A node is chosen at most once for each pod: what kept kube-scheduler from binding the pod there (a custom plug-in, another
    extender) would do so again. `note` is called with each pod whose chosen node has changed. Deliberately absent: which node
    is chosen (`fit.best_node`).
    """

    def __init__(self, cluster_state: ClusterState, counts: NominationCounts, note: Callable[[PodUid], None]) -> None:
        self._holds = cluster_state.holds
        self._counts = counts
        self._note = note
        #: By pod. None: the choice has ended, since kube-scheduler asked about the pod again or the hold ended before a bind.
        self._chosen: dict[PodUid, NodeName | None] = {}
        self._tried: dict[PodUid, set[NodeName]] = {}

    def node_of(self, uid: PodUid) -> NodeName | None:
        """The node that filter named alone, where kube-scheduler is about to bind the pod; None if there is none."""
        return self._chosen.get(uid)

    def may_choose(self, uid: PodUid) -> bool:
        """May filter name one node alone for the pod? Not if it did before, nor while the pod has a hold: then an earlier
        answer has named nodes."""
        return uid not in self._chosen and not self._holds.has(uid)

    def tried(self, uid: PodUid) -> Collection[NodeName]:
        """The nodes chosen for the pod so far; kube-scheduler has bound it to none of them."""
        return self._tried.get(uid, ())

    def made(self, uid: PodUid, node: NodeName) -> None:
        """Notes a choice; room for the pod is held on that node."""
        self._chosen[uid] = node
        self._tried.setdefault(uid, set()).add(node)
        self._counts.chosen += 1
        self._note(uid)

    def given_up(self, uid: PodUid) -> None:
        """Ends a choice, because kube-scheduler asks about the pod again or its hold has ended."""
        if self._chosen.get(uid) is not None:
            self._chosen[uid] = None
            self._note(uid)

    def ended(self, uid: PodUid, node: NodeName | None) -> None:
        """Notes that the pod is bound to a node, or gone (None)."""
        self._tried.pop(uid, None)
        chosen = self._chosen.pop(uid, None)
        self._counts.chosen_met += chosen is not None and chosen == node
