"""The CEL types that Kubernetes adds, quantities and semantic versions, and the functions on them.

The CEL runtime passes no values of our own types, so both types are bytes: a quantity is b"q" and its amount in units of 10^-9,
a version is b"v" and its text without build metadata. Marks behind a quantity: "~" if it is whole, but not an integer to
Kubernetes (2000m); "*" if it is a sum or difference. Other equal values have equal bytes.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeGuard

from slackwater.fit.devices.cel_tree import DIFFERENT, PLAIN, SAME
from slackwater_protocol.units import NANO, QuantityError, is_integer_text, parse_nanos

_INT64: Final = range(-(2**63), 2**63)
_UNREDUCED: Final = b"~"
_SUM: Final = b"*"
_SEMVER: Final = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?",
    re.ASCII,
)
_LOOSE: Final = re.compile(r"v?(\d+)(?:\.(\d+))?(?:\.(\d+))?(.*)", re.ASCII)
#: A parsed version: its three numbers, and the parts of its pre-release (None for a release).
_Version = tuple[tuple[int, int, int], tuple[str, ...] | None]


def quantity_value(nanos: int, *, unreduced: bool = False) -> bytes:
    """The CEL value of a quantity. `unreduced`: Kubernetes does not read it as an integer, even if it is whole."""
    return b"q%d%s" % (nanos, _UNREDUCED if unreduced and nanos % NANO == 0 else b"")


def version_value(text: str) -> bytes:
    """The CEL value of a version's text. Raises ValueError if the text is not a semantic version."""
    found = _SEMVER.fullmatch(text)
    if found is None or any(part.isdecimal() and part != str(int(part)) for part in (found[4] or "").split(".")):
        raise ValueError(f"{text!r} is not a semantic version")
    return b"v" + text.partition("+")[0].encode()


def _normalized(text: str, normalize: bool) -> bytes:
    """The CEL value of a version's text. With `normalize`, a missing minor or patch number is added, and leading zeros are
    dropped."""
    found = _LOOSE.fullmatch(text) if normalize else None
    if found is None:
        return version_value(text)
    if found[3] is None and found[4]:
        raise ValueError("short version cannot contain PreRelease/Build meta data")
    numbers = ".".join(str(int(part or 0)) for part in found.groups()[:3])
    return version_value(numbers + found[4])


def _quantity(text: str) -> bytes:
    return quantity_value(parse_nanos(text), unreduced=not is_integer_text(text))


def _nanos(value: bytes) -> int:
    if value[:1] != b"q":
        raise ValueError("want a quantity")
    return int(value[1:].rstrip(_UNREDUCED + _SUM))


def _sum(left: bytes, right: bytes, sign: int) -> bytes:
    """The sum of two quantities, or their difference with sign -1. It is no integer to Kubernetes if a part is none."""
    parts = [(nanos, value) for value in (left, right) if (nanos := _nanos(value))]
    unreduced = any(_UNREDUCED in value or nanos % NANO for nanos, value in parts)
    return quantity_value(_nanos(left) + sign * _nanos(right), unreduced=unreduced) + _SUM


def _whole(amount: int) -> bytes:
    return quantity_value(amount * NANO)


def _version(value: bytes) -> _Version:
    numbers, dash, rest = value[1:].decode().partition("-")
    major, minor, patch = map(int, numbers.split("."))
    return (major, minor, patch), tuple(rest.split(".")) if dash else None


def _compare(left: bytes, right: bytes) -> int:
    """Compares two quantities or two versions: -1, 0 or 1."""
    if left[:1] != right[:1]:
        raise ValueError("a quantity and a version cannot be compared")
    if left[:1] == b"q":
        return _sign(_nanos(left) - _nanos(right))
    (numbers, before), (others, before_others) = _version(left), _version(right)
    if numbers != others:
        return 1 if numbers > others else -1
    if before is None or before_others is None:
        return (before is None) - (before_others is None)
    mine, theirs = list(map(_rank, before)), list(map(_rank, before_others))
    return (mine > theirs) - (mine < theirs)


def _rank(part: str) -> tuple[int, int, str]:
    """The sort key of one part of a version's pre-release: numbers by value, before all texts."""
    return (0, int(part), "") if part.isdecimal() else (1, 0, part)


def _sign(amount: int) -> int:
    return (amount > 0) - (amount < 0)


def _is_whole(value: bytes) -> bool:
    nanos = _nanos(value)
    return nanos % NANO == 0 and nanos // NANO in _INT64 and _UNREDUCED not in value


