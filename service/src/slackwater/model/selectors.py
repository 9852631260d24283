"""Requirements on labels, as label selectors and node selector terms state them, and whether labels meet them.

A selector is a tuple of requirements, all of which must hold: an empty one selects everything. None selects nothing
(the API's absent selector).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Requirement:
    """`key` operator `values`, as in node selector terms: In, NotIn, Exists, DoesNotExist, Gt, Lt."""

    key: str
    operator: str
    values: tuple[str, ...]


Selector = tuple[Requirement, ...] | None

EVERYTHING: Final[tuple[Requirement, ...]] = ()

_MOST_DIGITS: Final = 20
_LARGEST: Final = 2**63 - 1


def whole_number(text: str | None) -> int | None:
    """The text as a signed 64-bit integer, as Gt and Lt read it; None where it is not one (Go's strconv.ParseInt)."""
    if not text or len(text) > _MOST_DIGITS:
        return None
    digits = text[1:] if text[0] in "+-" else text
    if not (digits.isascii() and digits.isdecimal()):
        return None
    number = int(text)
    return number if -_LARGEST - 1 <= number <= _LARGEST else None


def holds(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    """Whether the labels meet one requirement. Gt and Lt compare integers, and do not hold for values that are not integers."""
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value is not None and value in requirement.values
        case "NotIn":
            return value is None or value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return _compares(requirement, value)
        case _:
            return False


def _compares(requirement: Requirement, value: str | None) -> bool:
    seen, bound = whole_number(value), whole_number(requirement.values[0] if requirement.values else None)
    if seen is None or bound is None:
        return False
    return seen > bound if requirement.operator == "Gt" else seen < bound


def selects(selector: Selector, labels: Mapping[str, str]) -> bool:
    return selector is not None and all(holds(requirement, labels) for requirement in selector)
