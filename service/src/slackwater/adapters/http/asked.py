"""The nodes of a filter or prioritize question: from the wire to rows, and the verdicts of the rows back onto the wire.

Names go into the answer as they stand in the question. Everything is done for all nodes at once, on bytes: one Python object
for each of 5,000 names takes longer than deciding. For a hundred of them it is the other way round.
"""

from collections.abc import Sequence
from itertools import compress
from typing import Final

import msgspec
import numpy as np

from slackwater.adapters.http import wire
from slackwater.cluster.name_index import Spans
from slackwater.cluster.nodes import NodeTable
from slackwater.model.columns import Codes, Int64, Mask, Rows, let_pass
from slackwater.model.reasons import MEANINGS, Reason

_QUOTE: Final = ord('"')
_COMMA: Final = ord(",")


class NameList:
    """`raw` is the list, plainly written. `spans` say where its strings are, without their quotes. Both are read when they are
    asked for first; BadRequest is raised then, where it is no list of strings."""

    def __init__(self, raw: bytes) -> None:
        """`raw` is valid JSON."""
        self._given = raw
        self._read: tuple[bytes, Spans] | None = None

    @property
    def raw(self) -> bytes:
        return self._plainly()[0]

    @property
    def spans(self) -> Spans:
        return self._plainly()[1]

    def _plainly(self) -> tuple[bytes, Spans]:
        if self._read is None:
            spans = _plain(self._given)
            self._read = _written(wire.names(self._given)) if spans is None else (self._given, spans)
        return self._read

    @classmethod
    def of(cls, names: Sequence[str]) -> "NameList":
        return cls(wire.encode(names))

    def by_code(self, codes: Codes) -> dict[int, bytes]:
        """The names of each code that occurs, in their quotes, with commas between them; shape of `codes`: (names,)."""
        distinct = np.flatnonzero(np.bincount(codes)).tolist()
        if len(distinct) < 2:
            return dict.fromkeys(distinct, self.raw[1:-1])
        raw, spans = self._plainly()
        behind_bracket = np.frombuffer(raw, np.uint8)[1:]
        # A name's code also for its quotes, and for the comma or the bracket behind it.
        of_byte = np.repeat(codes, spans.lengths + 3)
        return {code: behind_bracket[of_byte == code][:-1].tobytes() for code in distinct}


def _plain(raw: bytes) -> Spans | None:
    """Where the strings are; None unless they are ASCII, without white space between them, and without escapes and commas."""
    characters = np.frombuffer(raw, np.uint8)
    quotes = np.flatnonzero(characters == _QUOTE)
    starts, ends = quotes[::2], quotes[1::2]
    if raw[:2] != b'["' or raw[-2:] != b'"]' or b"\\" in raw or not raw.isascii():
        return None
    if not (starts[1:] - ends[:-1] == 2).all():  # what has room there is a comma: braces would need more
        return None
    if np.count_nonzero(characters == _COMMA) != len(starts) - 1:
        return None
    return Spans(raw, starts + 1, ends - starts - 1)


def _written(names: Sequence[bytes]) -> tuple[bytes, Spans]:
    # No node is called so, and what is between two names stays unlike anything within one.
    names = [name.replace(b",", b"\\u002c") for name in names]
    raw = b'["%b"]' % b'","'.join(names) if names else b"[]"
    lengths = np.fromiter(map(len, names), np.int64, len(names))
    return raw, Spans(raw, np.cumsum(lengths + 3) - lengths - 1, lengths)


#: So short a list is read name by name.
_FEW_BYTES: Final = 8_000
_RESOLVABLE: Final = [MEANINGS[reason].resolvable for reason in Reason]
#: What is between two names of a list.
_BETWEEN: Final = b'","'
_HOST: Final = b'{"Host":'
#: With room for 10, the highest score.
_SCORE: Final = b',"Score": 0}'


