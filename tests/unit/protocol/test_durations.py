"""Durations by example, as Go's time package reads and writes them."""

import pickle

import pytest

from slackwater_protocol.durations import (
    HOUR,
    LONGEST_TEXT,
    MILLISECOND,
    MINUTE,
    SECOND,
    Duration,
    DurationError,
    format_duration,
    parse_duration,
    parse_non_negative_duration,
    seconds,
)

LARGEST = 2**63 - 1


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("0", 0),
        ("+0", 0),
        ("-0", 0),
        ("0s", 0),
        ("300ms", 300 * MILLISECOND),
        ("1h30m", 90 * MINUTE),
        ("1.5h", 90 * MINUTE),
        ("-1.5h", -90 * MINUTE),
        ("+5s", 5 * SECOND),
        ("1.s", SECOND),
        (".5s", 500 * MILLISECOND),
        ("10s10s", 20 * SECOND),
        ("1s1h", HOUR + SECOND),
        ("3us", 3000),
        ("3\u00b5s", 3000),
        ("3\u03bcs", 3000),
        ("0.9ns", 0),
        ("-0.9ns", 0),
        ("0.3333333333333333333h", 1_199_999_999_999),
        ("2562047h47m16.854775807s", LARGEST),
        ("-2562047h47m16.854775808s", -LARGEST - 1),
    ],
)
def test_go_durations_become_nanoseconds(text: str, want: int) -> None:
    assert parse_duration(text) == want


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "-", "+", ".", ".s", "-.s", "s", "ms", "--1s", "1h-5m", "1.2.3s", "1e3s", "1_0s", "\uff11s"),
        *("1 s", " 1s", "1s ", "1s\n"),
        *("1", "00", "1.5", "5m3", "1d", "1S", "1H", "1\u00b5"),
    ],
)
def test_texts_outside_the_grammar_are_refused_with_the_text_and_what_is_wanted(text: str) -> None:
    with pytest.raises(DurationError, match="want numbers with units") as refused:
        parse_duration(text)
    assert refused.value.value == text
    assert str(refused.value).startswith(f"duration {text!r}: ")


@pytest.mark.parametrize(("text", "want"), [("1d", "unknown unit 'd'"), ("90", "a unit is missing")])
def test_the_error_says_what_is_wrong_with_the_unit(text: str, want: str) -> None:
    with pytest.raises(DurationError, match=want):
        parse_duration(text)


@pytest.mark.parametrize(
    "text",
    [
        *("9223372036854775808ns", "-9223372036854775809ns", "2562048h", "99999999999999999999999999s"),
        "9223372036854775808ns9223372036854775808ns",
    ],
)
def test_what_passes_an_int64_of_nanoseconds_is_refused(text: str) -> None:
    with pytest.raises(DurationError, match="out of range"):
        parse_duration(text)


def test_the_longest_text_is_read_and_a_longer_one_refused() -> None:
    assert parse_duration("1." + "0" * (LONGEST_TEXT - 3) + "s") == SECOND
    with pytest.raises(DurationError, match="1001 characters long, want at most 1000") as refused:
        parse_duration("0" * LONGEST_TEXT + "s")
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize("value", [10, 1.5, None, True])
def test_only_strings_are_durations(value: object) -> None:
    with pytest.raises(DurationError, match=f"a {type(value).__name__}, want numbers with units"):
        parse_duration(value)  # type: ignore[arg-type]


def test_negative_durations_are_refused_where_time_cannot_run_backwards() -> None:
    assert parse_non_negative_duration("10m") == 10 * MINUTE
    assert parse_non_negative_duration("-0s") == 0
    with pytest.raises(DurationError, match="duration '-1s': negative, want 0 or more"):
        parse_non_negative_duration("-1s")


@pytest.mark.parametrize(
    ("duration", "want"),
    [
        (0, "0s"),
        (1, "1ns"),
        (999, "999ns"),
        (1000, "1\u00b5s"),
        (1100, "1.1\u00b5s"),
        (MILLISECOND, "1ms"),
        (2_200_000, "2.2ms"),
        (300 * MILLISECOND, "300ms"),
        (SECOND, "1s"),
        (3_300_000_000, "3.3s"),
        (MINUTE, "1m0s"),
        (10 * SECOND, "10s"),
        (65 * SECOND, "1m5s"),
        (10 * MINUTE, "10m0s"),
        (90 * MINUTE, "1h30m0s"),
        (5 * HOUR + SECOND + 1, "5h0m1.000000001s"),
        (-3 * SECOND, "-3s"),
        (LARGEST, "2562047h47m16.854775807s"),
        (-LARGEST - 1, "-2562047h47m16.854775808s"),
    ],
)
def test_durations_are_written_in_gos_form(duration: int, want: str) -> None:
    assert format_duration(Duration(duration)) == want


def test_seconds_are_the_nearest_float() -> None:
    assert seconds(parse_duration("1.5s")) == 1.5
    assert seconds(parse_duration("-100ms")) == -0.1
    assert seconds(Duration(1)) == 1e-9


def test_the_error_survives_a_process_boundary() -> None:
    error = pickle.loads(pickle.dumps(DurationError("1d", "no")))
    assert (type(error), error.value, error.why, str(error)) == (DurationError, "1d", "no", "duration '1d': no")
