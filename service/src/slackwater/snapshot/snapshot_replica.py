"""A cluster snapshot that follows the cluster: built once, then updated with each collection of changes. One thread owns it.

    replica = SnapshotReplica()
    replica.take(changes)                # model.changes; the first ones contain everything
    with replica.snapshot.fork(): ...    # trials end before the next take
    replica.on(row)                      # the pods of a row
    replica.pending                      # pods without a node

`take` costs about 20 µs for each changed pod. Sometimes the snapshot is rebuilt instead (0.6 s for 150,000 pods): if a large
part of the cluster changed at once, or if pods bring selectors that read labels that no selector read before. Deliberately
absent: how changes are noticed.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, Final, TypeVar

import numpy as np

from slackwater.model.auxiliary import Targets
from slackwater.model.changes import Changes, KeptRoom, PodChange
from slackwater.model.devices import NO_DEVICES
from slackwater.model.ids import Generation, NodeName, PodUid, Row
from slackwater.model.kubernetes_rules import DEFAULT_VERSION
from slackwater.model.objects import DisruptionBudget, Node, Pod
from slackwater.model.scheduler_profile import NO_PROFILES, NO_SPREAD_SOURCES, Profiles, with_default_spread
from slackwater.model.storage import Storage
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.counters import summed
from slackwater.snapshot.equivalence_groups import KindId, UnreadLabel
from slackwater.snapshot.running_pods import AtLeast, NotedPods, RunningPod, let_yield

#: If more than this share of all pods changed, rebuilding is cheaper than applying the changes one by one.
_REBUILD_SHARE: Final = 0.25
#: Up to this many changes are always applied one by one.
_FEW: Final = 2_000
#: Unused equivalence groups stay in a snapshot, and so do the columns of what they ask for. Once the number of groups and their
#: rules has grown by this factor, the snapshot is rebuilt without them.
_GROWTH: Final = 3
_FEW_RULES: Final = 20_000
_FEW_GROUPS: Final = 64
#: Notes are kept under so many keys. There are two or three; a changed policy brings others.
_MOST_NOTES: Final = 8
#: Up to this many changes cost less one by one than as columns.
_HANDFUL: Final = 64
_UNNUMBERED: Final = KindId(-1)
Name = TypeVar("Name", NodeName, PodUid)
Seen = TypeVar("Seen", Node, Pod)


#: The fields of `Changes` that, if they are not None, replace the replica's field of the same name.
_PARTS: Final = ("budgets", "storage", "devices", "daemons", "replicas", "spread_sources")


class SnapshotReplica:
    """A cluster snapshot that is built once and then follows the cluster by its changes."""

    def __init__(self) -> None:
        self.generation = Generation(0)
        self.snapshot = ClusterSnapshot.build(())
        self.budgets: tuple[DisruptionBudget, ...] = ()
        self.awaiting_victims: frozenset[PodUid] = frozenset()
        #: The destinations of running drains' pods. The snapshot does not contain them.
        self.kept_room: tuple[KeptRoom, ...] = ()
        #: Pods without a node, whatever they wait for, in the order of their last changes.
        self.pending: dict[PodUid, Pod] = {}
        #: The API server's objects of those nodes and pods that our accounting uses in another form.
        self.seen_nodes: dict[NodeName, Node] = {}
        self.seen_pods: dict[PodUid, Pod] = {}
        self.namespaces: Mapping[str, Mapping[str, str]] = {}
        self.storage = Storage()
        #: One pod per known DaemonSet, and the number of pods that each known controller wants.
        self.daemons: tuple[Pod, ...] = ()
        self.replicas: Targets = {}
        #: How often the snapshot was rebuilt.
        self.builds = 0
        self.kubernetes = DEFAULT_VERSION
        self.profiles: Profiles = NO_PROFILES
        self.spread_sources = NO_SPREAD_SOURCES
        self.devices = NO_DEVICES
        #: The nodes that exist.
        self.nodes: dict[NodeName, Node] = {}
        #: Pods that count on a node, by the node's name, whether the node exists or not.
        self._pods_on_node: dict[NodeName, dict[PodUid, RunningPod]] = {}
        self._place: dict[PodUid, NodeName] = {}
        self._notes: dict[Hashable, dict[NodeName, Any]] = {}
        #: How many pods of each priority have a node.
        self._priorities: Counter[int] = Counter()
        self._free: dict[Row, None] = {}
        self._outside_pods: Sequence[Pod] = ()
        self._rules_at_first = 0

    def notes(self, key: Hashable) -> dict[NodeName, Any]:
        """As of `NotedPods`."""
        if key not in self._notes and len(self._notes) == _MOST_NOTES:
            self._notes.clear()
        return self._notes.setdefault(key, {})

    def _forget_notes(self, node: NodeName) -> None:
        for notes in self._notes.values():
            notes.pop(node, None)

    def on(self, row: Row) -> list[RunningPod]:
        """The pods that count on a row, with the numbers of their equivalence groups."""
        return (
            list(self._pods_on_node.get(self.snapshot.facts.nodes[row].name, {}).values()) if row < self.snapshot.n_rows else []
        )

    @property
    def occupied(self) -> Iterable[NodeName]:
        """The nodes with pods, whether they exist or not."""
        return self._pods_on_node.keys()

    def pods_on(self, node: NodeName) -> list[Pod]:
        """The pods that count on a node."""
        return [running_pod.pod for running_pod in self._pods_on_node.get(node, {}).values()]

    def find(self, uid: PodUid) -> Pod | None:
        """The pod with this UID, with or without a node; None if the replica has none."""
        node = self._place.get(uid)
        return self.pending.get(uid) if node is None else self._pods_on_node[node][uid].pod

    def bound_pods(self) -> Iterator[RunningPod]:
        """All pods that have a node."""
        for by_uid in self._pods_on_node.values():
            yield from by_uid.values()

    def every_pod(self) -> list[Pod]:
        """All pods: those that have a node, then those without."""
        return [*(running_pod.pod for running_pod in self.bound_pods()), *self.pending.values()]

    @contextmanager
    def yielding_below(self, priority: int) -> Iterator[NotedPods]:
        """A trial in which the expendable pods (`Pod.expendable`) yield their room to pods that preempt; it ends with the
        context.

        It yields the other pods by row. If there are expendable pods, it looks through all pods.
        """
        with self.snapshot.fork():
            if not self.has_below(priority):
                yield self
                return
            expendable = [
                (running_pod.kind, self.row_of(name))
                for name in self.nodes
                for running_pod in self._pods_on_node.get(name, {}).values()
                if running_pod.pod.expendable(priority)
            ]
            let_yield(self.snapshot, expendable)
            yield AtLeast(self, priority)

    def has_below(self, priority: int) -> bool:
        """Has any pod with a node a lower priority?"""
        return any(pods and found < priority for found, pods in self._priorities.items())

    def lowest_priority(self, at_least: int) -> int | None:
        """The lowest priority of the pods that have a node, among priorities of `at_least` or higher; None if there are no such
        pods."""
        return min((found for found, pods in self._priorities.items() if pods and found >= at_least), default=None)

    def row_of(self, name: NodeName) -> Row:
        """The row of a node that exists."""
        return self.snapshot.facts.row_of[name]

    def learn(self, pods: Sequence[Pod], *, more: bool = False) -> None:
        """Adds the equivalence groups of pods that are not in the cluster to the snapshot, so that a plan may place the pods.
        The pods replace those learned before, or with `more` are added to them.

        If their selectors read labels that the snapshot was built without, the snapshot is rebuilt.
        """
        self._outside_pods = (*self._outside_pods, *pods) if more else pods
        try:
            self.snapshot.number(pods)
        except UnreadLabel:
            self._build()

    def take(self, changes: Changes) -> None:
        """Applies the changes, which brings the snapshot up to date. Every trial on it must have ended."""
        self.generation, self.awaiting_victims = changes.generation, changes.awaiting_victims
        self.kept_room = changes.kept_room
        for part in _PARTS:
            if (news := getattr(changes, part)) is not None:
                setattr(self, part, news)
        _note_seen(self.seen_nodes, changes.nodes)
        _note_seen(self.seen_pods, changes.pods)
        nodes = {name: node for name, node, _ in changes.nodes}
        rules = (changes.kubernetes or self.kubernetes, self.profiles if changes.profiles is None else changes.profiles)
        new_rules = rules != (self.kubernetes, self.profiles)
        self.kubernetes, self.profiles = rules
        changed = {uid: pod for uid, pod, _ in changes.pods}
        pods = self._spread_by_default(changed, everywhere=new_rules or changes.spread_sources is not None)
        large = len(pods) + len(nodes) > max(_FEW, (len(self._place) + len(self.pending)) * _REBUILD_SHARE)
        rebuild = changes.namespaces is not None or new_rules or large or self.is_stale
        self.namespaces = self.namespaces if changes.namespaces is None else changes.namespaces
        if not rebuild:
            try:
                self._follow(nodes, pods)
            except UnreadLabel:
                rebuild = True
            else:
                if changes.storage is not None:
                    self.snapshot.put_storage(changes.storage)
                if changes.devices is not None:
                    self.snapshot.put_devices(changes.devices)
        if rebuild:
            self._note(nodes, pods)
            self._build()

    def _spread_by_default(self, pods: Mapping[PodUid, Pod | None], *, everywhere: bool) -> Mapping[PodUid, Pod | None]:
        """The changed pods with the default constraints of their profiles. `everywhere`: adds known pods whose constraints
        change."""
        if not any(profile.spread for profile in self.profiles.values()):
            return pods
        found = {uid: pod and with_default_spread(pod, self.profiles, self.spread_sources) for uid, pod in pods.items()}
        known = (running_pod.pod for running_pod in self.bound_pods()) if everywhere else ()
        for before in (*known, *(self.pending.values() if everywhere else ())):
            pod = with_default_spread(before, self.profiles, self.spread_sources)
            if pod is not before:
                found.setdefault(before.uid, pod)
        return found

    def take_pods(self, changes: Sequence[PodChange]) -> None:
        """Applies changes of a few pods if nothing else has changed. The result is that of `take`, at a third of the cost.

        The pods' selectors must not read labels that the snapshot was built without.
        """
        _note_seen(self.seen_pods, changes)
        self._apply_pods(
            (
                uid,
                pod,
                _UNNUMBERED if pod is None else self.snapshot.kind_id(pod.kind, pod.labels, deleting=pod.deleting),
            )
            for uid, pod, _ in changes
            if pod is None or not self._is_as_before(pod)
        )

    @property
    def is_stale(self) -> bool:
        """Whether groups that may be unused have many times as many rules as all groups had when the snapshot was built."""
        rules = self.snapshot.kinds.n_rules
        return rules > _FEW_RULES and rules > _GROWTH * self._rules_at_first

    def shed(self) -> None:
        """Drops cached answers, and groups without pods where they may be many: that rebuilds the snapshot."""
        used = {running_pod.kind for running_pod in self.bound_pods()}
        if len(self.snapshot.kinds) > len(used) + len(self.pending) + _FEW_GROUPS:
            self._build()
        self.snapshot.kept.clear()
        self.snapshot.counters.forget_columns()

    # --- following --------------------------------------------------------------------------------------------------------

    def _follow(self, nodes: Mapping[NodeName, Node | None], pods: Mapping[PodUid, Pod | None]) -> None:
        """Applies changes one by one; None stands for a node or pod that is gone. The pods' equivalence groups are determined
        first: if that raises `UnreadLabel`, nothing has changed yet."""
        numbers = iter(self.snapshot.number([pod for pod in pods.values() if pod is not None]).tolist())
        for name, node in nodes.items():
            if node is None:
                self._close(name)
            else:
                self._open(name, node)
        self._apply_pods((uid, pod, _UNNUMBERED if pod is None else KindId(next(numbers))) for uid, pod in pods.items())

    def _apply_pods(self, pods: Iterable[tuple[PodUid, Pod | None, KindId]]) -> None:
        """Puts each pod where it is now, with its equivalence group; None: it is gone."""
        moves: list[tuple[KindId, int, int]] = []
        for uid, pod, kind in pods:
            if pod is not None and self._stays(pod, kind):
                continue
            if (move := self._leave(uid)) is not None:
                moves.append(move)
            if pod is not None and self._enter(pod, kind) and pod.node in self.nodes:
                moves.append((kind, self.row_of(pod.node), 1))
        if moves:
            self._move(moves)

    def _close(self, name: NodeName) -> None:
        if self.nodes.pop(name, None) is None:
            return
        self._forget_notes(name)
        row = self.row_of(name)
        self._move([(running_pod.kind, row, -1) for running_pod in self._pods_on_node.get(name, {}).values()])
        self.snapshot.close(row)
        self._free[row] = None

    def _open(self, name: NodeName, node: Node) -> None:
        known, self.nodes[name] = name in self.nodes, node
        if known:
            self.snapshot.put_node(self.row_of(name), node)
            return
        row = self.snapshot.facts.row_of.get(name)
        if row is None and self._free:
            row = next(iter(self._free))
        if row is None:
            row = Row(self.snapshot.add_nodes([node])[0])
        else:
            del self._free[row]
            self.snapshot.give_row(row, node)
        self._move([(running_pod.kind, row, 1) for running_pod in self._pods_on_node.get(name, {}).values()])

    def _leave(self, uid: PodUid) -> tuple[KindId, int, int] | None:
        """Removes the pod from `pending` or from its node's pods, but not yet from the snapshot. Returns the change that
        removes it there, as (equivalence group, row, -1); None if the snapshot does not contain the pod."""
        self.pending.pop(uid, None)
        node = self._place.pop(uid, None)
        if node is None:
            return None
        by_uid = self._pods_on_node[node]
        self._forget_notes(node)
        running_pod = by_uid.pop(uid)
        self._priorities[running_pod.pod.priority] -= 1
        if not by_uid:
            del self._pods_on_node[node]
        return (running_pod.kind, self.row_of(node), -1) if node in self.nodes else None

    def _is_as_before(self, pod: Pod) -> bool:
        """`_stays` without the number of the equivalence group, for a pod that shares the objects of its group with its last
        state, as most do. False: `_stays` has to decide."""
        node = pod.node
        if node is None or self._place.get(pod.uid) != node:
            return False
        before = self._pods_on_node[node][pod.uid]
        same = before.pod.kind is pod.kind and before.pod.labels is pod.labels and before.pod.deleting is pod.deleting
        return same and self._stays(pod, before.kind)

    def _stays(self, pod: Pod, kind: KindId) -> bool:
        """Replaces the pod's object, and returns True, if the pod has the same node, equivalence group and priority as before:
        the snapshot then needs no change. Otherwise returns False and changes nothing."""
        node = pod.node
        if node is None or self._place.get(pod.uid) != node:
            return False
        by_uid = self._pods_on_node[node]
        before = by_uid[pod.uid]
        if before.kind != kind or before.pod.priority != pod.priority:
            return False
        self._forget_notes(node)
        by_uid[pod.uid] = RunningPod(pod, kind)
        return True

    def _enter(self, pod: Pod, kind: KindId) -> bool:
        """Adds the pod to `pending` or to its node's pods, but not yet to the snapshot. Returns whether it has a node."""
        if pod.node is None:
            self.pending[pod.uid] = pod
            return False
        self._place[pod.uid] = pod.node
        self._forget_notes(pod.node)
        self._pods_on_node.setdefault(pod.node, {})[pod.uid] = RunningPod(pod, kind)
        self._priorities[pod.priority] += 1
        return True

    def _move(self, moves: Sequence[tuple[KindId, int, int]]) -> None:
        if len(moves) <= _HANDFUL:
            self._move_each(moves)
            return
        table = np.array(moves, np.int64)
        kinds, rows, counts = summed(table[:, 0].astype(np.intp), table[:, 1].astype(np.intp), table[:, 2])
        bounds = [*np.flatnonzero(np.diff(kinds, prepend=-1)).tolist(), len(kinds)]
        for start, end in pairwise(bounds):
            self.snapshot.place_many(KindId(int(kinds[start])), rows[start:end], counts[start:end])

    def _move_each(self, moves: Sequence[tuple[KindId, int, int]]) -> None:
        if len(moves) == 1:
            self.snapshot.place(*moves[0])
            return
        left: dict[tuple[KindId, int], int] = {}
        for kind, row, count in moves:
            left[kind, row] = left.get((kind, row), 0) + count
        for (kind, row), count in left.items():
            if count:
                self.snapshot.place(kind, row, count)

    # --- building ---------------------------------------------------------------------------------------------------------

    def _note(self, nodes: Mapping[NodeName, Node | None], pods: Mapping[PodUid, Pod | None]) -> None:
        """Applies the changes to the tables of nodes and pods, but not to the snapshot, since `_build` then builds it again."""
        for uid, pod in pods.items():
            self._leave(uid)
            if pod is not None:
                self._enter(pod, _UNNUMBERED)
        for name, node in nodes.items():
            if node is None:
                self.nodes.pop(name, None)
            else:
                self.nodes[name] = node

    def _build(self) -> None:
        all_pods = self.every_pod()
        self.snapshot = ClusterSnapshot.build(
            list(self.nodes.values()),
            all_pods,
            also=[pod.kind for pod in self._outside_pods],
            namespaces=self.namespaces,
            storage=self.storage,
            kubernetes=self.kubernetes,
            devices=self.devices,
            profiles=self.profiles,
        )
        self.snapshot.facts.image("")  # collects the images now: the first question about one must not take that long
        numbers = iter(self.snapshot.number(all_pods).tolist())
        for by_uid in self._pods_on_node.values():
            for uid, running_pod in by_uid.items():
                by_uid[uid] = RunningPod(running_pod.pod, KindId(next(numbers)))
        self._free = {}
        self._notes.clear()
        self._rules_at_first = self.snapshot.kinds.n_rules
        self.builds += 1


def _note_seen(known: dict[Name, Seen], changes: Iterable[tuple[Name, Seen | None, Seen | None]]) -> None:
    for name, _, seen in changes:
        if seen is not None:
            known[name] = seen
        elif known:
            known.pop(name, None)