class Asked:
    """The nodes of one question, by name or whole; both are answered in kind (`nodeCacheCapable` true and false).

    `rows` has shape (names,): the row of each name. `items` are the nodes where they came whole, `texts` the names where they
    were read one by one.
    """

    def __init__(
        self, names: NameList, rows: Rows, *, items: list[msgspec.Raw] | None = None, texts: list[str] | None = None
    ) -> None:
        self.rows = rows
        self._names = names
        self._texts = texts
        self._items = items

    def filtered(self, codes: Codes, texts: Sequence[str]) -> bytes:
        """The answer to filter: every node that does not pass is named with its reason (trap T17)."""
        names = self._names.by_code(codes)
        passing = names.pop(Reason.OK, b"")
        failed: list[bytes] = []
        unresolvable: list[bytes] = []
        for code, of_code in names.items():
            text = b":" + wire.encode(texts[code])
            entries = of_code.replace(_BETWEEN, b'"%b,"' % text) + text
            (failed if _RESOLVABLE[code] else unresolvable).append(entries)
        return b'{%b,"FailedNodes":{%b},"FailedAndUnresolvableNodes":{%b},"Error":""}' % (
            b'"Nodes":null,"NodeNames":[%b]' % passing if self._items is None else _whole(self._items, let_pass(codes)),
            b",".join(failed),
            b",".join(unresolvable),
        )

    def only(self, at: int) -> bytes:
        """The answer to filter where one node was chosen. Why not the others is not said: kube-scheduler reads that only where
        none is left."""
        chosen = b'"Nodes":null,"NodeNames":[%b]' % wire.encode(self.name_at(at))
        if self._items is not None:
            chosen = b'"Nodes":{"metadata":{},"items":[%b]},"NodeNames":null' % bytes(self._items[at])
        return b'{%b,"FailedNodes":{},"FailedAndUnresolvableNodes":{},"Error":""}' % chosen

    def name_at(self, at: int) -> str:
        """One of the names."""
        if self._texts is None:
            raw, (_, starts, lengths) = self._names.raw, self._names.spans
            return wire.name(raw[starts[at] - 1 : starts[at] + lengths[at] + 1])
        return self._texts[at]

    def prioritized(self, scores: Int64) -> bytes:
        """The answer to prioritize, in the order of the question; scores are from 0 to 10."""
        if not len(scores):
            return b"[]"
        entries = self._names.raw[1:-1].replace(_BETWEEN, b'"%b,%b"' % (_SCORE, _HOST))
        answer = bytearray(b"[%b%b%b]" % (_HOST, entries, _SCORE))
        commas = np.cumsum(self._names.spans.lengths + len(b'%b""%b,' % (_HOST, _SCORE)))
        written = np.frombuffer(answer, np.uint8)
        tens, ones = np.divmod(scores.astype(np.uint8), np.uint8(10))
        written[commas - 2] += ones
        written[commas - 3] += tens * np.uint8(ord("1") - ord(" "))
        return bytes(answer)


class AskedNodes:
    """Reads questions. Prioritize follows filter with the names that passed, mostly all: the last ones are kept read."""

    def __init__(self, nodes: NodeTable, *, few_bytes: int = _FEW_BYTES) -> None:
        self._nodes = nodes
        self._few_bytes = few_bytes
        self._last: Asked | None = None
        self._last_raw = b""
        self._last_version = 0

    def of(self, args: wire.PlacingArgs) -> Asked:
        """:raises BadRequest: what stands for the nodes is no list of names, or of nodes."""
        if args.NodeNames == wire.NULL:
            items = wire.node_items(args.Nodes)
            names = NameList.of([wire.head(item, "Nodes.items[]").name for item in items])
            return Asked(names, self._nodes.rows_within(names.spans), items=items)
        raw = bytes(args.NodeNames)
        if self._last is None or raw != self._last_raw or self._last_version != self._nodes.names_version:
            names, texts = NameList(raw), None
            if len(raw) <= self._few_bytes:
                texts = wire.texts(raw)
                rows = self._nodes.rows_of(texts)
            else:
                rows = self._nodes.rows_within(names.spans)
            self._last = Asked(names, rows, texts=texts)
            self._last_raw, self._last_version = raw, self._nodes.names_version
        return self._last


def _whole(items: Sequence[msgspec.Raw], passes: Mask) -> bytes:
    passing = compress(items, passes.tobytes())  # iterating bytes makes no Python object for each
    return b'"Nodes":{"metadata":{},"items":[%b]},"NodeNames":null' % b",".join(map(bytes, passing))
