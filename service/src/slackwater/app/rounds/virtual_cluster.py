"""The cluster of a simulation: nodes, pods and budgets that change on virtual time, on one snapshot that plans share.

In: a `Cluster`, and perhaps changes from outside (`follow`). Out: the cluster as plans read it now (`cluster`), with its
snapshot (`replica`). Models of controllers are here: a controller makes an evicted pod again (`successor`), and DaemonSets make
a pod on each new node.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime

from msgspec import structs

from slackwater.app.offline.cluster import Cluster
from slackwater.controllers.scaleup.groups import Template
from slackwater.fit.assumed_claims import assume_claims, has_claims, release_devices
from slackwater.fit.remaining_pdb_tracker import Disruptions, counted
from slackwater.model.changes import Changes, NodeChange, PodChange
from slackwater.model.ids import Generation, NodeName, PodKey, PodUid, UnixTime
from slackwater.model.nodegroups import GroupName
from slackwater.model.objects import DisruptionBudget, Node, Pod, is_daemon
from slackwater.snapshot.node_facts import HOSTNAME
from slackwater.snapshot.snapshot_replica import SnapshotReplica
from slackwater_protocol.names import NODE_GROUP


class VirtualCluster:
    """The cluster at one moment of virtual time. Pods that are being deleted at the start are taken for gone.

    `replica.snapshot` may be forked by plans between two changes. `disruptions`: what budgets allow now."""

    def __init__(self, cluster: Cluster) -> None:
        self._read = cluster
        self._ended = tuple(pod for pod in cluster.pods if pod.ended)
        self._made = 0
        #: Counts the changes of pods.
        self.pod_version = 0
        #: The UID that a pod has now, by the UID that it had before its evictions; pods that were never put are missing.
        self._now_of: dict[PodUid, PodUid] = {}
        self.replica = SnapshotReplica()
        self.replica.take(
            Changes(
                generation=Generation(0),
                nodes=[NodeChange(node.name, node) for node in cluster.nodes],
                pods=[_change(_with_uid(pod)) for pod in cluster.pods if not (pod.ended or pod.deleting)],
                awaiting_victims=cluster.awaiting_victims,
                budgets=cluster.budgets,
                namespaces=cluster.namespaces,
                storage=cluster.storage,
                daemons=cluster.daemons,
                kubernetes=cluster.kubernetes.version,
                profiles=cluster.profiles,
                spread_sources=cluster.spread_sources,
                devices=cluster.devices,
            )
        )
        self.replica.learn([*cluster.daemons, *(each.pod for each in cluster.headroom.examples())])
        self._budgets = counted(cluster.budgets or (), cluster.pods, cluster.scales).budgets
        self.disruptions = Disruptions(self._budgets)

    # --- what is there ----------------------------------------------------------------------------------------------------

    def cluster(self) -> Cluster:
        """The cluster as it is now."""
        found = self.for_plans()
        return replace(found, pods=(*(running_pod.pod for running_pod in self.replica.bound_pods()), *found.pods))

    def for_plans(self) -> Cluster:
        """The cluster as plans on `replica` read it now: without the pods on nodes, which the replica has."""
        return replace(
            self._read,
            nodes=tuple(self.replica.nodes.values()),
            pods=(*self.replica.pending.values(), *self._ended),
            budgets=None if self._read.budgets is None else tuple(map(self._as_left, self._budgets)),
        )

    def find(self, uid: PodUid) -> Pod | None:
        """The pod with this UID, or the one that its controller made for it after evictions; None if there is none."""
        return self.replica.find(self._now_of.get(uid, uid))

    def pods_on(self, node: NodeName) -> list[Pod]:
        return [running_pod.pod for running_pod in self.replica.on(self.replica.row_of(node))]

    def _as_left(self, budget: DisruptionBudget) -> DisruptionBudget:
        left = self.disruptions.left(budget.namespace, budget.name)
        return structs.replace(budget, disruptions_allowed=max(left, 0))

    def queue(self) -> list[Pod]:
        """The pods that kube-scheduler tries, in its order."""
        waiting = [pod for pod in self.replica.pending.values() if not (pod.gates or pod.deleting)]
        return sorted(waiting, key=lambda pod: (-pod.priority, pod.created_at, pod.uid))

    # --- changes from outside ---------------------------------------------------------------------------------------------

    def follow(self, changes: Changes, read: Cluster) -> None:
        """Applies changes that others make. `read`: what the cluster has beside nodes, pods and budgets."""
        self._read = read
        self.pod_version += len(changes.pods)
        for uid, pod, _ in changes.pods:
            if pod is None:
                self._now_of.pop(_first(uid), None)
        self.replica.take(replace(changes, awaiting_victims=self.replica.awaiting_victims, kept_room=()))

    def add_pods(self, pods: Iterable[Pod]) -> None:
        """Adds pods that others made."""
        changes = [_change(pod) for pod in pods]
        self.pod_version += len(changes)
        self.replica.take_pods(changes)

    def allow(self, budgets: Iterable[DisruptionBudget], disrupted: Iterable[Pod]) -> None:
        """Begins to count disruptions again. `budgets`: with what they allow while nothing is disrupted. `disrupted`: pods that
        were evicted and whose successors are not ready yet."""
        self._budgets = tuple(budgets)
        self._read = replace(self._read, budgets=self._budgets)
        self.disruptions = Disruptions(self._budgets)
        self.disruptions.spend(disrupted)

    # --- changes of nodes -------------------------------------------------------------------------------------------------

    def put_nodes(self, nodes: Iterable[Node]) -> None:
        """Adds nodes, or replaces those of the same names."""
        self._take(nodes=[NodeChange(node.name, node) for node in nodes])

    def add_nodes(self, template: Template, names: Iterable[NodeName], at: UnixTime, group: GroupName) -> None:
        """Adds ready nodes of a group, like its template, each with the pods of its DaemonSets."""
        for name in names:
            labels = {**template.node.labels, HOSTNAME: name, NODE_GROUP: group}
            self.put_nodes(
                [structs.replace(template.node, name=name, uid=name, labels=labels, provider_id="", created_at=at, ready=True)]
            )
            for daemon in template.running_pods:
                self.put_daemon(daemon, name, at)

    def lose_node(self, name: NodeName, at: UnixTime) -> None:
        """Removes a node that failed. Controllers make its pods again, which then have no node."""
        for pod in self.pods_on(name):
            if is_daemon(pod):
                self.drop(pod)
            else:
                self.evict(pod, at)
        self._take(nodes=[NodeChange(name, None)])

    def remove_node(self, name: NodeName) -> None:
        """Removes a node with the pods that belong to it."""
        for pod in self.pods_on(name):
            self.drop(pod)
        self._take(nodes=[NodeChange(name, None)])

    # --- changes of pods --------------------------------------------------------------------------------------------------

    def bind(self, pod: Pod, node: NodeName) -> None:
        """Puts a pod on the node, which must be feasible for it."""
        self._put(pod.on(node))

    def put_daemon(self, daemon: Pod, node: NodeName, at: UnixTime) -> None:
        """Puts a pod like this one, of a DaemonSet, on its node."""
        self._put(self._renewed(daemon, at, PodKey(daemon.key.namespace, f"{daemon.key.name}-{node}")).on(node))

    def drop(self, pod: Pod) -> None:
        """Removes a pod that has ended, and releases its devices."""
        self._now_of.pop(first_uid(pod), None)
        self.pod_version += 1
        if pod.node is not None:
            row = self.replica.row_of(pod.node)
            kind = next(each.kind for each in self.replica.on(row) if each.pod.uid == pod.uid)
            self.replica.take_pods([PodChange(pod.uid, None)])
            release_devices(self.replica.snapshot, kind, row, [pod.uid])
        else:
            self.replica.take_pods([PodChange(pod.uid, None)])

    def evict(self, pod: Pod, at: UnixTime) -> None:
        """Removes a pod; its controller makes another one, which has no node."""
        self.drop(pod)
        self._put(self.successor(pod, at))

    def successor(self, pod: Pod, at: UnixTime) -> Pod:
        """The pod that the controller makes for an evicted one; it has no node yet, and is in the cluster once it is bound."""
        return self._renewed(pod, at, pod.key)

    def _renewed(self, pod: Pod, at: UnixTime, key: PodKey) -> Pod:
        self._made += 1
        return structs.replace(
            pod,
            uid=PodUid(f"{first_uid(pod)}~{self._made}"),
            key=key,
            kind=pod.renewed_kind,
            node=None,
            created_at=at_text(at),
            started_at=at_text(at),
            deleting=False,
            overdue_at=None,
            nominated_node=None,
            unschedulable_message=None,
            successor=None,
            ready=True,
            starting=False,
        )

    def _put(self, pod: Pod) -> None:
        self._now_of[first_uid(pod)] = pod.uid
        self.pod_version += 1
        self.replica.take_pods([_change(pod)])
        snapshot = self.replica.snapshot
        kind = snapshot.kind_id(pod.kind, pod.labels, deleting=pod.deleting)
        if pod.node is not None and not pod.deleting and has_claims(snapshot, snapshot.of(kind)):
            assume_claims(snapshot, kind, self.replica.row_of(pod.node))

    def _take(self, *, nodes: list[NodeChange]) -> None:
        awaiting = self.replica.awaiting_victims
        self.replica.take(Changes(generation=self.replica.generation, nodes=nodes, awaiting_victims=awaiting))


def first_uid(pod: Pod) -> PodUid:
    """The UID that the pod had before its evictions."""
    return _first(pod.uid)


def _first(uid: PodUid) -> PodUid:
    return PodUid(uid.partition("~")[0])


def at_text(at: UnixTime) -> str:
    """The time in the API's format."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _with_uid(pod: Pod) -> Pod:
    """A pod of a manifest has no UID; its name is one here."""
    return pod if pod.uid else structs.replace(pod, uid=PodUid(str(pod.key)))


def _change(pod: Pod) -> PodChange:
    return PodChange(pod.uid, pod)
