"""Reads Kubernetes quantities as integers, and writes integers as quantities; exactly.

The quantities are those in `resources.requests`, `status.allocatable`, agents' messages and our configuration. Deliberately
absent: floats as results, and imports from outside the standard library, so that the pure layers may import this module.

The grammar is the one documented at `resource.Quantity` of k8s.io/apimachinery: an optional sign; digits with an optional
fraction; then nothing, one of `n u m k M G T P E Ki Mi Gi Ti Pi Ei`, or `e`/`E` with a signed integer. As documented there,
digits below 10^-9 are rounded up, away from zero, and a magnitude above 2^63-1 becomes 2^63-1. The same cap holds for results
in milliCPU and in bytes, so that every result fits an int64. Texts may be of any length, as in Kubernetes, since anybody may
write them into an object; the time to read one grows with its length, not with the square.

Kubernetes 1.36.3 gives the same results wherever its code follows its documentation. These are the differences:
- a text without any digit (`"+"`, `"."`, `"m"`): Kubernetes reads most of these as 0; here they are refused;
- a result that does not fit an int64: Kubernetes' `Value()` of `"100E"` is 0, its `MilliValue()` of `"8Ei"` is -1000;
- a negative number that has to be rounded: Kubernetes' `Value()` of `"-0.1n"` is 1, of `"-6.0001Ki"` -6143;
- an exponent beyond an int64: Kubernetes refuses it.

As in Kubernetes, only the lowest 32 bits of an exponent count, so `"1e4294967296"` is 1.
"""

import re
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, ROUND_UP, Context
from functools import lru_cache
from math import isfinite
from typing import ClassVar, Final, NewType

MilliCpu = NewType("MilliCpu", int)  # thousandths of a CPU
Bytes = NewType("Bytes", int)
Nanos = NewType("Nanos", int)  # 10^-9 of whatever the quantity counts

#: The largest magnitude of a quantity, and of every result.
LARGEST: Final = 2**63 - 1
_INT64_DIGITS: Final = 19
#: A whole unit, and a thousandth, in units of 10^-9.
NANO: Final = 10**9
NANOS_PER_MILLI: Final = 10**6
_LARGEST_NANOS: Final = LARGEST * NANO

#: The number of different texts in each cache. A cluster of 5,000 nodes and 150,000 pods has a few thousand. Longer texts than
#: `_CACHED_LENGTH` are not cached.
_CACHED_TEXTS: Final = 16_384
_CACHED_LENGTH: Final = 64
#: The most digits that Kubernetes' fast parser reads, without and with a binary suffix (which counts 3 digits for 2^10).
_FAST_DIGITS: Final = 18
_FAST_BINARY_DIGITS: Final = 14
#: Exact for any number of digits. An exponent beyond the context's becomes infinite, or the smallest number above 0. `decimal`
#: is used because `int` refuses texts of more than 4,300 digits, and takes quadratic time.
_EXACT: Final = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN, rounding=ROUND_UP, traps=[])

_QUANTITY: Final = re.compile(
    r"([+-]?)(?=\.?[0-9])([0-9]*+)(?:\.([0-9]*+))?"  # sign, digits, fraction: at least one digit somewhere
    r"(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?[0-9]++))?"  # suffix or exponent
)
_DECIMAL_POWERS: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY_SIZES: Final = {name: 1024**power for power, name in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), start=1)}
_WANTED: Final = (
    f"a number with one of the suffixes {' '.join(filter(None, (*_DECIMAL_POWERS, *_BINARY_SIZES)))} or an exponent (e3)"
)


class UnreadableError(ValueError):
    """A value cannot be read. `value`: the value that was read. `why`: what is wrong with it."""

    noun: ClassVar[str]

    def __init__(self, value: object, why: str) -> None:
        super().__init__(value, why)
        self.value = value
        self.why = why

    def __str__(self) -> str:
        seen = repr(self.value)
        return f"{self.noun} {seen if len(seen) <= 80 else seen[:76] + ' ...'}: {self.why}"


class QuantityError(UnreadableError):
    """A value is no quantity."""

    noun = "quantity"


