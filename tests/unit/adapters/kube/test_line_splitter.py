"""Lines come out whole, however the bytes were cut."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.adapters.kube.client import LineSplitter
from slackwater.adapters.kube.errors import MalformedAnswer

lines = st.lists(st.binary(max_size=20).map(lambda raw: raw.replace(b"\n", b".")), max_size=12)


@given(lines=lines, cuts=st.lists(st.integers(0, 200), max_size=20), end=st.binary(max_size=5))
def test_lines_are_the_same_wherever_the_stream_is_cut(lines: list[bytes], cuts: list[int], end: bytes) -> None:
    unfinished = end.replace(b"\n", b".")
    stream = b"".join(line + b"\n" for line in lines) + unfinished
    edges = sorted({0, len(stream), *(min(cut, len(stream)) for cut in cuts)})
    splitter = LineSplitter()
    got = [line for first, last in pairwise(edges) for line in splitter.feed(stream[first:last])]
    assert got == [line for line in lines if line]


def test_a_line_longer_than_the_bound_is_refused_before_it_fills_the_memory() -> None:
    splitter = LineSplitter(longest=100)
    assert splitter.feed(b"x" * 100) == []
    with pytest.raises(MalformedAnswer, match="101 bytes and no end of it, want at most 100"):
        splitter.feed(b"x")


def test_a_long_line_in_tiny_pieces_takes_time_linear_in_its_length() -> None:
    splitter = LineSplitter()
    for _ in range(200_000):  # quadratic work would be 20 GB of copying
        splitter.feed(b"x" * 10)
    assert splitter.feed(b"\n") == [b"x" * 2_000_000]
