"""Nodes that were chosen when filter was asked: of all that pass, kube-scheduler was told one.

    asked about many -> chosen, held -> bound there: met
                                     -> asked about once more, or its hold ends: the next answers name all nodes that pass

A choice is made once for each pod. Whatever has kube-scheduler not bind it there (a plug-in of somebody's own, another
extender) would do the same again. Deliberately absent: which node (`controllers.nomination.sample`).
"""

from collections.abc import Callable, Collection

from slackwater.cluster.cluster_state import ClusterState
from slackwater.controllers.nomination.counts import SteeringCounts
from slackwater.model.ids import NodeName, PodUid


class Choices:
    """The nodes that filter named alone, by pod, until each pod is bound or comes back.

    `note` learns of each pod whose node has changed."""

    def __init__(self, cluster_state: ClusterState, counts: SteeringCounts, note: Callable[[PodUid], None]) -> None:
        self._holds = cluster_state.holds
        self._counts = counts
        self._note = note
        #: None: kube-scheduler came back with the pod, or has not bound it in time.
        self._chosen: dict[PodUid, NodeName | None] = {}
        self._tried: dict[PodUid, set[NodeName]] = {}

    def node_of(self, uid: PodUid) -> NodeName | None:
        """Where kube-scheduler is about to bind the pod."""
        return self._chosen.get(uid)

    def may_choose(self, uid: PodUid) -> bool:
        """Was nothing chosen for the pod yet, and is no room held for it? Otherwise kube-scheduler was given nodes before."""
        return uid not in self._chosen and not self._holds.all_of(uid)

    def tried(self, uid: PodUid) -> Collection[NodeName]:
        """The nodes that were chosen for the pod so far; kube-scheduler has bound it to none of them."""
        return self._tried.get(uid, ())

    def made(self, uid: PodUid, node: NodeName) -> None:
        """The pod is held there."""
        self._chosen[uid] = node
        self._tried.setdefault(uid, set()).add(node)
        self._counts.chosen += 1
        self._note(uid)

    def given_up(self, uid: PodUid) -> None:
        """kube-scheduler asks about the pod again, or its hold has ended."""
        if self._chosen.get(uid) is not None:
            self._chosen[uid] = None
            self._note(uid)

    def ended(self, uid: PodUid, node: NodeName | None) -> None:
        """The pod is bound to a node; None: it is gone."""
        self._tried.pop(uid, None)
        chosen = self._chosen.pop(uid, None)
        self._counts.chosen_met += chosen is not None and chosen == node
