"""Exact quantities: Kubernetes quantity text in, integers out, and back.

What flows through: the values of `resources.requests`, `status.allocatable`, agents' bodies and our configuration.
Everything is an exact integer; deliberately absent are floats as results, and anything outside the standard library,
so that the pure floors may import this module.

The grammar is the one documented at `resource.Quantity` of k8s.io/apimachinery: an optional sign, digits with an
optional fraction, then nothing, one of `n u m k M G T P E Ki Mi Gi Ti Pi Ei`, or `e`/`E` with a signed integer.
As documented there, what is finer than a nano is rounded up, away from zero, and what is larger in magnitude than
2^63-1 is capped there. The same cap holds for the milli-CPU and for the bytes, so that every result fits an int64.

Kubernetes 1.36.3 agrees wherever its own arithmetic keeps to its documentation. It does not, and we do, when
- no digit is there at all (`"+"`, `"."`, `"m"`): it reads most of these as 0; here they are refused;
- the result does not fit an int64: its `Value()` of `"100E"` is 0, its `MilliValue()` of `"8Ei"` is -1000;
- a negative number has to be rounded: its `Value()` of `"-0.1n"` is 1, of `"-6.0001Ki"` -6143;
- an exponent needs more than 32 bits: `"1e4294967296"` is 1 there.
"""

import re
from functools import lru_cache
from math import isfinite
from typing import Final, NewType

MilliCpu = NewType("MilliCpu", int)  # thousandths of a CPU
Bytes = NewType("Bytes", int)
Nanos = NewType("Nanos", int)  # 10^-9 of whatever the quantity counts

#: The largest magnitude of a quantity, and of each integer that is made of one.
LARGEST: Final = 2**63 - 1
#: A longer text is refused: no quantity needs it, and reading digits costs their number squared.
LONGEST_TEXT: Final = 1000

_NANO: Final = 10**9
_NANOS_PER_MILLI: Final = 10**6
_LARGEST_NANOS: Final = LARGEST * _NANO

#: Distinct texts that each cache keeps: a cluster of 5,000 nodes and 150,000 pods has a few thousand.
_CACHED_TEXTS: Final = 16_384
#: So many digits always fit an int64: the short ways need no cap below this.
_SAFE_DIGITS: Final = 15
#: 1 x 10^28 nanos is above the cap; an amount of `LONGEST_TEXT` digits x 1 Ei has fewer digits than this.
_LARGEST_POWER: Final = 28
_MOST_DIGITS: Final = LONGEST_TEXT + 20

_QUANTITY: Final = re.compile(
    r"([+-]?)(?=\.?[0-9])([0-9]*)(?:\.([0-9]*))?"  # sign, digits, fraction: at least one digit somewhere
    r"(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?[0-9]+))?"  # suffix or exponent
)
_DECIMAL_POWERS: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY_SIZES: Final = {name: 1024**power for power, name in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), start=1)}
_WANTED: Final = (
    f"a number with one of the suffixes {' '.join(filter(None, (*_DECIMAL_POWERS, *_BINARY_SIZES)))} or an exponent (e3)"
)


class QuantityError(ValueError):
    """A value that is no quantity: `value` is what was seen, `why` what is wrong with it."""

    def __init__(self, value: object, why: str) -> None:
        super().__init__(value, why)
        self.value = value
        self.why = why

    def __str__(self) -> str:
        seen = repr(self.value)
        return f"quantity {seen if len(seen) <= 80 else seen[:76] + ' ...'}: {self.why}"