def _as_integer(value: bytes) -> int:
    if not _is_whole(value):
        raise ValueError("cannot convert value to integer")
    return _nanos(value) // NANO


def _is(read: Callable[..., bytes]) -> Callable[..., bool]:
    def answers(*arguments: Any) -> bool:
        try:
            read(*arguments)
        except (QuantityError, ValueError):
            return False
        return True

    return answers


def _is_ours(value: object) -> TypeGuard[bytes]:
    """Whether a value of CEL is a quantity or a version."""
    return isinstance(value, bytes | bytearray) and value[:1] in (b"q", b"v")


def _same(left: object, right: object) -> int:
    """1 if two values are equal, 0 if not, 2 if the runtime is to compare them.

    As in Kubernetes, a quantity or a version on the left side cannot be compared with values of other types, nor with a sum of
    quantities (its add and sub give pointers, which its equality does not know).
    """
    if not _is_ours(left):
        return 0 if _is_ours(right) else 2
    if not _is_ours(right) or left[:1] != right[:1] or right.endswith(_SUM):
        if right is None:
            return 0
        raise ValueError("no such overload")
    return int(_compare(left, right) == 0)


def _different(left: object, right: object) -> int:
    """As `_same`, for `!=`, which is true of values that cannot be compared."""
    try:
        found = _same(left, right)
    except ValueError:
        return 1
    return found if found > 1 else 1 - found


def _plain(value: object) -> bool:
    if _is_ours(value):
        raise ValueError("no such overload")
    return True


def _number(at: int) -> Callable[[bytes], int]:
    return lambda value: _version(value)[0][at]


@dataclass(frozen=True, slots=True, kw_only=True)
class CelFunction:
    """A function of CEL: its name, the types of its arguments and of its result, and (`member`) whether it is called as a
    method of its first argument."""

    name: str
    takes: tuple[str, ...]
    gives: str
    does: Callable[..., Any]
    member: bool = True


#: Quantities and versions are "bytes" to the runtime. `cel_tree` calls the functions whose names begin with "@".
_ONE: Final = ("bytes",)
_TWO: Final = ("bytes", "bytes")
FUNCTIONS: Final = (
    CelFunction(name="quantity", takes=("str",), gives="bytes", does=_quantity, member=False),
    CelFunction(name="isQuantity", takes=("str",), gives="bool", does=_is(_quantity), member=False),
    CelFunction(name="semver", takes=("str",), gives="bytes", does=version_value, member=False),
    CelFunction(name="semver", takes=("str", "bool"), gives="bytes", does=_normalized, member=False),
    CelFunction(name="isSemver", takes=("str",), gives="bool", does=_is(version_value), member=False),
    CelFunction(name="isSemver", takes=("str", "bool"), gives="bool", does=_is(_normalized), member=False),
    CelFunction(name="compareTo", takes=_TWO, gives="int", does=_compare),
    CelFunction(name="isGreaterThan", takes=_TWO, gives="bool", does=lambda left, right: _compare(left, right) > 0),
    CelFunction(name="isLessThan", takes=_TWO, gives="bool", does=lambda left, right: _compare(left, right) < 0),
    CelFunction(name="sign", takes=_ONE, gives="int", does=lambda value: _sign(_nanos(value)), member=False),
    CelFunction(name="isInteger", takes=_ONE, gives="bool", does=_is_whole),
    CelFunction(name="asInteger", takes=_ONE, gives="int", does=_as_integer),
    CelFunction(name="asApproximateFloat", takes=_ONE, gives="float", does=lambda value: _nanos(value) / NANO),
    CelFunction(name="add", takes=_TWO, gives="bytes", does=lambda left, right: _sum(left, right, 1)),
    CelFunction(name="add", takes=("bytes", "int"), gives="bytes", does=lambda left, right: _sum(left, _whole(right), 1)),
    CelFunction(name="sub", takes=_TWO, gives="bytes", does=lambda left, right: _sum(left, right, -1)),
    CelFunction(name="sub", takes=("bytes", "int"), gives="bytes", does=lambda left, right: _sum(left, _whole(right), -1)),
    CelFunction(name="major", takes=_ONE, gives="int", does=_number(0)),
    CelFunction(name="minor", takes=_ONE, gives="int", does=_number(1)),
    CelFunction(name="patch", takes=_ONE, gives="int", does=_number(2)),
    CelFunction(name=SAME, takes=("any", "any"), gives="int", does=_same, member=False),
    CelFunction(name=DIFFERENT, takes=("any", "any"), gives="int", does=_different, member=False),
    CelFunction(name=PLAIN, takes=("any",), gives="bool", does=_plain, member=False),
)
