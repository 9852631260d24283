"""The number of pods of each equivalence group on each row, and columns of counts over these pods.

- `Counters`: the placed pods by group and row, and the columns.
- `Counter`: one column.

What a column counts is in `snapshot.counted_pods`.

In: each pod that comes or goes, by group and row. Out: columns, read through `Counters.read`. Invariant: a column that was read
equals a count over all placed pods.
"""

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from operator import attrgetter
from typing import Final, NamedTuple

import numpy as np

from slackwater.model.columns import Int64, Rows
from slackwater.model.selectors import selects
from slackwater.snapshot.counted_pods import Namespaces, PodsMatching, Role, TermCarriers, carried, label_pairs
from slackwater.snapshot.equivalence_groups import KindId, NumberedGroup
from slackwater.snapshot.node_facts import grown

#: The most columns that are kept: 40 kB each at 5,000 nodes.
_MOST_COLUMNS: Final = 1_024
#: The most counters of matching pods that no label's value indexes: each costs a little for every new equivalence group.
_MOST_UNINDEXED: Final = 512
#: The most changes that are kept separately before they are merged into the sorted base.
_MOST_CHANGES: Final = 65_536


class Counter:
    """One column of counts: for each row how many of its pods match (`PodsMatching`), or how many have a certain affinity term
    (`TermCarriers`).

    `column` has a number for each row; read it through `Counters.read`. The column is computed at the first read, from the
    placed pods of the groups it counts. After that each pod that comes or goes updates it: one addition for each counter that
    counts the pod's group. Columns that were not read for long are dropped.
    """

    __slots__ = ("column", "kinds", "number", "of", "version")

    def __init__(self, of: PodsMatching | TermCarriers | None, number: int = 0) -> None:
        #: None for a sum of other counters (`Counters.sums_about`).
        self.of = of
        #: Which counter it is, of those made for terms or for pods that match.
        self.number = number
        #: The equivalence groups that the column counts, with the weight of a pod of each.
        self.kinds: dict[KindId, int] = {}
        self.column: Int64 | None = None
        #: Increases with every change of the column. Another counter for the same pods has other versions.
        self.version = number << 32


_NUMBER: Final = attrgetter("number")
_NO_COUNTERS: Final[Mapping[Counter, int]] = {}


class _ByLabel:
    """Counters indexed by the labels of the pods that they may count."""

    def __init__(self) -> None:
        self._by_pair: dict[tuple[str, str], list[Counter]] = {}
        self._any: list[Counter] = []

    def add(self, counter: Counter, pairs: tuple[tuple[str, str], ...] | None) -> None:
        if pairs is None:
            self._any.append(counter)
        for pair in dict.fromkeys(pairs or ()):
            self._by_pair.setdefault(pair, []).append(counter)

    def about(self, labels: dict[str, str], since: int = 0) -> Iterator[Counter]:
        """The counters that may count a pod with these labels, from the one with number `since` on."""
        yield from _from_number(self._any, since)
        for pair in labels.items():
            yield from _from_number(self._by_pair.get(pair, ()), since)

    def n_about(self, labels: dict[str, str], since: int) -> int:
        """How many counters `about` yields."""
        lists = (self._any, *(self._by_pair.get(pair, ()) for pair in labels.items()))
        return sum(len(each) - bisect_left(each, since, key=_NUMBER) for each in lists)

    def drop_oldest(self) -> Counter | None:
        """Removes the oldest counter that every label concerns, if there are too many of them, and returns it."""
        return self._any.pop(0) if len(self._any) > _MOST_UNINDEXED else None


def _from_number(counters: Sequence[Counter], since: int) -> Iterable[Counter]:
    return islice(counters, bisect_left(counters, since, key=_NUMBER), None) if since else counters


class _About:
    """The counters whose terms select the pods of one equivalence group, by role; and their sums, by role and topology key."""

    __slots__ = ("carriers_version", "counters", "sums", "terms_version")

    def __init__(self) -> None:
        self.counters: dict[Role, list[Counter]] = {"anti": [], "affinity": [], "preferred": []}
        self.terms_version = 0
        self.sums: dict[Role, dict[str, Counter]] = {}
        self.carriers_version = 0


