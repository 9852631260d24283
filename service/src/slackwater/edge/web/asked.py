"""The nodes of a filter or prioritize question: from the wire to rows, and the verdicts of the rows back onto the wire.

Names stay as they stand between their quotes in the question, and go into the answer as they are. Everything is done for all
nodes at once, in C: formatting 5,000 entries one by one takes longer than deciding.
"""

from collections.abc import Sequence
from itertools import compress
from typing import Final

import msgspec
import numpy as np

from slackwater.edge.web import wire
from slackwater.model.columns import Codes, Int64, Mask, Rows
from slackwater.model.reasons import MEANINGS, Reason
from slackwater.world.nodes import NodeTable

_RESOLVABLE: Final = [MEANINGS[reason].resolvable for reason in Reason]


class Asked:
    """The nodes of one question, by name or whole; both are answered in kind (`nodeCacheCapable` true and false).

    `rows` has shape (len(names),): the row of each name.
    """

    def __init__(self, names: list[bytes], rows: Rows, raw_names: bytes | None, items: list[msgspec.Raw]) -> None:
        self.names = names
        self.rows = rows
        self._raw_names = raw_names
        self._items = items

    def filtered(self, codes: Codes, texts: Sequence[str]) -> bytes:
        """The answer to filter: every node that does not pass is named with its reason (trap T17)."""
        failed: list[bytes] = []
        unresolvable: list[bytes] = []
        for code in _distinct(codes):
            if code != Reason.OK:
                text = wire.encode(texts[code])
                names = b'":%b,"' % text
                entries = b'"%b":%b' % (names.join(compress(self.names, _mask(codes == code))), text)
                (failed if _RESOLVABLE[code] else unresolvable).append(entries)
        return b'{%b,"FailedNodes":{%b},"FailedAndUnresolvableNodes":{%b},"Error":""}' % (
            self._passing(codes),
            b",".join(failed),
            b",".join(unresolvable),
        )

    def prioritized(self, scores: Int64) -> bytes:
        """The answer to prioritize, score by score: kube-scheduler looks hosts up by name, their order says nothing."""
        entries = []
        for score in _distinct(scores):
            hosts = (b'","Score":%d},{"Host":"' % score).join(compress(self.names, _mask(scores == score)))
            entries.append(b'{"Host":"%b","Score":%d}' % (hosts, score))
        return b"[%b]" % b",".join(entries)

    def _passing(self, codes: Codes) -> bytes:
        mask = _mask(codes == Reason.OK)
        if self._raw_names is None:
            return b'"Nodes":{"metadata":{},"items":[%b]},"NodeNames":null' % b",".join(map(bytes, compress(self._items, mask)))
        if not codes.any():  # the names go back as they came
            return b'"Nodes":null,"NodeNames":%b' % self._raw_names
        passing = b'","'.join(compress(self.names, mask))
        return b'"Nodes":null,"NodeNames":%b' % (b'["%b"]' % passing if passing else b"[]")


class AskedNodes:
    """Reads questions. Prioritize follows filter with the names that passed, mostly all: the last ones are kept read."""

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._last: Asked | None = None
        self._last_raw = b""
        self._last_version = 0

    def of(self, args: wire.PlacingArgs) -> Asked:
        """:raises BadRequest: what stands for the nodes is no list of names, or of nodes."""
        if args.NodeNames == wire.NULL:
            items = wire.node_items(args.Nodes)
            names = [wire.encode(wire.head(item, "Nodes.items[]").name)[1:-1] for item in items]
            return Asked(names, self._nodes.rows_of_utf8(names), None, items)
        raw = bytes(args.NodeNames)
        if self._last is None or raw != self._last_raw or self._last_version != self._nodes.names_version:
            names = wire.names(raw)
            self._last = Asked(names, self._nodes.rows_of_utf8(names), raw, [])
            self._last_raw, self._last_version = raw, self._nodes.names_version
        return self._last


def _distinct(values: Codes | Int64) -> list[int]:
    """The distinct values, ascending; small integers."""
    return np.flatnonzero(np.bincount(values)).tolist()


def _mask(selected: Mask) -> bytes:
    """Selectors for `compress`: iterating bytes makes no Python object for each row."""
    return selected.tobytes()