def parse_nanos(value: str | int | float) -> Nanos:
    """The quantity in units of 10^-9, rounded away from zero, at most `LARGEST` units in magnitude.

    A JSON number counts like its text; a float stands for the shortest text that reads back as it.
    Raises `QuantityError`. Strict like Kubernetes' `ParseQuantity`: see `quantity_from_json` for blanks and null.
    """
    if isinstance(value, str):
        return _nanos_of_text(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return Nanos(_capped(value) * _NANO)
    if isinstance(value, float):
        if not isfinite(value):
            raise QuantityError(value, "not finite")
        return _nanos_of_text(repr(value))
    raise QuantityError(value, f"a {type(value).__name__}, want a string or a number")


def milli_cpu(value: str | int | float) -> MilliCpu:
    """The quantity in thousandths, rounded away from zero: what `MilliValue()` documents. Raises `QuantityError`."""
    if isinstance(value, str):
        return _milli_of_text(value)
    return MilliCpu(_capped(_away_from_zero(parse_nanos(value), _NANOS_PER_MILLI)))


def byte_count(value: str | int | float) -> Bytes:
    """The quantity in bytes, rounded away from zero: what `Value()` documents. Raises `QuantityError`."""
    if isinstance(value, str):
        return _whole_of_text(value)
    return Bytes(_away_from_zero(parse_nanos(value), _NANO))


def whole(value: str | int | float) -> int:
    """The quantity in whole units of anything else (pods, devices), rounded away from zero. Raises `QuantityError`."""
    return byte_count(value)


def quantity_from_json(value: object) -> str | int | float:
    """What a decoded JSON document holds where a quantity is expected, ready for the functions above.

    Kubernetes' decoder reads null as 0 and ignores blanks around the text. Raises `QuantityError` for the rest.
    """
    if value is None:
        return 0
    if isinstance(value, str):
        return value.strip(" ")
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    raise QuantityError(value, f"a {type(value).__name__}, want a string or a number")


def format_milli_cpu(amount: MilliCpu) -> int | str:
    """The agent protocol's form: whole CPUs as an integer, else text in milli-CPU. Raises `QuantityError` below 0."""
    if amount < 0:
        raise QuantityError(amount, "negative milli-CPU, want 0 or more")
    cpus, rest = divmod(amount, 1000)
    return f"{amount}m" if rest else cpus


def format_bytes(amount: Bytes) -> int | str:
    """The agent protocol's form: below 1024 an integer, else canonical binary text. Raises `QuantityError` below 0."""
    if amount < 0:
        raise QuantityError(amount, "negative bytes, want 0 or more")
    return amount if amount < 1024 else _shortened(amount, 1024, ("", *_BINARY_SIZES))


def quantity_text_cpu(amount: MilliCpu) -> str:
    """Canonical text, as kubectl prints it: `250m`, `2`, `1500m`, `1k`."""
    return _shortened(amount, 1000, ("m", "", "k", "M", "G", "T", "P", "E"))


def quantity_text_memory(amount: Bytes) -> str:
    """Canonical text, as kubectl prints it: `1536Mi`, `1025`. Kubernetes' rule makes it decimal below 1 Ki: `1k`."""
    if -1024 < amount < 1024:
        return _shortened(amount, 1000, ("", "k"))
    return _shortened(amount, 1024, ("", *_BINARY_SIZES))


def _shortened(amount: int, step: int, suffixes: tuple[str, ...]) -> str:
    if amount == 0:
        return "0"
    for suffix in suffixes[:-1]:
        if amount % step:
            return f"{amount}{suffix}"
        amount //= step
    return f"{amount}{suffixes[-1]}"


def _away_from_zero(amount: int, step: int) -> int:
    return -(-amount // step) if amount > 0 else amount // step


def _capped(amount: int) -> int:
    return max(-LARGEST, min(LARGEST, amount))


@lru_cache(maxsize=_CACHED_TEXTS)
def _milli_of_text(text: str) -> MilliCpu:
    digits, unit = (text[:-1], 1) if text.endswith("m") else (text, 1000)
    if _is_short_digits(digits):
        return MilliCpu(int(digits) * unit)
    return MilliCpu(_capped(_away_from_zero(_read(text), _NANOS_PER_MILLI)))


@lru_cache(maxsize=_CACHED_TEXTS)
def _whole_of_text(text: str) -> Bytes:
    size = _BINARY_SIZES.get(text[-2:])
    digits = text[:-2] if size else text
    if _is_short_digits(digits):
        return Bytes(min(int(digits) * (size or 1), LARGEST))
    return Bytes(_away_from_zero(_read(text), _NANO))


@lru_cache(maxsize=_CACHED_TEXTS)
def _nanos_of_text(text: str) -> Nanos:
    return _read(text)


def _is_short_digits(text: str) -> bool:
    # isdecimal alone also takes the digits of other scripts, which Kubernetes refuses.
    return len(text) <= _SAFE_DIGITS and text.isdecimal() and text.isascii()


def _read(text: str) -> Nanos:
    if len(text) > LONGEST_TEXT:
        raise QuantityError(text, f"{len(text)} characters long, want at most {LONGEST_TEXT}")
    parts = _QUANTITY.fullmatch(text)
    if parts is None:
        raise QuantityError(text, f"want {_WANTED}")
    sign, digits, fraction, suffix, exponent = parts.groups(default="")
    power = int(exponent or 0) + _DECIMAL_POWERS.get(suffix, 0) - len(fraction)
    nanos = _times_power_of_ten(int(digits + fraction) * _BINARY_SIZES.get(suffix, 1), power + 9)
    return Nanos(-nanos if sign == "-" else nanos)


def _times_power_of_ten(amount: int, power: int) -> int:
    """`amount` x 10^power for an amount >= 0, rounded up, at most the cap.

    Exponents come from outside, so the power itself is only computed where the result is neither capped nor 1.
    """
    if amount == 0:
        return 0
    if power >= _LARGEST_POWER:
        return _LARGEST_NANOS
    if power < -_MOST_DIGITS:
        return 1
    factor: int = 10 ** abs(power)
    return min(amount * factor if power >= 0 else -(-amount // factor), _LARGEST_NANOS)