class Counters:
    """The placed pods by equivalence group and row, and the counters over them."""

    def __init__(self, namespaces: Namespaces, capacity: int) -> None:
        self._namespaces = namespaces
        self._capacity = capacity
        self._kinds: list[NumberedGroup] = []
        self._kinds_with: dict[tuple[str, str], list[KindId]] = {}
        self._base = _Base.of(np.zeros(0, np.intp), np.zeros(0, np.intp), np.zeros(0, np.int64), 0)
        self._changes: dict[KindId, dict[int, int]] = {}
        self._n_changes = 0
        self._matching: dict[PodsMatching, Counter] = {}
        self._n_matching = self._n_sums = 0
        self._carrying: dict[TermCarriers, Counter] = {}
        self._matching_about = _ByLabel()
        #: Counters of carriers by the namespace that their terms cover; None: by labels of namespaces.
        self._carrying_about: dict[str | None, _ByLabel] = {}
        self._about: dict[KindId, _About] = {}
        self._counting: dict[KindId, dict[Counter, int]] = {}
        self._with_column: OrderedDict[Counter, None] = OrderedDict()
        #: Increases when an equivalence group brings an affinity term that no group had before.
        self.terms_version = 0
        #: Increases when an equivalence group with affinity terms is new.
        self._carriers_version = 0

    def learn(self, numbered: NumberedGroup) -> None:
        """Registers a new equivalence group with each counter that counts its pods: counters of pods whose labels match
        (`PodsMatching`), and counters of the affinity terms that the group has (`TermCarriers`)."""
        self._kinds.append(numbered)
        for pair in numbered.labels.items():
            self._kinds_with.setdefault(pair, []).append(numbered.id)
        for counter in self._matching_about.about(numbered.labels):
            assert isinstance(counter.of, PodsMatching)
            self._count(counter, numbered, counter.of.weight(numbered))
        terms = carried(numbered)
        self._carriers_version += bool(terms)
        for key, weight in terms.items():
            self._count(self._carrying.get(key) or self._new_carrying(key), numbered, weight)

    def _new_carrying(self, key: TermCarriers) -> Counter:
        counter = self._carrying[key] = Counter(key, self.terms_version)
        reached = key.term.namespaces if key.term.namespace_selector is None else (None,)
        for namespace in reached:
            self._carrying_about.setdefault(namespace, _ByLabel()).add(counter, label_pairs(key.term.selector))
        self.terms_version += 1
        return counter

    def _count(self, counter: Counter, numbered: NumberedGroup, weight: int) -> None:
        if weight and numbered.id not in counter.kinds:
            counter.kinds[numbered.id] = weight
            if counter.column is not None:
                self._counting.setdefault(numbered.id, {})[counter] = weight

    def to_compare(self, numbered: NumberedGroup, matching: Iterable[PodsMatching]) -> int:
        """How many selectors would be evaluated, and counters summed, if the counters of these pods, and all counters about the
        group, were read."""
        unread = (each for each in matching if each not in self._matching)
        found = sum(len(self._ids(each.pairs())) for each in unread)
        known = self._about.get(numbered.id)
        since = 0 if known is None else known.terms_version
        if since != self.terms_version:
            indexes = (self._carrying_about.get(namespace) for namespace in (numbered.kind.namespace, None))
            found += 2 * sum(index.n_about(numbered.labels, since) for index in indexes if index is not None)
        if known is not None and known.carriers_version != self._carriers_version:
            found += sum(map(len, known.counters.values()))
        return found

    def _ids(self, pairs: tuple[tuple[str, str], ...] | None) -> Sequence[KindId]:
        """The groups whose pods may match a selector that requires one of these labels."""
        if pairs is None:
            return [numbered.id for numbered in self._kinds]
        return [kind for pair in pairs for kind in self._kinds_with.get(pair, ())]

    def matching(self, of: PodsMatching) -> Counter:
        """The counter of the pods that `of` describes. All callers that pass an equal `of` share one counter."""
        counter = self._matching.get(of)
        if counter is None:
            self._n_matching += 1
            counter = self._matching[of] = Counter(of, self._n_matching)
            pairs = of.pairs()
            self._matching_about.add(counter, pairs)
            self._drop(self._matching_about.drop_oldest())
            for kind in self._ids(pairs):
                self._count(counter, self._kinds[kind], of.weight(self._kinds[kind]))
        return counter

    def about(self, numbered: NumberedGroup, role: Role) -> list[Counter]:
        """The counters for terms of this role that select the pods of the equivalence group. Each counts the pods that have
        such a term."""
        return self._known_about(numbered).counters[role]

    def sums_about(self, numbered: NumberedGroup, role: Role) -> Mapping[str, Counter]:
        """What the counters of `about` count in sum, by the topology key of their terms: so it does not matter how many terms
        there are."""
        known = self._known_about(numbered)
        if known.carriers_version != self._carriers_version:
            self._forget_sums(known)
            known.carriers_version = self._carriers_version
        if role not in known.sums:
            known.sums[role] = self._sums(known.counters[role])
        return known.sums[role]

    def _sums(self, counters: Iterable[Counter]) -> dict[str, Counter]:
        found: dict[str, Counter] = {}
        for counter in counters:
            assert isinstance(counter.of, TermCarriers)
            if counter.of.term.topology_key not in found:
                self._n_sums += 1
                found[counter.of.term.topology_key] = Counter(None, self._n_sums)
            kinds = found[counter.of.term.topology_key].kinds
            for kind, weight in counter.kinds.items():
                kinds[kind] = kinds.get(kind, 0) + weight
        return found

    def _known_about(self, numbered: NumberedGroup) -> "_About":
        known = self._about.get(numbered.id)
        if known is None or known.terms_version != self.terms_version:
            if known is None and len(self._about) >= _MOST_COLUMNS:
                self._forget_sums(self._about.pop(next(iter(self._about))))
            known = self._about.setdefault(numbered.id, _About())
            self._look_for(numbered, known)
            known.terms_version = self.terms_version
        return known

    def _look_for(self, numbered: NumberedGroup, known: "_About") -> None:
        """Finds the counters that came since the group was last asked about; each term is evaluated once for each group."""
        for namespace in (numbered.kind.namespace, None):
            by_label = self._carrying_about.get(namespace)
            for counter in () if by_label is None else by_label.about(numbered.labels, known.terms_version):
                assert isinstance(counter.of, TermCarriers)
                term = counter.of.term
                if selects(term.selector, numbered.labels) and self._namespaces.reached_by_existing(
                    term, numbered.kind.namespace
                ):
                    known.counters[counter.of.role].append(counter)

    def _forget_sums(self, known: "_About") -> None:
        for by_key in known.sums.values():
            for counter in by_key.values():
                if counter in self._with_column:
                    del self._with_column[counter]
                    self._forget(counter)
        known.sums.clear()

    def read(self, counter: Counter) -> Int64:
        """The column, shape (capacity,). Callers must not keep it: it changes with the next pod."""
        if counter.column is None:
            counter.column = np.zeros(self._capacity, np.int64)
            for kind, weight in counter.kinds.items():
                rows, counts = self._base.of_kind(kind)
                counter.column[rows] += weight * counts  # the rows of one kind are distinct
                for row, change in self._changes.get(kind, {}).items():
                    counter.column[row] += weight * change
                self._counting.setdefault(kind, {})[counter] = weight
            self._with_column[counter] = None
            if len(self._with_column) > _MOST_COLUMNS:
                self._forget(self._with_column.popitem(last=False)[0])
        else:
            self._with_column.move_to_end(counter)
        return counter.column

    def forget_columns(self) -> None:
        """Drops all columns, which the next reads compute again."""
        while self._with_column:
            self._forget(self._with_column.popitem()[0])
        self._about.clear()

    def _drop(self, counter: Counter | None) -> None:
        if counter is not None and isinstance(counter.of, PodsMatching):
            del self._matching[counter.of]
            if counter in self._with_column:
                del self._with_column[counter]
                self._forget(counter)

    def _forget(self, counter: Counter) -> None:
        counter.column = None
        counter.version += 1  # changes are not counted from now on
        for kind in counter.kinds:
            del self._counting[kind][counter]

    def change(self, kind: KindId, row: int, count: int) -> None:
        """Adds `count` pods of the equivalence group to the row; removes pods if `count` is negative."""
        changes = self._changes.setdefault(kind, {})
        changes[row] = changes.get(row, 0) + count
        self._changed(kind, row, count, 1)

    def change_many(self, kind: KindId, rows: Rows, counts: Int64) -> None:
        """Adds `counts[i]` pods of the equivalence group to `rows[i]`, as `change` does; rows are distinct."""
        changes = self._changes.setdefault(kind, {})
        for row, count in zip(rows.tolist(), counts.tolist(), strict=True):
            changes[row] = changes.get(row, 0) + count
        self._changed(kind, rows, counts, len(rows))

    def _changed(self, kind: KindId, rows: int | Rows, counts: int | Int64, n_changes: int) -> None:
        self._n_changes += n_changes
        for counter, weight in self._counting.get(kind, _NO_COUNTERS).items():
            assert counter.column is not None
            counter.column[rows] += weight * counts
            counter.version += 1
        if self._n_changes > _MOST_CHANGES:
            self._merge()

    def load(self, kinds: Rows, rows: Rows, counts: Int64) -> None:
        """Adds the pods of a new snapshot, all at once: `counts[i]` pods of equivalence group `kinds[i]` on `rows[i]`. Pairs of
        group and row are distinct."""
        self._base = _Base.of(kinds, rows, counts, len(self._kinds))

    def rows_of(self, kind: KindId) -> dict[int, int]:
        """The rows that have pods of an equivalence group, with the number of these pods."""
        rows, counts = self._base.of_kind(kind)
        found = dict(zip(rows.tolist(), counts.tolist(), strict=True))
        for row, change in self._changes.get(kind, {}).items():
            found[row] = found.get(row, 0) + change
        return {row: count for row, count in found.items() if count}

    def make_room(self, capacity: int) -> None:
        if capacity > self._capacity:
            self._capacity = capacity
            for counter in self._with_column:
                assert counter.column is not None
                counter.column = grown(counter.column, capacity).astype(np.int64, copy=False)

    def _merge(self) -> None:
        kinds, rows, counts, _ = self._base
        more = [(kind, row, count) for kind, changes in self._changes.items() for row, count in changes.items() if count]
        table = np.array(more, np.int64).reshape(-1, 3)
        kinds, rows, counts = np.r_[kinds, table[:, 0]], np.r_[rows, table[:, 1]], np.r_[counts, table[:, 2]]
        self._base = _Base.of(*summed(kinds, rows, counts), len(self._kinds))
        self._changes, self._n_changes = {}, 0


