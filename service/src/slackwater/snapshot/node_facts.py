"""The facts of the nodes themselves, row by row: allocatable, labels, taints, cordons, images.

The values of each label key become a column of small integers (`ValueColumn`), built when the key is first read; so do sets of
taints and of features. A predicate or selector is evaluated once for each value, with a few vector comparisons, and each row
looks up the answer for its value; a topology domain is a value's number. Values that no row has any more are forgotten from
time to time: clusters that grow and shrink keep adding host names, and taints with times in them.

Deliberately absent: anything about pods.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Generic, TypeVar

import numpy as np
import numpy.typing as npt
from msgspec import structs

from slackwater.model.columns import Int64, Mask
from slackwater.model.ids import NodeName, Row
from slackwater.model.kubernetes_rules import DEFAULT_VERSION, KubernetesVersion
from slackwater.model.objects import Image, Node, Taint
from slackwater.model.resources import MOST_PODS_ON_NODE
from slackwater.model.scheduler_profile import NO_PROFILES, Profiles
from slackwater.model.selectors import whole_number
from slackwater.snapshot.row_journal import RowJournal

T = TypeVar("T")
Int32 = npt.NDArray[np.int32]

#: The number of a row that has no value.
ABSENT: Final = -1
#: How many values are kept in addition to two for each row.
_SPARE: Final = 64


def grown(array: npt.NDArray[np.generic], capacity: int, fill: int = 0) -> npt.NDArray[np.generic]:
    """The array with its last axis made `capacity` long."""
    new = np.full((*array.shape[:-1], capacity), fill, array.dtype)
    new[..., : array.shape[-1]] = array
    return new


class ValueColumn(Generic[T]):
    """A column of values: `ids[row]` is the number of the row's value, ABSENT if the row has none; `values[number]` is the
    value.

    `put`, `cut` and `tidy` may renumber values, in new arrays: a caller that keeps numbers must keep the arrays too.
    """

    __slots__ = ("_number_of", "ids", "values")

    def __init__(self, capacity: int) -> None:
        self.ids: Int32 = np.full(capacity, ABSENT, np.int32)
        self.values: list[T] = []
        self._number_of: dict[T, int] = {}

    def number(self, value: T) -> int:
        """The number of a value; a new value gets the next one."""
        found = self._number_of.get(value)
        if found is None:
            found = self._number_of[value] = len(self.values)
            self.values.append(value)
        return found

    def known(self, value: T) -> int:
        """The number of a value; ABSENT if the column does not have the value."""
        return self._number_of.get(value, ABSENT)

    def put(self, row: int, value: T | None) -> None:
        self.write(row, value)
        self.tidy()

    def write(self, row: int, value: T | None) -> None:
        """Sets the value of a row as `put` does, but never renumbers."""
        self.ids[row] = ABSENT if value is None else self.number(value)

    def cut(self, n_rows: int) -> None:
        """Removes the values of rows from `n_rows` on."""
        self.ids[n_rows:] = ABSENT
        self.tidy()

    def grow(self, capacity: int) -> None:
        self.ids = grown(self.ids, capacity, ABSENT).astype(np.int32, copy=False)

    def tidy(self) -> None:
        """Forgets the values that no row has, once there are many."""
        if len(self.values) <= 2 * len(self.ids) + _SPARE:
            return
        present = self.ids != ABSENT
        used, renumbered = np.unique(self.ids[present], return_inverse=True)
        self.ids = np.full(len(self.ids), ABSENT, np.int32)
        self.ids[present] = renumbered
        self.values = [self.values[number] for number in used.tolist()]
        self._number_of = {value: number for number, value in enumerate(self.values)}


class LabelColumn(ValueColumn[str]):
    """The values of one label key."""

    __slots__ = ("_numbers",)

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        self._numbers: tuple[list[str], int, Int64, Mask] | None = None

    def as_numbers(self) -> tuple[Int64, Mask]:
        """The values as whole numbers for the operators Gt and Lt, and which of the values are whole numbers. Both of shape
        (len(values),)."""
        kept = self._numbers
        if kept is None or kept[0] is not self.values or kept[1] != len(self.values):
            read = [whole_number(value) for value in self.values]
            numbers = np.array([0 if n is None else n for n in read], np.int64)
            kept = self._numbers = (self.values, len(read), numbers, np.array([n is not None for n in read], np.bool_))
        return kept[2], kept[3]


HOSTNAME: Final = "kubernetes.io/hostname"
#: The first resources of every snapshot, in the order of the first axis of its resource columns.
FIRST_RESOURCES: Final = ("cpu", "memory", "pods", "ephemeral-storage")
CPU, MEMORY, PODS, EPHEMERAL_STORAGE = range(4)

_FIRST_CAPACITY: Final = 64
#: The most label keys with a column: 20 kB each at 5,000 nodes.
_MOST_LABELS: Final = 1_024


class NodeFacts:
    """Nodes by row. A new node gets the next row and keeps it; the row of a closed node remains, but is not `live`.

    `kubernetes` is the version by whose rules predicates judge these nodes, `profiles` are kube-scheduler's profiles.
    """

    def __init__(self, kubernetes: KubernetesVersion = DEFAULT_VERSION, profiles: Profiles = NO_PROFILES) -> None:
        self.kubernetes: Final = kubernetes
        self.profiles: Final = profiles
        self.n_rows = 0
        self.nodes: list[Node] = []
        self.row_of: dict[NodeName, Row] = {}
        #: Each resource's index on the first axis of `allocatable`, by the resource's name. Only resources that some node
        #: offers and somebody has asked for (`line`) have one.
        self.resource: dict[str, int] = {name: line for line, name in enumerate(FIRST_RESOURCES)}
        self.allocatable: Int64 = np.zeros((len(FIRST_RESOURCES), _FIRST_CAPACITY), np.int64)
        self.live: Mask = np.zeros(_FIRST_CAPACITY, np.bool_)
        self.cordoned: Mask = np.zeros(_FIRST_CAPACITY, np.bool_)
        self.taints: Final = ValueColumn[tuple[Taint, ...]](_FIRST_CAPACITY)
        self.features: Final = ValueColumn[tuple[str, ...]](_FIRST_CAPACITY)
        self._labels: dict[str, LabelColumn] = {}
        #: The label keys and the resources that some node has, or had.
        self._label_keys: set[str] = set()
        self.offered: set[str] = set(FIRST_RESOURCES)
        #: Resources that somebody has asked for and that no node offers.
        self._wanted: set[str] = set()
        self._absent = LabelColumn(_FIRST_CAPACITY)
        #: By image name: the live rows that have it, with the size that each reports. None until the first read.
        self._images: dict[str, dict[int, int]] | None = None
        #: Increases whenever the images of some node may have changed.
        self.images_version = 0
        #: Rows whose facts changed. Changes of images are not noted, since no verdict reads images.
        self.journal = RowJournal()
        self._largest = (0, 0)
        self._largest_is_of = (0, 0)

    @property
    def capacity(self) -> int:
        return len(self.live)

    @property
    def largest(self) -> tuple[int, int]:
        """The largest allocatable CPU (milliCPU) and the largest allocatable memory (bytes) of all rows; 0 without rows."""
        key = self.journal.position, self.n_rows
        if key != self._largest_is_of:
            cpu, memory = self.allocatable[CPU : MEMORY + 1, : self.n_rows].max(axis=1, initial=0).tolist()
            self._largest, self._largest_is_of = (cpu, memory), key
        return self._largest

    def add(self, nodes: Iterable[Node]) -> range:
        """Adds rows for nodes, in order. Raises ValueError for a name that already exists."""
        first = self.n_rows
        new = list(nodes)
        self._make_room(first + len(new))
        for row, node in enumerate(new, first):
            if node.name in self.row_of:
                raise ValueError(f"node {node.name}: seen twice, want each name once")
            self.row_of[node.name] = Row(row)
            self.nodes.append(node)
            self._write(row, node)
        self._added(first, len(new))
        for key, column in self._labels.items():
            for row, node in enumerate(new, first):
                column.write(row, node.labels.get(key))
        return range(first, first + len(new))

    def add_copies(self, template: Node, names: Sequence[NodeName]) -> range:
        """Adds rows for copies of the template. They differ only by name, and by the label kubernetes.io/hostname if the
        template has it."""
        first, count = self.n_rows, len(names)
        if not count:
            return range(first, first)
        self._make_room(first + count)
        rows = slice(first, first + count)
        self._write(first, template)
        for array in (self.live, self.cordoned, self.taints.ids, self.features.ids):
            array[rows] = array[first]
        self.allocatable[:, rows] = self.allocatable[:, first : first + 1]
        for row, name in enumerate(names, first):
            if name in self.row_of:
                raise ValueError(f"node {name}: seen twice, want each name once")
            self.row_of[name] = Row(row)
        labels, named = template.labels, HOSTNAME in template.labels
        self.nodes.extend(
            structs.replace(template, name=name, labels={**labels, HOSTNAME: name} if named else labels) for name in names
        )
        self._added(first, count)
        for key, column in self._labels.items():
            value = template.labels.get(key)
            if key == HOSTNAME and value is not None:
                column.ids[rows] = [column.number(name) for name in names]
            else:
                column.ids[rows] = ABSENT if value is None else column.number(value)
        return range(first, first + count)

    def _added(self, first: int, count: int) -> None:
        self.n_rows = first + count
        for row in range(first, first + count):
            self._put_images(row, (), self.nodes[row].images)
        self.journal.note_all(np.arange(first, first + count))

    def put(self, row: Row, node: Node) -> bool:
        """Replaces the node of a row; the new node may have another name.

        Returns whether this changed anything that a verdict reads; most updates of nodes are only heartbeats.
        """
        before, self.nodes[row] = self.nodes[row], node
        if before.images != node.images or not self.live[row]:
            self._put_images(row, before.images if self.live[row] else (), node.images)
        if self.live[row] and _judged_fields(before) == _judged_fields(node):
            return False
        if node.name != before.name:
            if self.row_of.get(before.name) == row:
                del self.row_of[before.name]
            self.row_of[node.name] = row
        self._write(row, node)
        self.taints.tidy()
        self.features.tidy()
        for key, column in self._labels.items():
            column.put(row, node.labels.get(key))
        self.journal.note(row)
        return True

    def live_row(self, name: NodeName) -> Row | None:
        """The row of the node; None if there is none that is live."""
        row = self.row_of.get(name)
        return row if row is not None and self.live[row] else None

    def set_live(self, row: Row, *, live: bool) -> None:
        if self.live[row] != live:
            self.live[row] = live
            images = self.nodes[row].images
            self._put_images(row, () if live else images, images if live else ())
            self.journal.note(row)

    def truncate(self, n_rows: int) -> None:
        """Forgets the rows from `n_rows` on."""
        for row, node in enumerate(self.nodes[n_rows:], n_rows):
            del self.row_of[node.name]
            self._put_images(row, node.images if self.live[row] else (), ())
        del self.nodes[n_rows:]
        self.live[n_rows : self.n_rows] = False
        for column in self._columns():
            column.cut(n_rows)
        self.n_rows = n_rows

    def _put_images(self, row: int, before: Iterable[Image], images: Iterable[Image]) -> None:
        """Replaces the images of a row that `image` answers from, if it was read yet."""
        self.images_version += 1
        if self._images is None:
            return
        for name in (name for image in before for name in image.names):
            rows = self._images.get(name, {})
            rows.pop(row, None)
            if not rows:
                self._images.pop(name, None)
        for image in images:
            for name in image.names:
                self._images.setdefault(name, {}).setdefault(row, image.size)

    def label(self, key: str) -> LabelColumn:
        """The column of a label key; the first read builds it (about 0.5 ms for 5,000 nodes). Keys that no node has share one
        column, so any number of them costs nothing."""
        found = self._labels.get(key)
        if found is None:
            if key not in self._label_keys:
                return self._absent
            if len(self._labels) >= _MOST_LABELS:
                del self._labels[next(iter(self._labels))]
            found = self._labels[key] = LabelColumn(self.capacity)
            values = [node.labels.get(key) for node in self.nodes]
            found.ids[: self.n_rows] = [ABSENT if value is None else found.number(value) for value in values]
        return found

    def line(self, resource: str) -> int | None:
        """The resource's index on the first axis of resource columns; None as long as no node offers it: pods may name any
        number of resources. Once a node does, the resource gets the next index."""
        if resource in self.resource:
            return self.resource[resource]
        if resource not in self.offered:
            self._wanted.add(resource)
            return None
        found = self._new_line(resource)
        for row, node in enumerate(self.nodes):
            self.allocatable[found, row] = next((amount for name, amount in node.scalars if name == resource), 0)
        return found

    def _new_line(self, resource: str) -> int:
        found = self.resource[resource] = len(self.resource)
        if found >= len(self.allocatable):
            self.allocatable = np.vstack([self.allocatable, np.zeros_like(self.allocatable)])
        return found

    def image(self, name: str) -> tuple[int, Mask]:
        """An image's size, and which rows have it, shape (capacity,). The first read collects all images.

        Nodes may report different sizes; as in kube-scheduler, the size that the first node reports is used.
        """
        if self._images is None:
            self._images = {}
            for row, node in enumerate(self.nodes):
                self._put_images(row, (), node.images if self.live[row] else ())
        found, present = self._images.get(name), np.zeros(self.capacity, np.bool_)
        if found is None:
            return 0, present
        rows = np.fromiter(found, np.intp, len(found))
        present[rows] = True
        return found[int(rows.min())], present

    def _write(self, row: int, node: Node) -> None:
        self.allocatable[:, row] = 0
        self.allocatable[CPU, row], self.allocatable[MEMORY, row] = node.allocatable
        self._label_keys.update(node.labels)
        for name, amount in node.scalars:
            line = self.resource.get(name)
            if line is None and name in self._wanted:
                self._wanted.discard(name)
                line = self._new_line(name)
            self.offered.add(name)
            if line is not None:
                self.allocatable[line, row] = min(amount, MOST_PODS_ON_NODE) if line == PODS else amount
        self.live[row] = True
        self.cordoned[row] = node.unschedulable
        self.taints.write(row, node.taints)
        self.features.write(row, node.features)

    def _columns(self) -> Iterator[ValueColumn[Any]]:
        yield self.taints
        yield self.features
        yield from self._labels.values()

    def _make_room(self, n_rows: int) -> None:
        if n_rows <= self.capacity:
            return
        capacity = max(n_rows, 2 * self.capacity)
        for name in ("allocatable", "live", "cordoned"):
            setattr(self, name, grown(getattr(self, name), capacity))
        for column in (*self._columns(), self._absent):
            column.grow(capacity)


def _judged_fields(node: Node) -> tuple[object, ...]:
    """The fields of a node that verdicts read."""
    return (
        node.name,
        node.unschedulable,
        node.allocatable,
        node.scalars,
        node.taints,
        node.features,
        node.labels,
        node.csi,
        node.slices,
    )
