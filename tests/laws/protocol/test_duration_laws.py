"""Laws of durations: parsing is exact arithmetic on Go's grammar, and writing is undone by reading."""

import re
from dataclasses import dataclass
from fractions import Fraction

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from slackwater_protocol.durations import Duration, DurationError, format_duration, parse_duration, seconds

LARGEST = 2**63 - 1
SIZES = {"ns": 1, "us": 10**3, "\u00b5s": 10**3, "\u03bcs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
#: Go's grammar, written once more and apart from the code under test.
GRAMMAR = re.compile(r"[+-]?(0|(([0123456789]+\.?[0123456789]*|\.[0123456789]+)(ns|us|\u00b5s|\u03bcs|ms|s|m|h))+)")
ALPHABET = "0123456789.+-hmsnu\u00b5\u03bc"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spelled:
    text: str
    nanos: int


@st.composite
def parts(draw: st.DrawFn) -> Spelled:
    before = draw(st.text("0123456789", max_size=8))
    after = draw(st.none() | st.text("0123456789", max_size=22))
    assume(before or after)
    unit = draw(st.sampled_from(list(SIZES)))
    scaled = int(before + (after or "")) * SIZES[unit]
    return Spelled(text=before + ("" if after is None else f".{after}") + unit, nanos=scaled // 10 ** len(after or ""))


@st.composite
def durations(draw: st.DrawFn) -> Spelled:
    sign = draw(st.sampled_from(["", "+", "-"]))
    drawn = draw(st.lists(parts(), min_size=1, max_size=4))
    nanos = sum(part.nanos for part in drawn)
    return Spelled(text=sign + "".join(part.text for part in drawn), nanos=-nanos if sign == "-" else nanos)


@st.composite
def nearly_durations(draw: st.DrawFn) -> str:
    """A duration with one character put in, taken out or replaced."""
    text = draw(durations()).text
    at = draw(st.integers(0, len(text)))
    put: str = draw(st.sampled_from([*ALPHABET, "", " ", "\n", "d", "\uff11"]))
    return text[:at] + put + text[at + draw(st.integers(0, 1)) :]


@given(duration=durations())
def test_a_duration_is_the_exact_sum_of_its_parts_or_refused_as_out_of_range(duration: Spelled) -> None:
    if -LARGEST - 1 <= duration.nanos <= LARGEST:
        assert parse_duration(duration.text) == duration.nanos
    else:
        with pytest.raises(DurationError, match="out of range"):
            parse_duration(duration.text)


@given(text=st.text([*ALPHABET, " "], max_size=8) | nearly_durations() | st.text(max_size=4))
@example("00")
@example("1h-5m")
@example("-.s")
def test_a_text_is_accepted_exactly_when_the_grammar_has_it(text: str) -> None:
    try:
        parse_duration(text)
        accepted = True
    except DurationError as error:
        accepted = "out of range" in error.why
    assert accepted == (GRAMMAR.fullmatch(text) is not None)


@given(nanos=st.integers(-LARGEST - 1, LARGEST) | st.integers(-(10**10), 10**10))
def test_a_duration_written_reads_back_as_the_same(nanos: int) -> None:
    written = format_duration(Duration(nanos))
    assert GRAMMAR.fullmatch(written)
    assert parse_duration(written) == nanos


@given(nanos=st.integers(-LARGEST - 1, LARGEST))
def test_seconds_are_as_near_as_a_float_can_be(nanos: int) -> None:
    assert seconds(Duration(nanos)) == float(Fraction(nanos, 10**9))
