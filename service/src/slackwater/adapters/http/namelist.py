"""The names of a question as they stand in its JSON: where each is, and any of them written down again.

Nothing is decoded and no name becomes a Python object: names go into an answer as the bytes that came. That is so where the
list was written plainly (no white space between its strings, no escape in them), as Go does; any other is written again first.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from slackwater.adapters.http import wire
from slackwater.cluster.name_index import Spans
from slackwater.model.columns import Codes

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
