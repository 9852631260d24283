"""`ClusterSnapshot`, the copy of the cluster on which plans are made: nodes, what pods take of them, and the pods of each row.

`ClusterSnapshot.build` takes decoded objects once. After that pods come and go one by one (`place`, `remove`), nodes change
(`put_node`, `add_nodes`, `add_copies`, `close`), and `fit.feasible_nodes` judges whole equivalence groups over all rows. The
snapshot knows a pod only by its row and by the number of its equivalence group (`KindId`, from `kind_id` or `number`); callers
keep track of the pod's identity.

    snapshot = ClusterSnapshot.build(nodes, running, namespaces={"default": {}})
    kind = snapshot.kind_id(pod.kind, pod.labels)
    verdicts = feasible(snapshot, kind)                  # a reason for each row
    with snapshot.fork() as trial:                       # dropped at the end unless trial.commit() was called
        snapshot.place(kind, row, copies=3)
        snapshot.add_copies(template, ["new-0", "new-1"])
        trial.commit()

One `place` or `remove` costs a few additions, and one more for each counter that counts the group, whatever the number of nodes
and groups. `fork` costs nothing; dropping a trial costs as much as its changes did. New rows are always the last ones.

Deliberately absent: verdicts (`fit.feasible_nodes`), what a pod's volumes would be bound to, and everything that waits.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final, Self

import numpy as np

from slackwater.model.columns import Int64, NodeColumns, Rows
from slackwater.model.devices import NO_DEVICES, ClaimKey, DeviceObjects, ResourceClaim
from slackwater.model.ids import NodeName, Row
from slackwater.model.kubernetes_rules import DEFAULT_VERSION, KubernetesVersion, Rule
from slackwater.model.objects import Labels, Node, Pod
from slackwater.model.pod_constraints import Kind
from slackwater.model.scheduler_profile import NO_PROFILES, Profiles
from slackwater.model.storage import Claim, Storage, Volume
from slackwater.snapshot.counted_pods import Namespaces
from slackwater.snapshot.counters import Counters, summed
from slackwater.snapshot.device_table import DeviceTable
from slackwater.snapshot.equivalence_groups import KindId, KindTable, NumberedGroup
from slackwater.snapshot.node_facts import CPU, FIRST_RESOURCES, MEMORY, PODS, NodeFacts, grown
from slackwater.snapshot.ports_and_volumes import PortsAndVolumes, VolumeCounts
from slackwater.snapshot.row_journal import RowJournal
from slackwater.snapshot.storage_table import StorageTable
from slackwater.snapshot.trial import Trial

_NOWHERE: Final = -1
#: Up to this many pods are numbered one by one, which costs less than columns.
_HANDFUL: Final = 64
#: The predicates whose cached answers depend on devices.
_OF_DEVICES: Final = frozenset({"DynamicResources", "NodeResourcesFit"})
_KIND, _LABELS, _DELETING, _NODE = map(attrgetter, ("kind", "labels", "deleting", "node"))


class ClusterSnapshot:
    """Nodes, what pods take of them, and how many pods of each equivalence group are on each row.

    `facts` are the nodes, `kinds` the equivalence groups, `counters` the pods on each row, `attached` ports and volumes.

    `used` is what pods take, shape (resources, capacity), with the indexes of `facts.resource`. `scored` is what scores assume
    that pods take of CPU and memory, shape (2, capacity). `yielding` is the part of `used` that expendable pods take: free for
    pods that preempt; None if there is none. `ledger` has the columns of our own accounting with the same rows;
    None if nodes are judged without it.
    """

    def __init__(
        self,
        *,
        namespaces: Namespaces,
        storage: Storage,
        keys: Iterable[str],
        ledger: NodeColumns | None,
        facts: NodeFacts,
        devices: DeviceObjects = NO_DEVICES,
    ) -> None:
        self.facts = facts
        self.kinds = KindTable(self.facts, keys)
        self.namespaces = namespaces
        #: Storage objects, with the assumptions of plans.
        self.volumes = StorageTable(storage)
        #: Devices and their claims, with the assumptions of plans.
        self.devices = DeviceTable(devices)
        self._volume_counts: VolumeCounts | None = None
        self.ledger = ledger
        self.counters = Counters(namespaces, self.facts.capacity)
        self.attached = PortsAndVolumes()
        self.used: Int64 = np.zeros((len(FIRST_RESOURCES), self.facts.capacity), np.int64)
        self.scored: Int64 = np.zeros((2, self.facts.capacity), np.int64)
        self.yielding: Int64 | None = None
        self._lines = len(FIRST_RESOURCES)
        #: Rows where pods came or went.
        self.journal = RowJournal()
        #: Increases with every change of `attached`, since the users of a claim on one row concern every row.
        self.attached_version = 0
        #: Cached answers; the key identifies the writer. Only `fit.feasible_nodes` and its siblings write here.
        self.kept: dict[object, object] = {}
        #: How many rows predicates have judged so far: the cost of all answers.
        self.rows_judged = 0
        #: The scheduler whose pods are refused if they lack a request, where there is a ledger: None for none, "*" for all.
        self.strict_for: str | None = "*"
        self._trials: list[Trial] = []

    @classmethod
    def build(
        cls,
        nodes: Sequence[Node],
        pods: Sequence[Pod] = (),
        *,
        also: Iterable[Kind] = (),
        namespaces: Mapping[str, Mapping[str, str]] | None = None,
        storage: Storage | None = None,
        ledger: NodeColumns | None = None,
        kubernetes: KubernetesVersion = DEFAULT_VERSION,
        devices: DeviceObjects = NO_DEVICES,
        profiles: Profiles = NO_PROFILES,
    ) -> Self:
        """Builds a snapshot of the nodes, in this order, and of the pods on them. Pods without a node are not placed, but their
        equivalence groups may be looked up later (`kind_id`).

        The snapshot reads only those labels of pods that selectors in `pods` and in `also` name. `also`: further groups that
        will be looked up later; for a group whose selectors name other labels, `kind_id` raises `UnreadLabel`. `ledger`: the
        columns of our own accounting, in the order of `nodes`; their Reserved already includes the pods. `kubernetes`: the
        version by whose rules predicates judge and plug-ins score. `profiles`: kube-scheduler's profiles.
        """
        kinds = dict.fromkeys(map(id, map(_KIND, pods)))
        by_id = dict(zip(map(id, map(_KIND, pods)), map(_KIND, pods), strict=True)) if kinds else {}
        keys = frozenset[str]().union(*(kind.keys_read for kind in (*by_id.values(), *also)))
        new = cls(
            namespaces=Namespaces(namespaces or {}, kubernetes),
            storage=storage or Storage(),
            keys=keys,
            ledger=ledger,
            facts=NodeFacts(kubernetes, profiles),
            devices=devices,
        )
        new.add_nodes(nodes)
        new._load(pods)
        return new

    @property
    def n_rows(self) -> int:
        return self.facts.n_rows

    def follows(self, rule: Rule) -> bool:
        """Whether kube-scheduler behaves by this rule in the Kubernetes version, with its feature gates, that the snapshot
        assumes."""
        return self.facts.kubernetes.follows(rule)

    def kind_id(self, kind: Kind, labels: Labels = (), *, deleting: bool = False) -> KindId:
        """The number of a pod's equivalence group. Raises `UnreadLabel` if the group's selectors name a label that the snapshot
        does not read; the snapshot must then be built again with the group in `also`."""
        found, new = self.kinds.intern(kind, labels, deleting=deleting)
        if new:
            self._make_room()
            self.counters.learn(self.kinds.all[found])
        return found

    def number(self, pods: Sequence[Pod]) -> Rows:
        """The number of each pod's equivalence group, shape (len(pods),). It takes about 0.1 s for 150,000 pods that share
        kinds and labels."""
        if len(pods) <= _HANDFUL:
            return np.array([self.kind_id(pod.kind, pod.labels, deleting=pod.deleting) for pod in pods], np.intp)
        count = len(pods)
        kinds, labels = list(map(_KIND, pods)), list(map(_LABELS, pods))
        deleting = np.fromiter(map(_DELETING, pods), np.bool_, count)
        # A number for each value: values that are the same instance have the same number.
        of_kind, of_labels = (
            np.unique(np.fromiter(map(id, values), np.int64, count), return_inverse=True)[1] for values in (kinds, labels)
        )
        code = (of_kind * (int(of_labels.max(initial=0)) + 1) + of_labels) * 2 + deleting
        _, first, where = np.unique(code, return_index=True, return_inverse=True)
        ids = np.zeros(len(first), np.intp)
        # Groups are numbered in the order of their first pods. The order of `code` is that of memory addresses, which differ on
        # every run.
        for at in np.argsort(first).tolist():
            pod = int(first[at])
            ids[at] = self.kind_id(kinds[pod], labels[pod], deleting=bool(deleting[pod]))
        return ids[where]

    def line(self, resource: str) -> int | None:
        """The resource's index in resource columns; None if no node offers the resource."""
        found = self.facts.line(resource)
        self._make_room()
        return found

    def of(self, kind: KindId) -> NumberedGroup:
        return self.kinds.all[kind]

    def place(self, kind: KindId, row: int, copies: int = 1) -> None:
        """Adds `copies` pods of the group to a row, whether they fit or not."""
        self._shift(kind, row, copies)
        if self._trials:
            self._trials[-1].undo_by(self._shift, kind, row, -copies)

    def remove(self, kind: KindId, row: int, copies: int = 1) -> None:
        """Removes `copies` pods of the group from a row; they must have been placed there."""
        self.place(kind, row, -copies)

    def place_many(self, kind: KindId, rows: Rows, copies: Int64) -> None:
        """Adds `copies[i]` pods of the group to `rows[i]`; rows are distinct."""
        self._shift_many(kind, rows, copies)
        if self._trials:
            self._trials[-1].undo_by(self._shift_many, kind, rows.copy(), -copies)

    def let_yield(self, kind: KindId, rows: Rows, copies: Int64) -> None:
        """Notes that `copies[i]` placed pods of the group on `rows[i]` are expendable: every rule counts them, but their room
        is free for pods that preempt. With negative `copies` they are so no more."""
        amounts = tuple(self.kinds.requests_of[kind])  # a later node may offer more of what the pods request
        self._shift_yielding(amounts, rows, copies)
        self._undo_by(self._shift_yielding, amounts, rows.copy(), -copies)

    def used_by_others(self) -> Int64:
        """What the pods take that are not expendable, as `used`."""
        return self.used if self.yielding is None else self.used - self.yielding

    def used_against(self, kind: Kind) -> Int64:
        """What counts as used for pods of this kind, as `used`: all, or for pods that preempt all but what expendable pods
        take."""
        return self.used_by_others() if kind.preempts else self.used

    def ledger_against(self, kind: Kind) -> NodeColumns | None:
        """The columns of our own accounting for pods of this kind: where they preempt, Reserved is less what expendable pods
        take."""
        if self.ledger is None or self.yielding is None or not kind.preempts:
            return self.ledger
        ledger = self.ledger.copy()
        ledger.reserved -= self.yielding[[CPU, MEMORY], : ledger.n_rows]
        return ledger

    def _undo_by(self, undo: Callable[..., object], *args: Any, **named: Any) -> None:
        """Notes the call that undoes a change, if there is a trial."""
        if self._trials:
            self._trials[-1].undo_by(undo, *args, **named)

    def add_nodes(self, nodes: Iterable[Node]) -> range:
        """Adds rows for nodes, in order. Raises ValueError if a name already exists."""
        first = self.n_rows
        added = self.facts.add(nodes)
        self._added(first)
        return added

    def add_copies(self, template: Node, names: Sequence[NodeName]) -> range:
        """Adds rows for copies of the template with other names. Raises ValueError if a name already exists."""
        first = self.n_rows
        added = self.facts.add_copies(template, names)
        self._added(first)
        return added

    def _added(self, first: int) -> None:
        self._make_room()
        self._undo_by(self.facts.truncate, first)

    def put_node(self, row: Row, node: Node) -> None:
        """Replaces the node of a row by a newer state of the same node. Raises ValueError for another name."""
        before = self.facts.nodes[row]
        if node.name != before.name:
            raise ValueError(f"row {row}: got node {node.name}, want {before.name}")
        self.facts.put(row, node)
        self._make_room()
        self._undo_by(self.facts.put, row, before)

    def give_row(self, row: Row, node: Node) -> None:
        """Gives a closed row without pods to this node. Raises ValueError if the row is in use, or the name is on another
        row."""
        before, known = self.facts.nodes[row], self.facts.row_of.get(node.name, row)
        if self.facts.live[row] or self.used[PODS, row] or known != row:
            raise ValueError(f"row {row}: got node {node.name} for {before.name}, want a closed row without pods")
        self.facts.put(row, node)
        self._make_room()
        self._undo_by(self.facts.set_live, row, live=False)
        self._undo_by(self.facts.put, row, before)

    def close(self, row: Row) -> None:
        """Closes the row of a node: nothing fits there, and its pods do not count any more. The row stays; `open` reopens
        it."""
        self._set_live(row, live=False)

    def open(self, row: Row) -> None:
        self._set_live(row, live=True)

    def _set_live(self, row: Row, *, live: bool) -> None:
        before = bool(self.facts.live[row])
        self.facts.set_live(row, live=live)
        self._undo_by(self.facts.set_live, row, live=before)

    def judge_by(self, ledger: NodeColumns | None) -> None:
        """Replaces the columns of our own accounting, which must have this snapshot's rows. None: nodes are judged without
        them."""
        if self._trials:
            raise RuntimeError("the ledger is replaced within a trial, want it before or after")
        self.ledger = ledger
        self.kept = {key: kept for key, kept in self.kept.items() if not (isinstance(key, tuple) and key[0] == "Ledger")}

    def put_storage(self, storage: Storage) -> None:
        """Replaces claims, volumes and the like; earlier assumptions about them end."""
        self._undo_by(self._replace_volumes, self.volumes)
        self._replace_volumes(StorageTable(storage))

    def _replace_volumes(self, volumes: StorageTable) -> None:
        self.volumes = volumes
        self._volume_counts = None
        self.kept.clear()

    def assume_claim(self, claim: Claim) -> None:
        """Assumes that a node is selected for the claim."""
        key = (claim.namespace, claim.name)
        before = self.volumes.assume_claim(key, claim)
        self._undo_by(self.volumes.assume_claim, key, before)

    def assume_volume(self, volume: Volume) -> None:
        """Assumes that the volume is reserved for a claim."""
        before = self.volumes.assume_volume(volume.name, volume)
        self._undo_by(self.volumes.assume_volume, volume.name, before)

    def put_devices(self, devices: DeviceObjects) -> None:
        """Replaces slices, classes and claims of devices; earlier assumptions about them end."""
        self._undo_by(self._replace_devices, self.devices)
        self._replace_devices(DeviceTable(devices))

    def _replace_devices(self, devices: DeviceTable) -> None:
        self.devices = devices
        self.kept = {key: kept for key, kept in self.kept.items() if not (isinstance(key, tuple) and key[0] in _OF_DEVICES)}

    def put_device_claim(self, key: ClaimKey, claim: ResourceClaim | None) -> None:
        """Assumes this value of a claim of devices, with its allocation. None: the claim does not exist."""
        before = self._put_device_claim(key, claim)
        self._undo_by(self._put_device_claim, key, before)

    def _put_device_claim(self, key: ClaimKey, claim: ResourceClaim | None) -> ResourceClaim | None:
        before = self.devices.put_claim(key, claim)
        for each in (before, claim):
            for name in () if each is None else self.devices.nodes_of(each):
                if name in self.facts.row_of:
                    self.journal.note(self.facts.row_of[name])
        return before

    @property
    def volume_counts(self) -> VolumeCounts:
        """How many volumes are attached to each row; the first access counts them."""
        if self._volume_counts is None:
            self._volume_counts = VolumeCounts(self)
        return self._volume_counts

    def fork(self) -> Trial:
        """Begins a trial: all later changes can be undone. Trials may be nested; the innermost ends first."""
        return Trial(self._trials)

    def _shift(self, kind: KindId, row: int, count: int) -> None:
        for column, amounts in ((self.used, self.kinds.requests_of[kind]), (self.scored, self.kinds.scored_of[kind])):
            for resource, amount in amounts:  # number by number: numpy takes several times as long for so few
                column[resource, row] += amount * count
        if self.ledger is not None:
            self.ledger.reserved[:, row] += self.kinds.requests[:2, kind] * count
        self.counters.change(kind, row, count)
        if self.kinds.all[kind].rare:
            self._attach(self.kinds.all[kind], row, count)
        self.journal.note(row)

    def _shift_many(self, kind: KindId, rows: Rows, counts: Int64) -> None:
        for line, amount in self.kinds.requests_of[kind]:
            self.used[line, rows] += amount * counts
        self.scored[:, rows] += np.outer(self.kinds.scored[:, kind], counts)
        if self.ledger is not None:
            self.ledger.reserved[:, rows] += np.outer(self.kinds.requests[:2, kind], counts)
        self.counters.change_many(kind, rows, counts)
        numbered = self.kinds.all[kind]
        if numbered.rare:
            for row, count in zip(rows.tolist(), counts.tolist(), strict=True):
                self._attach(numbered, row, count)
        self.journal.note_all(rows)

    def _shift_yielding(self, amounts: Iterable[tuple[int, int]], rows: Rows, copies: Int64) -> None:
        """Changes `yielding` by the amounts of so many pods. `amounts`: those of one pod, by line."""
        if self.yielding is None:
            self.yielding = np.zeros_like(self.used)
        for line, amount in amounts:
            self.yielding[line, rows] += amount * copies
        self.journal.note_all(rows)
        if not self.yielding.any():
            self.yielding = None

    def _attach(self, numbered: NumberedGroup, row: int, count: int) -> None:
        self.attached.change(numbered, row, count)
        self.attached_version += 1
        if self._volume_counts is not None:
            self._volume_counts.change(numbered, row, count)

    def _load(self, pods: Sequence[Pod]) -> None:
        row_of = self.facts.row_of
        names = list(map(_NODE, pods))
        rows = np.fromiter((row_of.get(name, _NOWHERE) for name in names), np.intp, len(pods))
        running_pods = [pod for pod, row in zip(pods, rows.tolist(), strict=True) if row >= 0 and not pod.ended]
        kinds = self.number(running_pods)
        rows = np.fromiter((row_of[pod.node] for pod in running_pods if pod.node), np.intp, len(running_pods))
        kinds, rows, counts = summed(kinds, rows, np.ones(len(rows), np.int64))
        self.counters.load(kinds, rows, counts)
        for line in range(len(self.facts.resource)):  # `_make_room` has made them
            np.add.at(self.used[line], rows, self.kinds.requests[line][kinds] * counts)
        for line in range(2):
            np.add.at(self.scored[line], rows, self.kinds.scored[line][kinds] * counts)
        rare = [numbered for numbered in self.kinds.all if numbered.rare]
        for numbered in rare:
            for row, count in self.counters.rows_of(numbered.id).items():
                self.attached.change(numbered, row, count)
        self.journal.note_all(np.arange(self.n_rows))

    def _make_room(self) -> None:
        lines, capacity = len(self.facts.resource), self.facts.capacity
        if self.used.shape[1] < capacity:
            self.used = grown(self.used, capacity).astype(np.int64, copy=False)
            self.yielding = None if self.yielding is None else grown(self.yielding, capacity).astype(np.int64, copy=False)
            self.scored = grown(self.scored, capacity).astype(np.int64, copy=False)
            self.counters.make_room(capacity)
        while self.used.shape[0] < lines:
            self.used = np.vstack([self.used, np.zeros_like(self.used)])
            self.yielding = None if self.yielding is None else np.vstack([self.yielding, np.zeros_like(self.yielding)])
        self.kinds.make_room(lines)
        if lines > self._lines:
            self._lines = lines
            for kind, line, amount in self.kinds.newly_offered():
                for row, count in self.counters.rows_of(kind).items():
                    self.used[line, row] += amount * count
        if self.ledger is not None:
            self.ledger.grow_to(self.n_rows)
