"""The nodes and their rows. Once a node is gone, its row is given to a later node.

`NameIndex` looks up the rows of all names of a request at once. The names are bytes within one long text, and each is read as
8-byte words. The words are hashed to a slot of a table, the slot gives a row, and the words and length of that row's name are
compared, so the result is exact. Names that are unknown, or whose slot belongs to another name, are reported as unsure. These
are a few in a hundred; they are looked up one by one. 5,000 names take a third of the time of a dict of bytes.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from slackwater.cluster.journal import ChangeJournal
from slackwater.model.columns import Int64, Mask, Rows
from slackwater.model.ids import NodeName, Row
from slackwater.model.kubernetes_rules import DEFAULT_VERSION, KubernetesVersion
from slackwater.model.ledger import Ledger, NodePolicy
from slackwater.model.objects import Node
from slackwater.model.scheduler_profile import NO_PROFILES, Profiles
from slackwater.snapshot.node_facts import NodeFacts

_Words = npt.NDArray[np.uint64]

_WORD: Final = 8
#: Slots for each name: about one name in thirty shares its slot with another.
_SPARSE: Final = 16
#: An odd number without a pattern in its bits (2**64 divided by the golden ratio): its multiples fill the high bits evenly.
_MIX: Final = np.uint64(0x9E3779B97F4A7C15)
_HALF: Final = np.uint64(32)


class Spans(NamedTuple):
    """Names within a text: where each name begins and how long it is, in bytes; shape (names,)."""

    text: bytes
    starts: Int64
    lengths: Int64


class NameIndex:
    """An index of the names that are known when it is made, with their rows."""

    def __init__(self, row_of: Mapping[bytes, int]) -> None:
        lengths = np.fromiter(map(len, row_of), np.int64, len(row_of))
        known = Spans(b"".join(row_of), np.cumsum(lengths) - lengths, lengths)
        self._n_words = max(1, -(-int(lengths.max(initial=1)) // _WORD))
        self._lengths = lengths
        self._words = self._read(known)
        self._rows = np.fromiter(row_of.values(), np.intp, len(row_of))
        bits = max(1, (_SPARSE * len(row_of)).bit_length())
        self._shift = np.uint64(64 - bits)
        self._at_slot = np.zeros(1 << bits, np.intp)
        self._at_slot[self._slots(lengths, self._words)] = np.arange(len(row_of))

    def rows(self, names: Spans) -> tuple[Rows, Rows]:
        """The row of each name, and the positions of unsure names. The rows of unsure names mean nothing."""
        if not len(self._rows):
            return np.zeros(len(names.starts), np.intp), np.arange(len(names.starts))
        words = self._read(names)
        at = self._at_slot[self._slots(names.lengths, words)]
        sure = self._lengths[at] == names.lengths
        for asked, known in zip(words, self._words, strict=True):
            sure &= known[at] == asked
        return self._rows[at], np.flatnonzero(~sure)

    def _read(self, names: Spans) -> list[_Words]:
        """The words of each name, one array for each word position. The last word overlaps the word before it; a name with
        fewer words than others repeats it. A name shorter than a word has leading zeros."""
        # The padding is in front, so that a word that ends with a short first name begins within the text.
        text = bytes(_WORD) + names.text
        every = np.ndarray((len(text) - _WORD + 1,), "<u8", text, strides=(1,))
        last = names.starts + names.lengths
        words = [every[np.minimum(names.starts + _WORD * (n + 1), last)] for n in range(self._n_words)]
        if names.lengths.min(initial=_WORD) < _WORD:
            unused = (8 * (_WORD - np.clip(names.lengths, 1, _WORD))).astype(np.uint64)
            words = [word >> unused for word in words]
        return words

    def _slots(self, lengths: Int64, words: list[_Words]) -> Rows:
        mixed = lengths.astype(np.uint64)
        for word in words:
            mixed = (mixed ^ word) * _MIX
            mixed ^= mixed >> _HALF
        return ((mixed * _MIX) >> self._shift).astype(np.intp)


#: The row of an unknown node, where rows are looked up by name.
NO_ROW = Row(-1)


class NodeTable:
    """Nodes by name and by row. The table also opens and closes the ledger's rows."""

    def __init__(
        self,
        ledger: Ledger,
        policy: NodePolicy,
        kubernetes: KubernetesVersion = DEFAULT_VERSION,
        profiles: Profiles = NO_PROFILES,
    ) -> None:
        self._ledger = ledger
        self.policy = policy
        self._free: list[Row] = []
        self._vertical: dict[Row, int] = {}
        #: Rows where room appeared.
        self.freed = ChangeJournal[int]()
        #: How often a node became ready.
        self.became_ready = 0
        #: The names of nodes that were added, changed or removed.
        self.journal = ChangeJournal[NodeName]()
        self.row_of: dict[NodeName, Row] = {}
        self._row_of_utf8: dict[bytes, Row] = {}
        self.by_row: list[Node | None] = []
        #: The facts of the nodes that predicates read, by the same rows.
        self.facts = NodeFacts(kubernetes, profiles)
        #: How often room appeared on some row, or what the node of some row accepts changed.
        self.changes = 0
        #: The number in `changes` when one of both happened last on each row. If it grew, a pod that was refused there may be
        #: tried again.
        self.room_version: npt.NDArray[np.int64] = np.zeros(64, np.int64)
        #: Increases whenever other pods may be accepted by some node than before: names, labels, taints or cordons changed.
        self.rules_version = 0
        #: Increases whenever a name gets a row, or loses it.
        self.names_version = 0
        self._compact: dict[str, int] = {}
        self._compact_version = 0
        self._index = NameIndex({})
        self._index_version = 0
        #: Rows where our accounting refuses pods that kube-scheduler's own would accept: Total is below allocatable, or pods
        #: there grow in place.
        self.stricter: Mask = np.zeros(64, np.bool_)

    def get(self, name: NodeName) -> Node | None:
        row = self.row_of.get(name)
        return None if row is None else self.by_row[row]

    def put(self, node: Node) -> bool:
        """Stores the node as it is now. True if room appeared: the node is new, or its Total grew."""
        self.journal.note(node.name)
        row = self.row_of.get(node.name)
        known = None if row is None else self.by_row[row]
        self.became_ready += node.ready and (known is None or not known.ready)
        if row is None:
            row = self._new_row()
            self.row_of[node.name] = row
            self._row_of_utf8[node.name.encode()] = row
            self.names_version += 1
        if row < self.facts.n_rows:
            said_more = self.facts.put(row, node)
        else:
            self.facts.add([node])
            said_more = True
        self.by_row[row] = node
        if known is None or (said_more and _rules(known) != _rules(node)):
            self.rules_version += 1
            self.changes += 1
            self.room_version[row] = self.changes
        return said_more and self._open(row, node)

    def _new_row(self) -> Row:
        if self._free:
            return self._free.pop()
        self.by_row.append(None)
        if len(self.by_row) > len(self.stricter):
            self.stricter = np.concatenate([self.stricter, np.zeros_like(self.stricter)])
            self.room_version = np.concatenate([self.room_version, np.zeros_like(self.room_version)])
        return Row(len(self.by_row) - 1)

    def _open(self, row: Row, node: Node) -> bool:
        self._ledger.columns.grow_to(row + 1)
        before = self._ledger.columns.total[:, row].copy()
        self._ledger.open_row(row, node.allocatable, self.policy)
        self.count_vertical(row, 0)
        grown = bool((self._ledger.columns.total[:, row] > before).any())
        if grown:
            self.room_appeared(row)
        return grown

    def recompute_capacity(self, name: NodeName) -> None:
        """Computes Total and Watermark of the node again from what it reports; only audits call this."""
        row = self.row_of[name]
        node = self.by_row[row]
        if node is not None:
            self._open(row, node)

    def rules_changed(self, name: NodeName) -> None:
        """Notes that the node may accept other pods than before, for a reason that the Node object does not show."""
        self.rules_version += 1
        self.journal.note(name)

    def room_appeared(self, rows: "Row | Rows") -> None:
        """Notes that room appeared on the rows, so that pods refused there may be tried again. `rows` must be distinct."""
        which = (rows,) if isinstance(rows, int) else rows.tolist()
        self.changes += 1
        self.room_version[which[0] if len(which) == 1 else rows] = self.changes
        self.freed.note_all(which)

    def count_vertical(self, row: Row, change: int) -> None:
        """Adds `change` to the number of pods on the row that count by other amounts than in kube-scheduler."""
        self._vertical[row] = self._vertical.get(row, 0) + change
        self.stricter[row] = any(self.policy.system) or self._vertical[row] > 0

    def drop(self, name: NodeName) -> Row | None:
        """Removes a node and closes its row. Returns the row, None if the node was unknown."""
        row = self.row_of.pop(name, None)
        if row is not None:
            self.journal.note(name)
            del self._row_of_utf8[name.encode()]
            self.by_row[row] = None
            self.facts.set_live(row, live=False)
            self.rules_version += 1
            self.names_version += 1
            self.stricter[row] = False
            self._vertical.pop(row, None)
            self._ledger.columns.clear(row)  # whatever was reserved or held there
            self._free.append(row)
        return row

    def set_policy(self, policy: NodePolicy) -> None:
        """Replaces the policy, and computes Total and Watermark of every node again."""
        self.policy = policy
        for row, node in enumerate(self.by_row):
            if node is not None:
                self._open(Row(row), node)
        self.journal.note_all(self.row_of)

    def rows_of(self, names: Sequence[str]) -> Rows:
        """The row of each name, `NO_ROW` for an unknown name; shape (len(names),)."""
        if self._compact_version != self.names_version:
            self._compact, self._compact_version = _compact(self.row_of), self.names_version
        return np.fromiter(map(self._compact.get, names, repeat(-1)), np.intp, len(names))

    def rows_within(self, names: Spans) -> Rows:
        """The row of each name within a text of bytes, `NO_ROW` for an unknown name; shape (len(names.starts),)."""
        if self._index_version != self.names_version:
            self._index, self._index_version = NameIndex(self._row_of_utf8), self.names_version
        rows, unsure = self._index.rows(names)
        for at in unsure.tolist():
            start = names.starts[at]
            rows[at] = self._row_of_utf8.get(names.text[start : start + names.lengths[at]], NO_ROW)
        return rows

    def live_rows(self) -> Rows:
        return np.fromiter(self.row_of.values(), np.intp, len(self.row_of))

    def __iter__(self) -> Iterator[tuple[Row, Node]]:
        return ((Row(row), node) for row, node in enumerate(self.by_row) if node is not None)

    def __len__(self) -> int:
        return len(self.row_of)


def _rules(node: Node) -> tuple[object, ...]:
    return node.unschedulable, node.taints, node.labels


def _compact(row_of: Mapping[NodeName, Row]) -> dict[str, int]:
    """A copy of `row_of` whose entries are adjacent in memory: looking up hundreds of names takes half the time."""
    rows = np.fromiter(row_of.values(), np.intp, len(row_of)).tolist()
    return dict(zip("\n".join(row_of).split("\n"), rows, strict=True)) if rows else {}
