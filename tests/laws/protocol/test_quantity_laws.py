"""Laws of quantities: parsing is exact arithmetic on the documented grammar, and writing is undone by reading."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from math import ceil

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from slackwater_protocol.units import (
    Bytes,
    MilliCpu,
    QuantityError,
    byte_count,
    format_bytes,
    format_milli_cpu,
    milli_cpu,
    parse_nanos,
    quantity_text_cpu,
    quantity_text_memory,
    whole,
)

LARGEST = 2**63 - 1
SCALES = {"n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000), "": Fraction(1)}
SCALES |= {name: Fraction(10 ** (3 * power)) for power, name in enumerate(("k", "M", "G", "T", "P", "E"), start=1)}
SCALES |= {name: Fraction(1024**power) for power, name in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), start=1)}

#: The productions of the documented grammar, written once more and apart from the code under test.
GRAMMAR = re.compile(
    r"(\+|-)?"
    r"([0123456789]+|[0123456789]+\.[0123456789]+|[0123456789]+\.|\.[0123456789]+)"
    r"(Ki|Mi|Gi|Ti|Pi|Ei|n|u|m|k|M|G|T|P|E|(e|E)(\+|-)?[0123456789]+)?"
)
ALPHABET = "0123456789.+-eEinumkKMGTP"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spelled:
    text: str
    exact: Fraction


def away_from_zero(exact: Fraction) -> int:
    magnitude = min(ceil(abs(exact)), LARGEST)
    return magnitude if exact > 0 else -magnitude


digits = st.text("0123456789", max_size=25)
suffixes = st.sampled_from(list(SCALES.items()))
exponents = st.builds(
    lambda letter, sign, zeros, power: (f"{letter}{sign}{zeros}{power}", Fraction(10) ** (-power if sign == "-" else power)),
    st.sampled_from("eE"),
    st.sampled_from(["", "+", "-"]),
    st.sampled_from(["", "00"]),
    st.integers(0, 60),
)


@st.composite
def quantities(draw: st.DrawFn) -> Spelled:
    sign = draw(st.sampled_from(["", "+", "-"]))
    before, after = draw(st.tuples(digits, st.none() | digits).filter(any))
    suffix, scale = draw(suffixes | exponents)
    mantissa = Fraction(int(before + (after or "")), 10 ** len(after or ""))
    text = sign + before + ("" if after is None else f".{after}") + suffix
    return Spelled(text=text, exact=(-mantissa if sign == "-" else mantissa) * scale)


@st.composite
def nearly_quantities(draw: st.DrawFn) -> str:
    """A quantity with one character put in, taken out or replaced."""
    text = draw(quantities()).text
    at = draw(st.integers(0, len(text)))
    put: str = draw(st.sampled_from([*ALPHABET, "", " ", "\n", "_", "I", "x", "\uff11"]))
    return text[:at] + put + text[at + draw(st.integers(0, 1)) :]


@given(quantity=quantities())
def test_every_form_is_its_exact_value_rounded_away_from_zero(quantity: Spelled) -> None:
    capped = max(Fraction(-LARGEST), min(Fraction(LARGEST), quantity.exact))
    want_nanos = ceil(abs(capped) * 10**9)
    assert parse_nanos(quantity.text) == (want_nanos if capped > 0 else -want_nanos)
    assert milli_cpu(quantity.text) == away_from_zero(quantity.exact * 1000)
    assert byte_count(quantity.text) == whole(quantity.text) == away_from_zero(quantity.exact)


@given(text=st.text([*ALPHABET, " "], max_size=8) | nearly_quantities() | st.text(max_size=4))
@example("+")
@example("1e")
@example("1.0.0")
@example("1\n")
def test_a_text_is_accepted_exactly_when_the_grammar_has_it(text: str) -> None:
    accepts = []
    for parse in (parse_nanos, milli_cpu, whole):
        try:
            parse(text)
        except QuantityError:
            accepts.append(False)
        else:
            accepts.append(True)
    assert accepts == [GRAMMAR.fullmatch(text) is not None] * 3


@given(number=st.integers(-(2**70), 2**70))
def test_an_integer_counts_like_its_text(number: int) -> None:
    assert parse_nanos(number) == parse_nanos(str(number))
    assert milli_cpu(number) == milli_cpu(str(number))
    assert byte_count(number) == byte_count(str(number))


@given(number=st.floats(allow_nan=False, allow_infinity=False))
def test_a_float_counts_like_the_shortest_text_that_reads_back_as_it(number: float) -> None:
    exact = Fraction(Decimal(repr(number)))
    assert milli_cpu(number) == away_from_zero(exact * 1000)
    assert byte_count(number) == away_from_zero(exact)


@given(amount=st.integers(0, LARGEST) | st.integers(0, 10**6).map(lambda cpus: cpus * 1000))
def test_cpu_written_for_agents_reads_back_as_the_same(amount: int) -> None:
    written = format_milli_cpu(MilliCpu(amount))
    assert isinstance(written, int) == (amount % 1000 == 0)
    assert milli_cpu(written) == amount


multiples = st.builds(lambda count, power: count * 1024**power, st.integers(0, 8191), st.integers(0, 5))


@given(amount=st.integers(0, LARGEST) | multiples)
def test_memory_written_for_agents_reads_back_as_the_same(amount: int) -> None:
    written = format_bytes(Bytes(amount))
    assert isinstance(written, int) == (amount < 1024)
    assert byte_count(written) == amount


@given(amount=st.integers(-LARGEST, LARGEST) | multiples)
def test_text_for_people_reads_back_as_the_same_and_cannot_be_shorter_in_its_suffix(amount: int) -> None:
    cpu, memory = quantity_text_cpu(MilliCpu(amount)), quantity_text_memory(Bytes(amount))
    assert (milli_cpu(cpu), byte_count(memory)) == (amount, amount)
    for text, step in ((cpu, 1000), (memory, 1024 if abs(amount) >= 1024 else 1000)):
        mantissa = int(re.sub(r"[A-Za-z]+$", "", text))
        assert mantissa == 0 or mantissa % step or text.endswith("E" if step == 1000 else "Ei")


@pytest.mark.parametrize("parse", [milli_cpu, byte_count], ids=["milli", "bytes"])
@given(smaller=quantities(), larger=quantities())
def test_a_larger_quantity_is_never_read_as_a_smaller_amount(
    parse: Callable[[str], int], smaller: Spelled, larger: Spelled
) -> None:
    if smaller.exact > larger.exact:
        smaller, larger = larger, smaller
    assert parse(smaller.text) <= parse(larger.text)
