"""Our side: the real demand on nodes that Slackwater would have. The engine of `app/rounds` plays the service's loops on them.

- Demand is the real one (`demand`): pods arrive and end as they really do, wherever they run here.
- Nodes that nobody owns come, change and go as they really do; so do the conditions of nodes that both sides have. A node that
  goes although nobody said that it would be removed has failed, on both sides.
- A pod of a Job runs for as long as it really did.

Invariant: nothing that another autoscaler does to nodes reaches this side.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from msgspec import structs

from slackwater.app.counterfactual.daemon_sets import DaemonSets
from slackwater.app.counterfactual.demand import Arrived, DemandEvent, Ended, is_job, made_at
from slackwater.app.counterfactual.lines import Action
from slackwater.app.counterfactual.node_owners import PLANNED, GroupOf, is_owned, remover_of
from slackwater.app.counterfactual.pods_here import PodsHere, apply, daemons
from slackwater.app.counterfactual.replica_sets import ReplicaSets
from slackwater.app.counterfactual.side_log import SideLog
from slackwater.app.offline.cluster import Cluster
from slackwater.app.rounds.engine import Rounds
from slackwater.app.rounds.happened import Bound, Came, Happened, Ordered, RemovalBegan, RemovalEnded
from slackwater.app.rounds.virtual_cluster import VirtualCluster, first_uid
from slackwater.app.rounds.virtual_drains import Pace
from slackwater.app.settings import Settings
from slackwater.model.changes import Changes, NodeChange, PodChange
from slackwater.model.ids import NodeName, PodUid, UnixTime
from slackwater.model.nodegroups import GroupName
from slackwater.model.objects import DisruptionBudget, Node, Pod
from slackwater_protocol.names import NODE_GROUP

_NO_GROUP = GroupName("")


class OurSide:
    """`log`: what happens, added up. Everything is called in the order of time."""

    def __init__(self, began: Cluster, settings: Settings, log: SideLog, group_of: GroupOf, *, at: UnixTime) -> None:
        """`began`: the real cluster at the time `at`."""
        nodes = tuple(_adopted(node, group_of) for node in began.nodes)
        self.log = log
        self._rounds = Rounds(replace(began, nodes=nodes), settings, at, observer=self._happened)
        #: The real nodes that are here too, and are not about to be removed there.
        self._followed = {node.name for node in nodes if remover_of(node) is None}
        self._happening: list[Happened] = []
        #: The decision that ordered each node that has not come, and that to remove each node that has not gone.
        self._ordered: dict[NodeName, int] = {}
        self._removing: dict[NodeName, int] = {}
        self._group_of_ordered: dict[NodeName, GroupName] = {}
        #: When each pod of a Job got a node here, and how long those ran that have ended in the real cluster.
        self._job_since: dict[PodUid, UnixTime] = {}
        self._job_ran: dict[PodUid, float] = {}
        self._evictions_counted = 0
        #: When the pods came that have no node yet.
        self._arrived: dict[PodUid, UnixTime] = {}
        self._daemon_sets = DaemonSets(began.daemons, began.kubernetes.version)
        self._replica_sets = ReplicaSets()
        for pod in began.pods:
            if not (pod.deleting or pod.ended):
                self._replica_sets.add(pod.uid, pod)
        log.came(at, ((group_of(node) or _NO_GROUP, node) for node in nodes), None)

    @property
    def pending(self) -> int:
        return sum(not pod.deleting for pod in self._cluster.replica.pending.values())

    @property
    def _cluster(self) -> VirtualCluster:
        return self._rounds.cluster

    @property
    def pods(self) -> Iterator[Pod]:
        """The pods that have a node here."""
        return (running_pod.pod for running_pod in self._cluster.replica.bound_pods())

    @property
    def pod_version(self) -> int:
        """Another number after each change of the pods here."""
        return self._cluster.pod_version

    # --- time -------------------------------------------------------------------------------------------------------------

    def advance(self, to: UnixTime, pace: Pace) -> None:
        """Plays the service's loops up to a time. `pace`: how long others take."""
        self._rounds.expect(pace)
        self._rounds.advance(to)
        self._write()

    # --- what comes from the real cluster ---------------------------------------------------------------------------------

    def arrive(self, events: Iterable[Arrived]) -> None:
        """New pods, at the time up to which this side was played."""
        pods = PodsHere()
        for event in events:
            self._arrived[event.place] = self._rounds.timeline.now
            apply(self._replica_sets.here(event), self._cluster, pods)
        self._cluster.add_pods(pod for pod in pods.values() if pod is not None)
        self._rounds.changed()
        self._write()

    def take(
        self,
        changes: Changes,
        events: Iterable[DemandEvent],
        read: Cluster,
        group_of: GroupOf,
        budgets: Sequence[DisruptionBudget],
    ) -> None:
        """Applies what happened in the real cluster. `read`: what it has beside nodes and pods. `budgets`: with what they would
        allow here."""
        at, pods, ended = self._rounds.timeline.now, PodsHere(), list[Ended]()
        for event in events:
            if not isinstance(event, Ended):
                apply(self._replica_sets.here(event), self._cluster, pods)
            elif not self._runs_on(event):
                ended.append(event)
        for event in self._replica_sets.ended(ended, self._cluster, pods, at):
            self._arrived.pop(event.place, None)
            apply(event, self._cluster, pods)
        nodes, lost = self._nodes(changes.nodes, group_of)
        for name in lost:
            self._rounds.drains.lose(name)
            self._cluster.lose_node(name, at)
            self._followed.discard(name)
            self.log.went(at, name, None)
        pods |= daemons(changes.pods, self._cluster, self._followed)
        self._cluster.follow(
            replace(
                changes,
                nodes=[NodeChange(node.name, node) for node in nodes],
                pods=[PodChange(uid, pod) for uid, pod in pods.items()],
            ),
            read,
        )
        self.log.came(at, ((GroupName(node.labels.get(NODE_GROUP, "")), node) for node in nodes), None)
        self._cluster.allow(budgets, self._rounds.drains.starting.values())
        own = (node for name, node in self._cluster.replica.nodes.items() if name not in self._followed)
        if self._daemon_sets.change(read.daemons, self._cluster, own, at) or pods or nodes or lost:
            self._rounds.changed()
        self._write()

    def _runs_on(self, event: Ended) -> bool:
        """True if a pod of a Job has not run for as long here as it really did. It then ends later."""
        here, place = self._cluster.find(event.place), event.place
        since = self._job_since.pop(place, None)
        if event.ran is None or here is None:
            return False
        if here.node is None:
            self._job_ran[place] = event.ran  # it has not begun here
            return True
        left = 0.0 if since is None else since + event.ran - self._rounds.timeline.now
        if left > 0:
            self._rounds.timeline.after(left, lambda: self._ended(place))
        return left > 0

    def _ended(self, place: PodUid) -> None:
        self._job_since.pop(place, None)  # it may have begun again here since, after an eviction
        here = self._cluster.find(place)
        if here is not None:
            self._cluster.drop(here)
            self._rounds.changed()

    def _nodes(self, changes: Sequence[NodeChange], group_of: GroupOf) -> tuple[list[Node], list[NodeName]]:
        """The nodes that come or change here too, and those that are lost."""
        nodes, lost = list[Node](), list[NodeName]()
        for name, node, _ in changes:
            here = self._cluster.replica.nodes.get(name)
            if node is None:
                if name in self._followed and here is not None:
                    lost.append(name)
            elif remover_of(node) is not None:
                self._followed.discard(name)  # what it is like from now on is the other side's doing
            elif here is not None:
                self._followed.add(name)  # again, if its removal was given up there
                if name not in self._rounds.drains.active:
                    nodes.append(_followed(here, _adopted(node, group_of)))
            elif not is_owned(node, group_of):
                self._followed.add(name)
                nodes.append(_adopted(node, group_of))
        return nodes, lost

    # --- what happens here ------------------------------------------------------------------------------------------------

    def _happened(self, event: Happened) -> None:
        self._happening.append(event)

    def _write(self) -> None:
        """Writes what happened here since the last call."""
        happening, self._happening = self._happening, []
        self._write_removals([event for event in happening if isinstance(event, RemovalBegan)])
        for event in happening:
            match event:
                case Bound():
                    self._bound(event.at, event.pod)
                case Ordered():
                    self._write_order(event)
                case Came():
                    self._write_nodes(event)
                case RemovalEnded():
                    decision = self._removing.pop(event.node)
                    if not event.problem:
                        self._followed.discard(event.node)
                        self.log.went(event.at, event.node, decision)
                case RemovalBegan():
                    pass  # written before
        evictions = self._rounds.drains.evictions
        self.log.evictions += evictions - self._evictions_counted
        self._evictions_counted = evictions

    def _write_nodes(self, event: Came) -> None:
        here = self._cluster.replica.nodes
        for name in event.nodes:
            decision, group = self._ordered.pop(name), self._group_of_ordered.pop(name)
            if name in here:
                self.log.came(event.at, [(group, here[name])], decision)

    def _bound(self, at: UnixTime, pod: Pod) -> None:
        place = first_uid(pod)
        self.log.bound(pod.priority, max(at - self._arrived.pop(place, made_at(pod)), 0.0))
        if not is_job(pod):
            return
        if (ran := self._job_ran.pop(place, None)) is None:
            self._job_since[place] = at
        else:
            self._rounds.timeline.after(max(at + ran - self._rounds.timeline.now, 0.0), lambda: self._ended(place))

    def _write_order(self, event: Ordered) -> None:
        action: Action = "replace" if event.replacing else "add"
        why = "cheaper than what they replace" if event.replacing else "pods fit on no node"
        example = str(event.pods[0].key) if event.pods else ""
        number = self.log.decided(
            event.at, action, event.group, len(event.nodes), why=why, pods=len(event.pods), example=example
        )
        self._ordered |= dict.fromkeys(event.nodes, number)
        self._group_of_ordered |= dict.fromkeys(event.nodes, event.group)

    def _write_removals(self, began: Sequence[RemovalBegan]) -> None:
        """One decision for the removals that began together in a group."""
        together: dict[tuple[UnixTime, GroupName, bool], list[RemovalBegan]] = {}
        for each in began:
            together.setdefault((each.at, each.removable.group, each.replaced), []).append(each)
        for (at, group, replaced), some in together.items():
            moves = [pod for each in some for pod, _ in each.removable.moves]
            why = "others replace them" if replaced else "their pods fit on other nodes" if moves else "no pods need them"
            action: Action = "replace" if replaced else "remove"
            example = str(moves[0].key) if moves else ""
            number = self.log.decided(at, action, group, len(some), why=why, pods=len(moves), example=example)
            self._removing |= {each.removable.node: number for each in some}


def _adopted(node: Node, group_of: GroupOf) -> Node:
    """The node as it is here: without what another autoscaler plans for it, and with its group's label, since its provider's
    list of machines may lose it."""
    group = group_of(node)
    labels = node.labels if group is None else {**node.labels, NODE_GROUP: group}
    planned = any(taint.key in PLANNED for taint in node.taints)
    taints = tuple(taint for taint in node.taints if taint.key not in PLANNED)
    return structs.replace(node, labels=labels, taints=taints, unschedulable=node.unschedulable and not planned)


def _followed(here: Node, real: Node) -> Node:
    """The real node with the marks that it has here."""
    return structs.replace(real, taints=(*real.taints, *(taint for taint in here.taints if taint.key in PLANNED)))