def parse_nanos(value: str | int | float) -> Nanos:
    """Reads a quantity in units of 10^-9, rounded away from zero; its magnitude is at most `LARGEST` whole units.

    A JSON number is read like its text; for a float this is the shortest text from which Python reads the same float. Blanks
    and null are refused, as by Kubernetes' `ParseQuantity`; see `quantity_from_json`. Raises `QuantityError`.
    """
    if isinstance(value, str):
        return _nanos_of_text(value) if len(value) <= _CACHED_LENGTH else _read(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return Nanos(_capped(value) * NANO)
    if isinstance(value, float):
        if not isfinite(value):
            raise QuantityError(value, "not finite")
        return _nanos_of_text(repr(value))
    raise QuantityError(value, f"a {type(value).__name__}, want a string or a number")


def is_integer_text(value: str | int | float) -> bool:
    """Whether Kubernetes reads a quantity as an int64 without looking at its value (AsInt64 of a parsed quantity).

    It is false of `2000m`, of `2.0`, and of amounts for which Kubernetes' fast parser has no room, such as `1Pi`. Raises
    `QuantityError` for other texts.
    """
    found = _QUANTITY.fullmatch(str(value))
    if found is None:
        raise QuantityError(value, _WANTED)
    digits, fraction = len(found[2].lstrip("0") or "0"), len(found[3] or "")
    if found[4] in _BINARY_SIZES:
        power = 10 * (1 + list(_BINARY_SIZES).index(found[4]))
        return not fraction and digits + power * 3 // 10 <= _FAST_BINARY_DIGITS
    if found[5] is not None and len(found[5]) > _FAST_DIGITS:
        return False
    scale = _DECIMAL_POWERS[found[4] or ""] if found[5] is None else int(found[5])
    return digits + fraction <= _FAST_DIGITS and scale >= fraction and abs(parse_nanos(value)) < _LARGEST_NANOS


def milli_cpu(value: str | int | float) -> MilliCpu:
    """Reads a quantity in thousandths, rounded away from zero, as documented at `MilliValue()`. Raises `QuantityError`."""
    if isinstance(value, str) and len(value) <= _CACHED_LENGTH:
        return _milli_of_text(value)
    return _milli(parse_nanos(value))


def byte_count(value: str | int | float) -> Bytes:
    """Reads a quantity in bytes, rounded away from zero, as documented at `Value()`. Raises `QuantityError`."""
    if isinstance(value, str) and len(value) <= _CACHED_LENGTH:
        return _whole_of_text(value)
    return Bytes(_away_from_zero(parse_nanos(value), NANO))


def whole(value: str | int | float) -> int:
    """Reads a quantity of anything else (pods, devices) in whole units, rounded away from zero. Raises `QuantityError`."""
    return byte_count(value)


def quantity_from_json(value: object) -> str | int | float:
    """Prepares a decoded JSON value, where a quantity is expected, for the functions above.

    As in Kubernetes' decoder, null becomes 0 and blanks around a text are dropped. Raises `QuantityError` if the value is
    neither null nor a text nor a number.
    """
    if value is None:
        return 0
    if isinstance(value, str):
        return value.strip(" ")
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    raise QuantityError(value, f"a {type(value).__name__}, want a string or a number")


def format_milli_cpu(amount: MilliCpu) -> int | str:
    """Writes CPU as the agent protocol does: whole CPUs as an integer, other amounts as a text in milliCPU. Raises
    `QuantityError` if the amount is negative."""
    if amount < 0:
        raise QuantityError(amount, "negative milli-CPU, want 0 or more")
    cpus, rest = divmod(amount, 1000)
    return f"{amount}m" if rest else cpus


def format_bytes(amount: Bytes) -> int | str:
    """Writes bytes as the agent protocol does: below 1024 as an integer, else as a text with a binary suffix. Raises
    `QuantityError` if the amount is negative."""
    if amount < 0:
        raise QuantityError(amount, "negative bytes, want 0 or more")
    return amount if amount < 1024 else _shortened(amount, 1024, ("", *_BINARY_SIZES))


def quantity_text_cpu(amount: MilliCpu) -> str:
    """Writes CPU as the canonical text that kubectl prints: `250m`, `2`, `1500m`, `1k`."""
    return _shortened(amount, 1000, ("m", "", "k", "M", "G", "T", "P", "E"))


def quantity_text_memory(amount: Bytes) -> str:
    """Writes bytes as the canonical text that kubectl prints: `1536Mi`, `1025`. Below 1 Ki Kubernetes uses decimal suffixes:
    1000 is `1k`."""
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


def _milli(nanos: Nanos) -> MilliCpu:
    return MilliCpu(_capped(_away_from_zero(nanos, NANOS_PER_MILLI)))


@lru_cache(maxsize=_CACHED_TEXTS)
def _milli_of_text(text: str) -> MilliCpu:
    return _milli(_read(text))


@lru_cache(maxsize=_CACHED_TEXTS)
def _whole_of_text(text: str) -> Bytes:
    return Bytes(_away_from_zero(_read(text), NANO))


@lru_cache(maxsize=_CACHED_TEXTS)
def _nanos_of_text(text: str) -> Nanos:
    return _read(text)


def _read(text: str) -> Nanos:
    parts = _QUANTITY.fullmatch(text)
    if parts is None:
        raise QuantityError(text, f"want {_WANTED}")
    sign, digits, fraction, suffix, exponent = parts.groups(default="")
    power = _power(exponent) if exponent else _DECIMAL_POWERS.get(suffix, 0)
    number = _EXACT.create_decimal(f"{digits}.{fraction}e{power}")
    nanos = _EXACT.multiply(number, _BINARY_SIZES.get(suffix, 1) * NANO)
    # Compared first: an integer has all the digits that an exponent stands for.
    magnitude = _LARGEST_NANOS if nanos >= _LARGEST_NANOS else int(nanos.to_integral_value(context=_EXACT))
    return Nanos(-magnitude if sign == "-" else magnitude)


def _power(exponent: str) -> str:
    """The exponent as Kubernetes reads it: an int64, of which an int32 remains. Kubernetes refuses one beyond an int64; here it
    counts as it is."""
    sign, digits = ("-" if exponent[0] == "-" else ""), exponent.lstrip("+-").lstrip("0")
    power = int(f"{sign}0{digits}") if len(digits) <= _INT64_DIGITS else LARGEST + 1
    return str((power + 2**31) % 2**32 - 2**31) if -LARGEST - 1 <= power <= LARGEST else exponent
