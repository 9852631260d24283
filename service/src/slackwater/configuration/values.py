"""The types of values in a configuration file: how a value is read, and what is refused.

Each type is one pydantic annotation with its limits, its text for "wanted" and its JSON Schema, so that the validation, the
message and the schema agree. Durations become integer nanoseconds, CPU integer milliCPU, memory integer bytes, prices
integer micros, other quantities integer nanos; only shares, factors and weights are floats. `Section` is the base class of the
file's sections.
"""

import ipaddress
import math
import operator
import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, GetJsonSchemaHandler, Strict
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import PydanticCustomError, core_schema

from slackwater.configuration.text_tree import Ambiguous
from slackwater_protocol.durations import HOUR, SECOND, Duration, DurationError, format_duration, parse_duration
from slackwater_protocol.money import WANTED_PRICE, decimal_text, micros_of
from slackwater_protocol.units import (
    LARGEST,
    Bytes,
    MilliCpu,
    Nanos,
    QuantityError,
    byte_count,
    milli_cpu,
    parse_nanos,
    quantity_text_cpu,
    quantity_text_memory,
)

#: The type of the errors raised here; `app.settings.reading` reads `wanted` from their context.
REFUSED: Final = "refused"

_DURATION_PATTERN: Final = r"^\+?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|\u00b5s|\u03bcs|ms|s|m|h))+)$"
_QUANTITY_PATTERN: Final = (
    r"^\+?([0-9]+(\.[0-9]*)?|\.[0-9]+)([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]+)?$"  # no key accepts a negative quantity
)
_LABEL_VALUE: Final = r"[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?"
_DNS_LABEL: Final = r"[a-z0-9]([a-z0-9-]*[a-z0-9])?"
_HOST_NAME: Final = re.compile(rf"{_DNS_LABEL}(\.{_DNS_LABEL})*", re.IGNORECASE)
_LONGEST_HOST_NAME: Final = 253


def refused(wanted: str) -> PydanticCustomError:
    return PydanticCustomError(REFUSED, "want {wanted}", {"wanted": wanted})


