"""Reads and writes durations in Go's form ("1h30m", "300ms"), exactly: as integer nanoseconds in the range of an int64.

They occur in the configuration file, and in annotations such as a pod's scale-up delay. The grammar is that of Go's
`time.ParseDuration`, hence of Kubernetes' `metav1.Duration`. There are two differences from Go. Fractions are cut off below the
nanosecond; Go computes them in floating point and may differ by one nanosecond. A sum outside the range is refused; Go's sum
wraps around at 2^64. Deliberately absent: clocks, and arithmetic on time.
"""

import re
from typing import Final, NewType

from slackwater_protocol.units import UnreadableError

Duration = NewType("Duration", int)  # nanoseconds

MILLISECOND: Final = Duration(10**6)
SECOND: Final = Duration(10**9)
MINUTE: Final = Duration(60 * SECOND)
HOUR: Final = Duration(60 * MINUTE)

#: A text of more characters is refused, since the time to read digits grows with the square of their number.
LONGEST_TEXT: Final = 1000

_LONGEST: Final = 2**63 - 1
# Go reads both ways to write the micro sign: U+00B5 and the Greek letter U+03BC.
_UNITS: Final = {
    "ns": 1,
    "us": 10**3,
    "\u00b5s": 10**3,
    "\u03bcs": 10**3,
    "ms": MILLISECOND,
    "s": SECOND,
    "m": MINUTE,
    "h": HOUR,
}
_PART: Final = re.compile(r"(?=\.?[0-9])([0-9]*)(?:\.([0-9]*))?([^0-9.]*)")
_WANTED: Final = "want numbers with units (ns us ms s m h), as in 1h30m, 1.5s or 300ms"


class DurationError(UnreadableError):
    """A value is no duration, or is out of range."""

    noun = "duration"


def parse_duration(text: str) -> Duration:
    """Reads a Go duration as nanoseconds; it may be negative. Only 0 needs no unit. Raises `DurationError`."""
    if not isinstance(text, str):
        raise DurationError(text, f"a {type(text).__name__}, {_WANTED}")
    if len(text) > LONGEST_TEXT:
        raise DurationError(text, f"{len(text)} characters long, want at most {LONGEST_TEXT}")
    negative = text.startswith("-")
    unsigned = text[1:] if text.startswith(("-", "+")) else text
    magnitude = 0 if unsigned == "0" else _sum_of_parts(unsigned, text)
    # The range of an int64 has one more negative value than positive ones.
    if magnitude > _LONGEST + negative:
        raise DurationError(text, "out of range, want less than 2^63 ns (292 years)")
    return Duration(-magnitude if negative else magnitude)


def parse_non_negative_duration(text: str) -> Duration:
    """Reads a Go duration that must not be negative, such as a timeout or a delay. Raises `DurationError`."""
    duration = parse_duration(text)
    if duration < 0:
        raise DurationError(text, "negative, want 0 or more")
    return duration


def format_duration(duration: Duration) -> str:
    """Writes a duration in Go's form: `1h30m0s`, `1.5s`, `300ms`, `0s`. `parse_duration` reads the same duration from it."""
    sign, left = ("-", -duration) if duration < 0 else ("", duration)
    if left < SECOND:
        return sign + _below_a_second(left)
    minutes, nanos = divmod(left, MINUTE)
    hours, minutes = divmod(minutes, 60)
    head = f"{hours}h{minutes}m" if hours else f"{minutes}m" if minutes else ""
    return f"{sign}{head}{_decimal(nanos, SECOND)}s"


def seconds(duration: Duration) -> float:
    """The duration in seconds, as the nearest float, for APIs that take seconds."""
    return duration / SECOND


def _sum_of_parts(unsigned: str, text: str) -> int:
    total = at = 0
    while at < len(unsigned) or not at:
        part = _PART.match(unsigned, at)
        if part is None:
            raise DurationError(text, _WANTED)
        digits, fraction, unit = part.groups(default="")
        if unit not in _UNITS:
            raise DurationError(text, f"unknown unit {unit!r}, {_WANTED}" if unit else f"a unit is missing, {_WANTED}")
        total += int(digits or 0) * _UNITS[unit] + int(fraction or 0) * _UNITS[unit] // 10 ** len(fraction)
        at = part.end()
    return total


def _below_a_second(nanos: int) -> str:
    if nanos == 0:
        return "0s"
    if nanos < 10**3:
        return f"{nanos}ns"
    if nanos < MILLISECOND:
        return f"{_decimal(nanos, 10**3)}\u00b5s"
    return f"{_decimal(nanos, MILLISECOND)}ms"


def _decimal(nanos: int, unit: int) -> str:
    """`nanos` divided by `unit`, which is a power of ten, as an exact decimal text without trailing zeros."""
    units, rest = divmod(nanos, unit)
    if not rest:
        return str(units)
    places = str(rest).zfill(len(str(unit)) - 1).rstrip("0")
    return f"{units}.{places}"
