"""An index from node names to rows. It looks up all names of a request at once; they are bytes within one long text.

A name is read as 8-byte words. The words are hashed to a slot of a table, the slot gives a row, and the words and length of
that row's name are compared, so the result is exact. Names that are unknown, or whose slot belongs to another name, are
reported as unsure. These are a few in a hundred; the caller looks them up one by one. 5,000 names take a third of the time of a
dict of bytes.

Deliberately absent: where in the text the names are, and what an unknown name means.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from slackwater.model.columns import Int64, Rows

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
