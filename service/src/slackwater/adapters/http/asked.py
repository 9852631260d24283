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
from slackwater.adapters.http.namelist import NameList
from slackwater.cluster.nodes import NodeTable
from slackwater.model.columns import Codes, Int64, Mask, Rows, let_pass
from slackwater.model.reasons import MEANINGS, Reason

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
