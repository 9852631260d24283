"""What the nodes themselves say, row by row: allocatable, labels, taints, cordons, images.

Labels become columns of small integers, one for each key that somebody reads, built when it is first read: a selector is
then a few vector comparisons, and a topology domain is a value's number. Deliberately absent: anything about pods.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from slackwater.model.columns import Int64, Mask
from slackwater.model.ids import NodeName, Row
from slackwater.model.objects import Node, Taint
from slackwater.model.selectors import whole_number
from slackwater.simulate.rowjournal import RowJournal

Int32 = npt.NDArray[np.int32]

HOSTNAME: Final = "kubernetes.io/hostname"
#: Where a node has no such label; also the row where there is no such node.
ABSENT: Final = -1
#: The first resources of every picture, in the order of the first axis of its resource columns.
FIRST_RESOURCES: Final = ("cpu", "memory", "pods", "ephemeral-storage")
CPU, MEMORY, PODS, EPHEMERAL_STORAGE = range(4)

_FIRST_CAPACITY: Final = 64


def grown(array: npt.NDArray[np.generic], capacity: int, fill: int = 0) -> npt.NDArray[np.generic]:
    """The array with its last axis made `capacity` long."""
    new = np.full((*array.shape[:-1], capacity), fill, array.dtype)
    new[..., : array.shape[-1]] = array
    return new


class LabelColumn:
    """One label key over all rows. `ids[row]` is the number of the node's value, ABSENT where it has none."""

    __slots__ = ("_number_of", "_numbers", "ids", "values", "version")

    def __init__(self, capacity: int) -> None:
        self.ids: Int32 = np.full(capacity, ABSENT, np.int32)
        self.values: list[str] = []
        #: Moves with every change of a row.
        self.version = 0
        self._number_of: dict[str, int] = {}
        self._numbers: tuple[int, Int64, Mask] | None = None

    def number(self, value: str) -> int:
        """The number of a value, given to it now where it is new."""
        found = self._number_of.get(value)
        if found is None:
            found = self._number_of[value] = len(self.values)
            self.values.append(value)
        return found

    def known(self, value: str) -> int:
        return self._number_of.get(value, ABSENT)

    def put(self, row: int, value: str | None) -> None:
        number = ABSENT if value is None else self.number(value)
        if self.ids[row] != number:
            self.ids[row] = number
            self.version += 1

    def as_numbers(self) -> tuple[Int64, Mask]:
        """The values read as whole numbers, and which of them are: for Gt and Lt. Shape (len(values),)."""
        if self._numbers is None or self._numbers[0] != len(self.values):
            read = [whole_number(value) for value in self.values]
            numbers = np.array([0 if n is None else n for n in read], np.int64)
            self._numbers = (len(read), numbers, np.array([n is not None for n in read], np.bool_))
        return self._numbers[1], self._numbers[2]

    def copy(self) -> "LabelColumn":
        new = LabelColumn(0)
        new.ids, new.values, new.version = self.ids.copy(), list(self.values), self.version
        new._number_of = dict(self._number_of)
        return new


