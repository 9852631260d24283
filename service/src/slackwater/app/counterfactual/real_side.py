"""The real side: what happens in the real cluster, added up. Decisions are read off what shows: nodes that come and go, and the
taints by which autoscalers say that they remove a node. Slackwater's taint is Cluster Autoscaler's."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from slackwater.app.counterfactual.demand import made_at
from slackwater.app.counterfactual.node_owners import GroupOf, buyer_of, has_our_taint, remover_of
from slackwater.app.counterfactual.paces_seen import PacesSeen
from slackwater.app.counterfactual.side_log import SideLog
from slackwater.model.changes import NodeChange, PodChange
from slackwater.model.ids import NodeName, PodUid, UnixTime
from slackwater.model.nodegroups import GroupName
from slackwater.model.objects import Node, Pod, is_daemon

_NO_GROUP = GroupName("")


@dataclass(slots=True)
class RealSide:
    """`served`: by Slackwater, not by another autoscaler. `removing`: the decision to remove each node that somebody is about
    to remove. `paces`: how long others take."""

    log: SideLog
    served: bool = False
    paces: PacesSeen = field(default_factory=PacesSeen)
    removing: dict[NodeName, int] = field(default_factory=dict)
    #: When each pod without a node was made, and its priority.
    _waiting: dict[PodUid, tuple[UnixTime, int]] = field(default_factory=dict)
    #: The node of each pod that has one and is not being deleted.
    _bound: dict[PodUid, NodeName] = field(default_factory=dict)
    #: New nodes that have not been ready yet, with their groups.
    _starting: dict[NodeName, GroupName] = field(default_factory=dict)

    @property
    def pending(self) -> int:
        return len(self._waiting)

    def begin(self, nodes: Iterable[Node], pods: Iterable[Pod], group_of: GroupOf, at: UnixTime) -> None:
        self.log.came(at, ((group_of(node) or _NO_GROUP, node) for node in nodes), None)
        for pod in pods:
            if is_daemon(pod):
                continue
            if pod.node is None:
                self._wait(pod)
            else:
                self._bound[pod.uid] = pod.node

    def take(self, nodes: Sequence[NodeChange], pods: Sequence[PodChange], group_of: GroupOf, at: UnixTime) -> None:
        """Notes what happened since the last observation, at the time `at`."""
        self._take_pods_that_left(pods, at)
        self._take_nodes(nodes, group_of, at)
        self._take_pods(pods, at)
        self.paces.boot_times.pass_time(at)

    # --- pods ---------------------------------------------------------------------------------------------------------------

    def _take_pods_that_left(self, changes: Sequence[PodChange], at: UnixTime) -> None:
        """Counts those as evicted whose nodes somebody is about to remove."""
        for uid, pod, _ in changes:
            if pod is None:
                self._waiting.pop(uid, None)
            if (pod is None or pod.deleting) and (node := self._bound.pop(uid, None)) is not None:
                self.log.evictions += node in self.removing
                self.paces.leaves(uid, node)
            if pod is None:
                self.paces.gone(uid, at)

    def _take_pods(self, changes: Sequence[PodChange], at: UnixTime) -> None:
        for uid, pod, _ in changes:
            if pod is None or pod.deleting or is_daemon(pod):
                continue
            if uid not in self._bound:
                self._wait(pod)
                if pod.node is not None:
                    self._bind(pod, pod.node, at)
            self.paces.see(pod, at)

    def _bind(self, pod: Pod, node: NodeName, at: UnixTime) -> None:
        made, priority = self._waiting.pop(pod.uid)
        self.log.bound(priority, max(at - made, 0.0))
        self._bound[pod.uid] = node
        self.paces.bound(pod.uid, at)
        self.paces.boot_times.bound(node, made)

    def _wait(self, pod: Pod) -> None:
        self._waiting.setdefault(pod.uid, (made_at(pod), pod.priority))

    # --- nodes --------------------------------------------------------------------------------------------------------------

    def _take_nodes(self, changes: Sequence[NodeChange], group_of: GroupOf, at: UnixTime) -> None:
        new: dict[tuple[GroupName, str], list[Node]] = {}
        for name, node, _ in changes:
            if node is None:
                self._starting.pop(name, None)
                self.log.went(at, name, self.removing.pop(name, None))
                self.paces.went(name, at)
                continue
            if name not in self.log.nodes:
                new.setdefault((group_of(node) or _NO_GROUP, buyer_of(node)), []).append(node)
                self._starting[name] = group_of(node) or _NO_GROUP
            else:
                self._follow(node, group_of(node) or _NO_GROUP, at)
            if node.ready and name in self._starting:
                self.paces.boot_times.ready(name, self._starting.pop(name), at, buyer_of(node))
        for (group, buyer), nodes in new.items():
            by = buyer or ("Slackwater" if self.served else "")
            decision = self.log.decided(at, "add", group, len(nodes), by=by) if group or buyer else None
            self.log.came(at, ((group, node) for node in nodes), decision)

    def _follow(self, node: Node, group: GroupName, at: UnixTime) -> None:
        remover = remover_of(node)
        if remover is None:
            self.removing.pop(node.name, None)
            self.paces.stays(node.name)
        elif node.name not in self.removing:
            by = "Slackwater" if self.served and has_our_taint(node) else remover
            self.removing[node.name] = self.log.decided(at, "remove", group, 1, by=by)
            self.paces.removing(node.name, at)
