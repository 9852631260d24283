"""Node choices: the pods for which filter's answer named one node only, and where.

    filter is asked about many nodes -> one chosen, held -> the pod is bound there: met
                                     -> filter is asked again, or the hold ends: the next answers name all feasible nodes

A choice is made once for each pod. Whatever kept kube-scheduler from binding the pod there (a custom plug-in, another
extender) would do so again. Deliberately absent: which node (`controllers.nomination.sample`).
"""

from collections.abc import Callable, Collection

from slackwater.cluster.cluster_state import ClusterState
from slackwater.controllers.nomination.counts import SteeringCounts
from slackwater.model.ids import NodeName, PodUid


class Choices:
    """The nodes that filter named alone, by pod, until each pod is bound or comes back.

    `note` is called with each pod whose chosen node has changed."""

    def __init__(self, cluster_state: ClusterState, counts: SteeringCounts, note: Callable[[PodUid], None]) -> None:
        self._holds = cluster_state.holds
        self._counts = counts
        self._note = note
        #: None: kube-scheduler asked about the pod again, or has not bound it in time.
        self._chosen: dict[PodUid, NodeName | None] = {}
        self._tried: dict[PodUid, set[NodeName]] = {}

    def node_of(self, uid: PodUid) -> NodeName | None:
        """The node where kube-scheduler is about to bind the pod."""
        return self._chosen.get(uid)

    def may_choose(self, uid: PodUid) -> bool:
        """Was no node chosen for the pod before, and is no room held for it? A hold means that an answer has named nodes."""
        return uid not in self._chosen and not self._holds.all_of(uid)

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