class NodeFacts:
    """Nodes by row. Rows are given in order and never move; a closed one stays, not `live`."""

    def __init__(self) -> None:
        self.n_rows = 0
        self.nodes: list[Node] = []
        self.row_of: dict[NodeName, Row] = {}
        #: Resources by name, and their line in `allocatable`.
        self.resource: dict[str, int] = {name: line for line, name in enumerate(FIRST_RESOURCES)}
        self.allocatable: Int64 = np.zeros((len(FIRST_RESOURCES), _FIRST_CAPACITY), np.int64)
        self.live: Mask = np.zeros(_FIRST_CAPACITY, np.bool_)
        self.cordoned: Mask = np.zeros(_FIRST_CAPACITY, np.bool_)
        #: Which of `taint_sets`.
        self.taints: Int32 = np.zeros(_FIRST_CAPACITY, np.int32)
        self.taint_sets: list[tuple[Taint, ...]] = [()]
        self._taint_set_of: dict[tuple[Taint, ...], int] = {(): 0}
        #: Which of `feature_sets`.
        self.features: Int32 = np.zeros(_FIRST_CAPACITY, np.int32)
        self.feature_sets: list[tuple[str, ...]] = [()]
        self._feature_set_of: dict[tuple[str, ...], int] = {(): 0}
        self._labels: dict[str, LabelColumn] = {}
        self._images: tuple[int, dict[str, tuple[int, list[int]]]] | None = None
        #: Rows whose facts changed.
        self.journal = RowJournal()

    @property
    def capacity(self) -> int:
        return len(self.live)

    def add(self, nodes: Iterable[Node]) -> range:
        """New rows for nodes, in order. Raises ValueError for a name that is there already."""
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
                column.ids[row] = ABSENT if (value := node.labels.get(key)) is None else column.number(value)
        return range(first, first + len(new))

    def add_copies(self, template: Node, names: Sequence[NodeName]) -> range:
        """New rows that differ from the template by name alone (and by the label kubernetes.io/hostname, where it has one)."""
        first, count = self.n_rows, len(names)
        if not count:
            return range(first, first)
        self._make_room(first + count)
        rows = slice(first, first + count)
        self._write(first, template)
        for array in (self.live, self.cordoned, self.taints, self.features):
            array[rows] = array[first]
        self.allocatable[:, rows] = self.allocatable[:, first : first + 1]
        for row, name in enumerate(names, first):
            if name in self.row_of:
                raise ValueError(f"node {name}: seen twice, want each name once")
            self.row_of[name] = Row(row)
        self.nodes.extend(_copies(template, names))
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
        for column in self._labels.values():
            column.version += 1
        self.journal.note_all(np.arange(first, first + count))

    def put(self, row: Row, node: Node) -> None:
        """The node of a row as it is now. Another name is another node: the row is given to it."""
        before = self.nodes[row].name
        if node.name != before:
            if self.row_of.get(before) == row:
                del self.row_of[before]
            self.row_of[node.name] = row
        self.nodes[row] = node
        self._write(row, node)
        for key, column in self._labels.items():
            column.put(row, node.labels.get(key))
        self.journal.note(row)

    def set_live(self, row: Row, *, live: bool) -> None:
        if self.live[row] != live:
            self.live[row] = live
            for column in self._labels.values():
                column.version += 1
            self.journal.note(row)

    def truncate(self, n_rows: int) -> None:
        """Forgets the rows from `n_rows` on."""
        for node in self.nodes[n_rows:]:
            del self.row_of[node.name]
        del self.nodes[n_rows:]
        self.live[n_rows : self.n_rows] = False
        for column in self._labels.values():
            column.ids[n_rows : self.n_rows] = ABSENT
            column.version += 1
        self.n_rows = n_rows

    def label(self, key: str) -> LabelColumn:
        """The column of a label key; the first reader pays for building it (about 0.5 ms for 5,000 nodes)."""
        found = self._labels.get(key)
        if found is None:
            found = self._labels[key] = LabelColumn(self.capacity)
            values = [node.labels.get(key) for node in self.nodes]
            found.ids[: self.n_rows] = [ABSENT if value is None else found.number(value) for value in values]
        return found

    def line(self, resource: str) -> int:
        """The line of a resource in resource columns, a new one where nobody has named it yet."""
        found = self.resource.get(resource)
        if found is None:
            found = self.resource[resource] = len(self.resource)
            self.allocatable = np.vstack([self.allocatable, np.zeros((1, self.capacity), np.int64)])
        return found

    def image(self, name: str) -> tuple[int, Mask]:
        """An image's size, and which rows have it, shape (capacity,). The first reader pays for finding all images.

        Nodes may report it differently; as in kube-scheduler the first node's word counts.
        """
        if self._images is None or self._images[0] != self.journal.position:
            self._images = (self.journal.position, self._images_by_name())
        size, rows = self._images[1].get(name, (0, []))
        present = np.zeros(self.capacity, np.bool_)
        present[rows] = True
        return size, present

    def _images_by_name(self) -> dict[str, tuple[int, list[int]]]:
        found: dict[str, tuple[int, list[int]]] = {}
        for row, node in enumerate(self.nodes):
            for image in node.images if self.live[row] else ():
                for name in image.names:
                    found.setdefault(name, (image.size, []))[1].append(row)
        return found

    def copy(self) -> "NodeFacts":
        new = NodeFacts()
        new.n_rows, new.nodes, new.row_of = self.n_rows, list(self.nodes), dict(self.row_of)
        new.resource = dict(self.resource)
        for name in ("allocatable", "live", "cordoned", "taints", "features"):
            setattr(new, name, getattr(self, name).copy())
        new.taint_sets, new._taint_set_of = list(self.taint_sets), dict(self._taint_set_of)
        new.feature_sets, new._feature_set_of = list(self.feature_sets), dict(self._feature_set_of)
        new._labels = {key: column.copy() for key, column in self._labels.items()}
        new.journal = self.journal.copy()
        return new

    def _write(self, row: int, node: Node) -> None:
        self.allocatable[:, row] = 0
        self.allocatable[CPU, row], self.allocatable[MEMORY, row] = node.allocatable
        for name, amount in node.scalars:
            line = self.line(name)  # a new one replaces the array
            self.allocatable[line, row] = amount
        self.live[row] = True
        self.cordoned[row] = node.unschedulable
        self.taints[row] = _numbered(node.taints, self.taint_sets, self._taint_set_of)
        self.features[row] = _numbered(node.features, self.feature_sets, self._feature_set_of)

    def _make_room(self, n_rows: int) -> None:
        if n_rows <= self.capacity:
            return
        capacity = max(n_rows, 2 * self.capacity)
        for name in ("allocatable", "live", "cordoned", "taints", "features"):
            setattr(self, name, grown(getattr(self, name), capacity))
        for column in self._labels.values():
            column.ids = grown(column.ids, capacity, ABSENT).astype(np.int32, copy=False)


def _copies(template: Node, names: Sequence[NodeName]) -> list[Node]:
    if HOSTNAME not in template.labels:
        return [replace(template, name=name) for name in names]
    return [replace(template, name=name, labels={**template.labels, HOSTNAME: name}) for name in names]


def _numbered(value: tuple[object, ...], known: list, number_of: dict) -> int:  # type: ignore[type-arg]
    number: int | None = number_of.get(value)
    if number is None:
        number = number_of[value] = len(known)
        known.append(value)
    return number
