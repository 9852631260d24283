"""Numbers, counts and durations in the configuration file, with their bounds."""

import math
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from pydantic.json_schema import JsonSchemaValue

from slackwater.configuration.kind import Kind, refused
from slackwater_protocol.durations import Duration, DurationError, format_duration, parse_duration

_DURATION_PATTERN: Final = r"^\+?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|\u00b5s|\u03bcs|ms|s|m|h))+)$"
_DAYS: Final = re.compile(r"([1-9][0-9]{0,4})d")
#: For each bound of `Limits`: how a number is compared with it, its sign in messages, and its key in a JSON Schema.
_BOUNDS: Final = {
    "above": (operator.gt, ">", "exclusiveMinimum"),
    "at_least": (operator.ge, ">=", "minimum"),
    "below": (operator.lt, "<", "exclusiveMaximum"),
    "at_most": (operator.le, "<=", "maximum"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of a number. `above` and `below` exclude the bound itself, `at_least` and `at_most` include it."""

    above: float | None = None
    below: float | None = None
    at_least: float | None = None
    at_most: float | None = None

    def _given(self) -> list[tuple[Callable[[float, float], bool], str, str, float]]:
        return [(*_BOUNDS[name], bound) for name in _BOUNDS if (bound := getattr(self, name)) is not None]

    def hold(self, number: float) -> bool:
        return all(holds(number, bound) for holds, _, _, bound in self._given())

    def words(self, show_bound: Callable[[float], str] = str) -> str:
        return " and ".join(f"{sign} {show_bound(bound)}" for _, sign, _, bound in self._given())

    def schema(self) -> dict[str, float]:
        return {key: bound for _, _, key, bound in self._given()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Number(Kind):
    """The type of a finite float within `limits`."""

    limits: Limits

    @property
    def wanted(self) -> str:
        return self.limits.words()

    def read(self, value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise refused(f"a number {self.wanted}")
        try:
            number = float(value)
        except OverflowError:
            raise refused(self.wanted) from None
        if not math.isfinite(number) or not self.limits.hold(number):
            raise refused(self.wanted)
        return number

    def schema(self) -> JsonSchemaValue:
        return {"type": "number", **self.limits.schema()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole(Kind):
    """The type of an integer within `limits`. `1.0` is refused."""

    limits: Limits

    @property
    def wanted(self) -> str:
        return f"a whole number {self.limits.words()}"

    def read(self, value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not self.limits.hold(value):
            raise refused(self.wanted)
        return value

    def schema(self) -> JsonSchemaValue:
        return {"type": "integer", **self.limits.schema()}


@dataclass(frozen=True, slots=True)
class CountOrPercent(Kind):
    """A number of things as an integer, or a percentage of them as text such as "10%". A number may be in quotes."""

    @property
    def wanted(self) -> str:
        return 'a whole number >= 0 or a percentage such as "10%", at most 100%'

    def read(self, value: object) -> int | str:
        if isinstance(value, str) and re.fullmatch(r"(100|[0-9]{1,2})%", value):
            return value
        if isinstance(value, str) and re.fullmatch(r"[0-9]{1,7}", value):
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 1_000_000:
            raise refused(self.wanted)
        return value

    def schema(self) -> JsonSchemaValue:
        text = {"type": "string", "pattern": "^((100|[0-9]{1,2})%|[0-9]{1,7})$"}
        return {"anyOf": [text, {"type": "integer", "minimum": 0, "maximum": 1_000_000}]}


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeSpan(Kind):
    """A duration as text such as "5s", read as integer nanoseconds. `limits` are nanoseconds."""

    limits: Limits
    example: str

    @property
    def wanted(self) -> str:
        return f'a duration {self.limits.words(_show_nanoseconds)} such as "{self.example}"'

    def read(self, value: object) -> Duration:
        if value == 0 and not isinstance(value, bool):
            value = "0"  # zero needs no unit, so it needs no quotes either
        if not isinstance(value, str):
            raise refused(self.wanted)
        try:
            duration = parse_duration(value)
        except DurationError:
            days = _DAYS.fullmatch(value)
            hours = f"; {value} is {24 * int(days[1])}h" if days else ""
            raise refused(f"{self.wanted}{hours}") from None
        if not self.limits.hold(duration):
            raise refused(self.wanted)
        return duration

    def write(self, value: Any) -> object:
        return format_duration(value)

    def schema(self) -> JsonSchemaValue:
        text: JsonSchemaValue = {"type": "string", "pattern": _DURATION_PATTERN}
        return {"anyOf": [text, {"type": "integer", "const": 0}]} if self.limits.hold(0) else text


def _show_nanoseconds(bound: float) -> str:
    return format_duration(Duration(int(bound))) if bound else "0"
