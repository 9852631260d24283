"""The nodes of a filter or prioritize request: decodes them to rows, and encodes the answer from the rows' verdicts or scores.

- `RequestNodesDecoder`, `RequestNodes`: the nodes of a request and the answer.
- `gated_answer`: the answer for a pod that our scheduling gate holds.

Names are copied into the answer exactly as they are in the request. All names are processed at once, as bytes: one Python
object for each of 5,000 names takes longer than the decision. Short lists are decoded name by name, which is faster for them.
"""

from collections.abc import Sequence
from itertools import compress
from typing import Final

import msgspec
import numpy as np

from slackwater.adapters.http import extender_messages
from slackwater.adapters.http.extender_messages import encode
from slackwater.cluster.nodes import NodeTable, Spans
from slackwater.model.columns import OK, Codes, Int64, Mask, Rows
from slackwater.model.reasons import Reason

_QUOTE: Final = ord('"')
_COMMA: Final = ord(",")


class NameList:
    """A JSON list of node names as bytes, with the positions of the names. The first use of `raw` or `spans` parses the list.

    `raw` is the list without white space, escapes or commas in names (a list that has them is rewritten). `spans` are the
    positions of the names in `raw`, without quotes.

    :raises extender_messages.BadRequest: the JSON is not a list of strings; raised when `raw` or `spans` is read.
    """

    def __init__(self, raw: bytes) -> None:
        """Keeps `raw`, which must be valid JSON, without parsing it."""
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
            self._read = _written(extender_messages.names(self._given)) if spans is None else (self._given, spans)
        return self._read

    @classmethod
    def of(cls, names: Sequence[str]) -> "NameList":
        return cls(extender_messages.encode(names))

    def by_code(self, codes: Codes) -> dict[int, bytes]:
        """Groups the names by their code (the number of a `Reason`): returns the names with each code that occurs.

        The names of a code are quoted and joined by commas, as in JSON. `codes` has one code for each name: shape (names,).
        """
        distinct = np.flatnonzero(np.bincount(codes)).tolist()
        if len(distinct) < 2:
            return dict.fromkeys(distinct, self.raw[1:-1])
        raw, spans = self._plainly()
        behind_bracket = np.frombuffer(raw, np.uint8)[1:]
        # The code of each byte: a name's code covers its two quotes and the comma or bracket after it, hence + 3.
        of_byte = np.repeat(codes, spans.lengths + 3)
        return {code: behind_bracket[of_byte == code][:-1].tobytes() for code in distinct}


def _plain(raw: bytes) -> Spans | None:
    """Returns the positions of the strings in a JSON list that is in plain form; None if the list is in another form.

    In plain form the list is ASCII, without escapes, without white space between the strings, and without commas in them.
    """
    characters = np.frombuffer(raw, np.uint8)
    quotes = np.flatnonzero(characters == _QUOTE)
    starts, ends = quotes[::2], quotes[1::2]
    if raw[:2] != b'["' or raw[-2:] != b'"]' or b"\\" in raw or not raw.isascii():
        return None
    # Exactly one character between two strings, which must be a comma.
    if not (starts[1:] - ends[:-1] == 2).all() or np.count_nonzero(characters == _COMMA) != len(starts) - 1:
        return None
    return Spans(raw, starts + 1, ends - starts - 1)


def _written(names: Sequence[bytes]) -> tuple[bytes, Spans]:
    # Commas in names are escaped, so that `","` occurs only between two names. No real node has such a name.
    names = [name.replace(b",", b"\\u002c") for name in names]
    raw = b'["%b"]' % b'","'.join(names) if names else b"[]"
    lengths = np.fromiter(map(len, names), np.int64, len(names))
    return raw, Spans(raw, np.cumsum(lengths + 3) - lengths - 1, lengths)


#: A list of at most this many bytes is decoded name by name.
_FEW_BYTES: Final = 8_000
#: The most short lists that are cached: together about 2 MB, if each has a hundred names.
_SHORT_LISTS: Final = 256
_RESOLVABLE: Final = [reason.resolvable for reason in Reason]
#: The bytes between two names of a list.
_BETWEEN: Final = b'","'
_HOST: Final = b'{"Host":'
#: Two characters for the score, since the highest is 10.
_SCORE: Final = b',"Score": 0}'


