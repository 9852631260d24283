"""The nodes that filter named for each pod that is not bound yet, the last one last.

kube-scheduler may fail to bind a pod to the node that filter named (a plug-in of others refuses it, or a volume does not come),
and asks again. Nodes that were not named yet then come first, since the same cause would strike again.

In: each named node, and where the pod was bound. Out: the nodes tried so far, and how often kube-scheduler followed.
Deliberately absent: which node is named (`fit.best_node`), and the room that is held there (`cluster.holds`).
"""

from collections.abc import Sequence

from slackwater.model.ids import NodeName, PodUid


class ChosenNodes:
    """The nodes named for each pod. `made`: how often filter named one node; `met`: how many pods were then bound there."""

    def __init__(self) -> None:
        self._named: dict[PodUid, list[NodeName]] = {}
        self.made = self.met = 0

    def tried(self, uid: PodUid) -> Sequence[NodeName]:
        """The nodes named for the pod so far; kube-scheduler has bound it to none of them."""
        return self._named.get(uid, ())

    def choose(self, uid: PodUid, node: NodeName) -> None:
        """Notes that filter named the node."""
        named = self._named.setdefault(uid, [])
        if node in named:
            named.remove(node)
        named.append(node)
        self.made += 1

    def ended(self, uid: PodUid, node: NodeName | None) -> None:
        """Notes that the pod is bound to a node, or gone (None)."""
        named = self._named.pop(uid, None)
        self.met += named is not None and named[-1] == node
