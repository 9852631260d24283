"""Kubernetes quantities and prices in the configuration file."""

from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, Literal

from pydantic.json_schema import JsonSchemaValue

from slackwater.configuration.kind import Kind, refused
from slackwater_protocol.money import WANTED_PRICE, decimal_text, micros_of
from slackwater_protocol.units import (
    LARGEST,
    Bytes,
    Nanos,
    QuantityError,
    byte_count,
    milli_cpu,
    parse_nanos,
    quantity_text_cpu,
    quantity_text_memory,
)

_QUANTITY_PATTERN: Final = (
    r"^\+?([0-9]+(\.[0-9]*)?|\.[0-9]+)([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]+)?$"  # no key accepts a negative quantity
)


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