class RequestNodes:
    """The nodes of one request: names (`nodeCacheCapable: true`) or whole nodes (false). The answer has the same form.

    `rows` has shape (names,): the row of each name. `items` are the whole nodes, None if the request has names. `texts` are the
    decoded names, None if they were not decoded one by one.
    """

    def __init__(
        self, names: NameList, rows: Rows, *, items: list[msgspec.Raw] | None = None, texts: list[str] | None = None
    ) -> None:
        self.rows = rows
        self._names = names
        self._texts = texts
        self._items = items

    def filtered(self, codes: Codes, texts: Sequence[str]) -> bytes:
        """Encodes filter's answer from a code for each row; every refused node is named with its reason.

        kube-scheduler treats an omitted node as unresolvable (docs/extender.md, T17). `texts` are indexed by code.
        """
        names = self._names.by_code(codes)
        passing = names.pop(Reason.OK, b"")
        failed: list[bytes] = []
        unresolvable: list[bytes] = []
        for code, of_code in names.items():
            text = b":" + extender_messages.encode(texts[code])
            entries = of_code.replace(_BETWEEN, b'"%b,"' % text) + text
            (failed if _RESOLVABLE[code] else unresolvable).append(entries)
        return b'{%b,"FailedNodes":{%b},"FailedAndUnresolvableNodes":{%b},"Error":""}' % (
            b'"Nodes":null,"NodeNames":[%b]' % passing if self._items is None else _whole(self._items, codes == OK),
            b",".join(failed),
            b",".join(unresolvable),
        )

    def only(self, at: int) -> bytes:
        """Encodes filter's answer with one chosen node, at index `at`. Other nodes get no reason: kube-scheduler reads reasons
        only if no node is left."""
        chosen = b'"Nodes":null,"NodeNames":[%b]' % extender_messages.encode(self.name_at(at))
        if self._items is not None:
            chosen = b'"Nodes":{"metadata":{},"items":[%b]},"NodeNames":null' % bytes(self._items[at])
        return b'{%b,"FailedNodes":{},"FailedAndUnresolvableNodes":{},"Error":""}' % chosen

    def name_at(self, at: int) -> str:
        """Returns the name at index `at`."""
        if self._texts is None:
            raw, (_, starts, lengths) = self._names.raw, self._names.spans
            return extender_messages.name(raw[starts[at] - 1 : starts[at] + lengths[at] + 1])
        return self._texts[at]

    def prioritized(self, scores: Int64) -> bytes:
        """Encodes prioritize's answer in the order of the request; `scores` has shape (names,), values from 0 to 10."""
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


class RequestNodesDecoder:
    """Decodes the nodes of requests, and caches the latest short lists of names and the last long one.

    Prioritize often has the same list as the filter call before it. kube-scheduler asks about the nodes round robin, so while
    it finds all nodes feasible, most short lists come again (six in ten of those about 100 of 5,000 nodes).
    """

    def __init__(self, nodes: NodeTable, *, few_bytes: int = _FEW_BYTES) -> None:
        self._nodes = nodes
        self._few_bytes = few_bytes
        self._short: dict[bytes, RequestNodes] = {}
        self._long: tuple[bytes, RequestNodes] | None = None
        self._version = 0

    def of(self, args: extender_messages.PlacingArgs) -> RequestNodes:
        """Decodes the nodes of a request.

        :raises extender_messages.BadRequest: `NodeNames` is not a list of strings, or `Nodes` is not a NodeList.
        """
        if args.NodeNames == extender_messages.NULL:
            items = extender_messages.node_items(args.Nodes)
            names = NameList.of([extender_messages.head(item, "Nodes.items[]").name for item in items])
            return RequestNodes(names, self._nodes.rows_within(names.spans), items=items)
        if self._version != self._nodes.names_version:
            self._short.clear()
            self._long, self._version = None, self._nodes.names_version
        raw = bytes(args.NodeNames)
        if len(raw) <= self._few_bytes:
            return self._of_short(raw)
        if self._long is None or self._long[0] != raw:
            names = NameList(raw)
            self._long = raw, RequestNodes(names, self._nodes.rows_within(names.spans))
        return self._long[1]

    def _of_short(self, raw: bytes) -> RequestNodes:
        found = self._short.pop(raw, None)
        if found is None:
            texts = extender_messages.texts(raw)
            if len(self._short) >= _SHORT_LISTS:
                del self._short[next(iter(self._short))]
            found = RequestNodes(NameList(raw), self._nodes.rows_of(texts), texts=texts)
        self._short[raw] = found  # at the end: the least recently used list is dropped first
        return found


def _whole(items: Sequence[msgspec.Raw], passes: Mask) -> bytes:
    passing = compress(items, passes.tobytes())  # iterating bytes creates no Python objects
    return b'"Nodes":{"metadata":{},"items":[%b]},"NodeNames":null' % b",".join(map(bytes, passing))


_TEXT: Final = encode(Reason.GATED.text)
#: Limit of a node name's length, which is that of a DNS name.
_LONGEST_NAME: Final = 253


def gated_answer(names: msgspec.Raw) -> bytes | None:
    """The answer to filter for a pod that our scheduling gate holds: no node passes, and only the first carries the reason.

    kube-scheduler treats nodes that an answer does not name as unresolvable, so its own preemption considers none of them. It
    asks for a gated pod repeatedly, so the cost of the answer must not grow with the number of nodes. Returns None if the list
    is empty or not in the form that kube-scheduler writes. `names` is the JSON list of node names in the request.
    """
    begin = bytes(memoryview(names)[: 3 + _LONGEST_NAME])
    first, quote, _ = begin[2:].partition(b'"')
    if begin[:2] != b'["' or not quote or b"\\" in first or not first.isascii():
        return None
    entry = b'"%b":%b' % (first, _TEXT)
    return b'{"Nodes":null,"NodeNames":[],"FailedNodes":{},"FailedAndUnresolvableNodes":{%b},"Error":""}' % entry
