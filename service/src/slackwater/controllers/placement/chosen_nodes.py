"""The nodes that filter named alone in an answer, by pod, until the pod is bound or gone.

    filter is asked about many nodes -> one chosen, held -> the pod is bound there
                                     -> filter is asked again, or the hold ends: the next answers name all feasible nodes

A node is chosen at most once for each pod: what kept kube-scheduler from binding the pod there (a custom plug-in, another
extender) would do so again. Deliberately absent: which node is chosen (`fit.best_node`).
"""

from collections.abc import Collection

from slackwater.cluster.holds import Holds
from slackwater.cluster.journal import ChangeJournal
from slackwater.model.ids import NodeName, PodUid


class ChosenNodes:
    """The chosen node of each pod, and how often the pod was bound there."""

    def __init__(self, holds: Holds) -> None:
        self._holds = holds
        #: By pod. None: the choice has ended, since kube-scheduler asked about the pod again or the hold ended before a bind.
        self._chosen: dict[PodUid, NodeName | None] = {}
        self._tried: dict[PodUid, set[NodeName]] = {}
        #: How often filter named one node only, and how many of these pods were bound there.
        self.made = self.met = 0
        #: The UIDs of pods whose chosen node has changed.
        self.journal = ChangeJournal[PodUid]()

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

    def choose(self, uid: PodUid, node: NodeName) -> None:
        """Notes a choice; room for the pod is held on that node."""
        self._chosen[uid] = node
        self._tried.setdefault(uid, set()).add(node)
        self.made += 1
        self.journal.note(uid)

    def give_up(self, uid: PodUid) -> None:
        """Ends a choice, because kube-scheduler asks about the pod again or its hold has ended."""
        if self._chosen.get(uid) is not None:
            self._chosen[uid] = None
            self.journal.note(uid)

    def ended(self, uid: PodUid, node: NodeName | None) -> None:
        """Notes that the pod is bound to a node, or gone (None)."""
        self._tried.pop(uid, None)
        chosen = self._chosen.pop(uid, None)
        self.met += chosen is not None and chosen == node