def summed(kinds: Rows, rows: Rows, counts: Int64) -> tuple[Rows, Rows, Int64]:
    """Each pair of equivalence group and row once, sorted by group, with the sum of its counts; pairs that sum to 0 are left
    out."""
    if not len(rows):
        return kinds, rows, counts
    width = int(rows.max()) + 1
    pairs, where = np.unique(kinds.astype(np.int64) * width + rows, return_inverse=True)
    sums = np.zeros(len(pairs), np.int64)
    np.add.at(sums, where, counts)
    kept = sums != 0
    return (pairs[kept] // width).astype(np.intp), (pairs[kept] % width).astype(np.intp), sums[kept]


class _Base(NamedTuple):
    """Distinct pairs of equivalence group and row with their counts, sorted by group. `starts`: where each group begins."""

    kinds: Rows
    rows: Rows
    counts: Int64
    starts: Rows

    @classmethod
    def of(cls, kinds: Rows, rows: Rows, counts: Int64, n_kinds: int) -> "_Base":
        order = np.argsort(kinds, kind="stable")
        kinds = kinds[order]
        return cls(kinds, rows[order], counts[order], np.searchsorted(kinds, np.arange(n_kinds + 1)))

    def of_kind(self, kind: KindId) -> tuple[Rows, Int64]:
        if kind >= len(self.starts) - 1:
            return self.rows[:0], self.counts[:0]
        part = slice(int(self.starts[kind]), int(self.starts[kind + 1]))
        return self.rows[part], self.counts[part]