class Kind(ABC):
    """A pydantic annotation for one type of value.

    `read` converts a value of the file to its Python value, or raises the error of `refused`; `write` is the reverse.
    """

    @property
    @abstractmethod
    def wanted(self) -> str: ...

    @abstractmethod
    def read(self, value: object) -> object: ...

    def write(self, value: Any) -> object:
        return value

    @abstractmethod
    def schema(self) -> JsonSchemaValue: ...

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(
            self.read, serialization=core_schema.plain_serializer_function_ser_schema(self.write, when_used="json")
        )

    def __get_pydantic_json_schema__(self, core: core_schema.CoreSchema, handler: GetJsonSchemaHandler) -> Any:
        return self.schema()


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
            raise refused(self.wanted) from None
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount(Kind):
    """A Kubernetes quantity, read as an integer: milliCPU, bytes, or nanos of the resource's unit."""

    of: Literal["cpu", "memory", "any"]
    above_zero: bool
    example: str

    @property
    def wanted(self) -> str:
        return f'a Kubernetes quantity {">" if self.above_zero else ">="} 0 such as "{self.example}"'

    def read(self, value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise refused(self.wanted)
        try:
            nanos = parse_nanos(value)
            amount = {"cpu": milli_cpu, "memory": byte_count, "any": parse_nanos}[self.of](value)
        except QuantityError:
            raise refused(self.wanted) from None
        if nanos < 0 or (nanos == 0 and self.above_zero):
            raise refused(self.wanted)
        # The parser caps at this value, so the true one is not known.
        if amount >= (LARGEST * 10**9 if self.of == "any" else LARGEST):
            raise refused(f"{self.wanted}, less than 2^63 units")
        return amount

    def write(self, value: Any) -> object:
        if self.of == "cpu":
            return quantity_text_cpu(value)
        return quantity_text_memory(value) if self.of == "memory" else quantity_text(value)

    def schema(self) -> JsonSchemaValue:
        return {"anyOf": [{"type": "string", "pattern": _QUANTITY_PATTERN}, {"type": "number", "minimum": 0}]}


@dataclass(frozen=True, slots=True)
class DecimalPrice(Kind):
    """A price as a decimal number, read as integer micros. A number of the file is read like its text."""

    @property
    def wanted(self) -> str:
        return WANTED_PRICE

    def read(self, value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise refused(self.wanted)
        try:
            return micros_of(f"{Decimal(repr(value)):f}" if isinstance(value, float) else str(value))
        except ValueError:  # also of an integer of thousands of digits, which CPython does not write
            raise refused(self.wanted) from None

    def write(self, value: Any) -> object:
        return decimal_text(value)

    def schema(self) -> JsonSchemaValue:
        return {"anyOf": [{"type": "string", "pattern": r"^[0-9]{1,10}(\.[0-9]{1,30})?$"}, {"type": "number", "minimum": 0}]}


def quantity_text(nanos: Nanos) -> str:
    """The exact quantity for >= 0 nanos, with the largest suffix that keeps the number whole."""
    if nanos % 10**9 == 0:
        return quantity_text_memory(Bytes(nanos // 10**9))
    for suffix, size in (("m", 10**6), ("u", 10**3)):
        if nanos % size == 0:
            return f"{nanos // size}{suffix}"
    return f"{nanos}n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Name(Kind):
    """Text that matches a pattern. `words` describes the pattern in messages."""

    pattern: str
    longest: int
    words: str

    @property
    def wanted(self) -> str:
        return self.words

    def read(self, value: object) -> str:
        if isinstance(value, Ambiguous):
            raise refused(f'"{value.text}" with quotes where text is meant')
        if not isinstance(value, str) or re.fullmatch(self.pattern, value) is None:
            raise refused(self.wanted)
        if len(value) > self.longest:
            raise refused(f"at most {self.longest} characters")
        return value

    def schema(self) -> JsonSchemaValue:
        return {"type": "string", "pattern": f"^{self.pattern}$", "maxLength": self.longest}


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """A host and a port. `host` has no brackets, even if it is an IPv6 address."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host.lower() == "localhost"

    @property
    def is_every_interface(self) -> bool:
        try:
            return ipaddress.ip_address(self.host).is_unspecified
        except ValueError:
            return False


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPort(Kind):
    """An address as text, `host:port`, with an IPv6 address in brackets."""

    @property
    def wanted(self) -> str:
        return 'host:port such as "127.0.0.1:10297" or "[::1]:10297", port 1 to 65535'

    def read(self, value: object) -> Address:
        parts = re.fullmatch(r"(?:\[([^\[\]]+)\]|([^\[\]:]+)):([0-9]{1,5})", value) if isinstance(value, str) else None
        if parts is None:
            raise refused(self.wanted)
        bracketed, plain, port = parts.groups()
        known = _is_address(bracketed, 6) if bracketed else (_is_address(plain, 4) or _is_host_name(plain))
        if not known or not 0 < int(port) < 65536:
            raise refused(self.wanted)
        return Address(host=bracketed or plain, port=int(port))

    def write(self, value: Any) -> object:
        return str(value)

    def schema(self) -> JsonSchemaValue:
        return {"type": "string", "pattern": r"^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+):[0-9]{1,5}$"}


def _is_address(host: str, version: int) -> bool:
    try:
        return ipaddress.ip_address(host).version == version
    except ValueError:
        return False


def _is_host_name(host: str) -> bool:
    # A name of digits and dots is a mistyped IPv4 address.
    is_name = len(host) <= _LONGEST_HOST_NAME and _HOST_NAME.fullmatch(host) is not None
    return is_name and re.fullmatch(r"[0-9.]+", host) is None


Share = Annotated[float, Number(limits=Limits(above=0, at_most=1))]
Fraction = Annotated[float, Number(limits=Limits(at_least=0, at_most=1))]
Weight = Annotated[float, Number(limits=Limits(at_least=0))]
Percent = Annotated[float, Number(limits=Limits(above=0, below=100))]
Count = Annotated[int, Whole(limits=Limits(at_least=0, at_most=1_000_000))]
Few = Annotated[int, Whole(limits=Limits(at_least=0, at_most=100))]
Width = Annotated[int, Whole(limits=Limits(at_least=1, at_most=1_000_000))]
Priority = Annotated[int, Whole(limits=Limits(at_least=-(2**31), at_most=2**31 - 1))]
Multiplier = Annotated[int, Whole(limits=Limits(at_least=1, at_most=100))]
Timeout = Annotated[Duration, TimeSpan(limits=Limits(above=0), example="5s")]
CallTimeout = Annotated[Duration, TimeSpan(limits=Limits(at_least=SECOND, at_most=30 * SECOND), example="5s")]
Delay = Annotated[Duration, TimeSpan(limits=Limits(at_least=0), example="10m")]
Cpu = Annotated[MilliCpu, Amount(of="cpu", above_zero=False, example="250m")]
Memory = Annotated[Bytes, Amount(of="memory", above_zero=False, example="1Gi")]
SomeCpu = Annotated[MilliCpu, Amount(of="cpu", above_zero=True, example="250m")]
SomeMemory = Annotated[Bytes, Amount(of="memory", above_zero=True, example="1Gi")]
Quantity = Annotated[Nanos, Amount(of="any", above_zero=False, example="110")]
Money = Annotated[int, DecimalPrice()]
ListenAddress = Annotated[Address, HostPort()]
Switch = Annotated[bool, Strict()]
SchedulerName = Annotated[
    str,
    Name(
        pattern=rf"{_DNS_LABEL}(\.{_DNS_LABEL})*",
        longest=63,
        words="lower-case letters, digits, '-' and '.', letters or digits at both ends",
    ),
]
ObjectName = Annotated[
    str,
    Name(pattern=rf"{_DNS_LABEL}(\.{_DNS_LABEL})*", longest=253, words="a name of lower-case letters, digits, '-' and '.'"),
]
ZoneName = Annotated[str, Name(pattern=r"[A-Za-z0-9_+/-]+", longest=64, words="a time zone such as Europe/Berlin")]
CronSchedule = Annotated[
    str, Name(pattern=r"[@-Za-z0-9*/,# -]+", longest=256, words='a schedule of cron such as "0 9 * * mon-fri"')
]
#: cron counts in minutes.
WindowTime = Annotated[Duration, TimeSpan(limits=Limits(at_least=60 * SECOND, at_most=8784 * HOUR), example="8h")]
NodeShare = Annotated[int | str, CountOrPercent()]
Currency = Annotated[str, Name(pattern=r"[A-Z]{3}", longest=3, words="a currency's code of three capital letters such as USD")]
Namespace = Annotated[str, Name(pattern=_DNS_LABEL, longest=63, words="a namespace: lower-case letters, digits and '-'")]
ProviderGroup = Annotated[str, Name(pattern=r"[^\x00-\x20]+", longest=512, words="a provider's name of a group")]
GroupName = Annotated[str, Name(pattern=_LABEL_VALUE, longest=63, words="a label value: letters, digits, '-', '_' and '.'")]
#: Marks the settings that name a file: whoever may suppose a configuration over HTTP may not choose what the service reads.
FILE_PATH: Final = Name(pattern=r"[^\x00-\x1f]+", longest=4096, words="the path of a file")
FilePath = Annotated[str, FILE_PATH]
ServerName = Annotated[str, Name(pattern=r"[A-Za-z0-9.:-]+", longest=253, words="a DNS name or IP address")]
NamePrefix = Annotated[str, Name(pattern=r"[^\x00-\x1f]*", longest=253, words="the beginning of a name")]
AwsRegion = Annotated[str, Name(pattern=r"[a-z]{2,}(-[a-z0-9]+)+", longest=63, words="a region of AWS such as eu-west-1")]
WebAddress = Annotated[str, Name(pattern=r"https?://[^\x00-\x20]+", longest=1024, words="a URL that begins with https://")]
TagKey = Annotated[str, Name(pattern=r"[^\x00-\x1f]+", longest=128, words="the key of a tag of AWS")]
TagValue = Annotated[str, Name(pattern=r"[^\x00-\x1f]*", longest=256, words="the value of a tag of AWS")]
Audience = Annotated[str, Name(pattern=r"[^\x00-\x20]+", longest=253, words="an audience without blanks")]
ServiceAccount = Annotated[
    str,
    Name(
        pattern=rf"{_DNS_LABEL}/{_DNS_LABEL}(\.{_DNS_LABEL})*",
        longest=317,
        words="namespace/name of a ServiceAccount",
    ),
]
LabelText = Annotated[
    str, Name(pattern=rf"({_LABEL_VALUE})?", longest=63, words="a label value (text: quote numbers and true/false)")
]
QualifiedName = Annotated[
    str,
    Name(
        pattern=rf"({_DNS_LABEL}(\.{_DNS_LABEL})*/)?{_LABEL_VALUE}",
        longest=317,
        words="a qualified name such as dedicated or example.com/dedicated",
    ),
]
TaintPattern = Annotated[
    str,
    Name(
        pattern=r"[A-Za-z0-9*]([A-Za-z0-9*._/-]*[A-Za-z0-9*])?",
        longest=317,
        words="a taint's key such as example.com/booting, in which * stands for any text",
    ),
]


class Section(BaseModel):
    """A section of the configuration file. Python code uses field names; a file must use the camelCase keys.

    A field's docstring becomes its description in docs and schema (`app.settings.reading.schema`).
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
    )
