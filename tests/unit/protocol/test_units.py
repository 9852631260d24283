"""Quantities by example: the agent protocol's tables, Kubernetes' own answers, and what is refused."""

import json
import pickle
import subprocess
import sys
import time
from contextlib import suppress

import pytest

from slackwater_protocol.units import (
    LARGEST,
    Bytes,
    MilliCpu,
    QuantityError,
    byte_count,
    format_bytes,
    format_milli_cpu,
    is_integer_text,
    milli_cpu,
    parse_nanos,
    quantity_from_json,
    quantity_text_cpu,
    quantity_text_memory,
    whole,
)

KI, MI, GI, TI, PI, EI = (1024**power for power in range(1, 7))


@pytest.mark.parametrize(("amount", "want"), [(0, 0), (250, "250m"), (1000, 1), (1500, "1500m"), (12_000, 12)])
def test_agents_read_whole_cpus_as_integers_and_others_as_milli(amount: int, want: int | str) -> None:
    assert format_milli_cpu(MilliCpu(amount)) == want
    assert milli_cpu(want) == amount


@pytest.mark.parametrize(
    ("amount", "want"),
    [
        (0, 0),
        (1000, 1000),
        (1023, 1023),
        (1024, "1Ki"),
        (1025, "1025"),
        (10**9, "1000000000"),
        (GI, "1Gi"),
        (3 * GI // 2, "1536Mi"),
        (5 * GI, "5Gi"),
        (2048 * GI, "2Ti"),
        (3 * EI, "3Ei"),
    ],
)
def test_agents_read_memory_below_a_kibibyte_as_an_integer_and_above_as_text(amount: int, want: int | str) -> None:
    assert format_bytes(Bytes(amount)) == want
    assert byte_count(want) == amount


@pytest.mark.parametrize(
    ("body", "want_milli", "want_bytes"),
    [
        ("0.25", 250, 1),
        ('"0.25"', 250, 1),
        ('"250m"', 250, 1),
        ("2", 2000, 2),
        ('"2"', 2000, 2),
        ('"+2"', 2000, 2),
        ('" 2"', 2000, 2),
        ("1e3", 1_000_000, 1000),
        ('"1k"', 1_000_000, 1000),
        ('"1.0001"', 1001, 2),
        ('"0.0001"', 1, 1),
        ('"100u"', 1, 1),
        ("null", 0, 0),
        ('"1Ki"', 1_024_000, 1024),
        ('"1.5Gi"', 1_610_612_736_000, 1_610_612_736),
    ],
)
def test_quantities_in_agents_bodies_are_read_as_kubernetes_reads_them(body: str, want_milli: int, want_bytes: int) -> None:
    value = quantity_from_json(json.loads(body))
    assert (milli_cpu(value), byte_count(value)) == (want_milli, want_bytes)


@pytest.mark.parametrize("body", ['""', '"abc"', "true", "{}", "[]", '"  "', '"2 Gi"'])
def test_what_is_no_quantity_in_a_body_is_refused(body: str) -> None:
    with pytest.raises(QuantityError):
        milli_cpu(quantity_from_json(json.loads(body)))


# Recorded from resource.Quantity of k8s.io/apimachinery 0.36.3: nanos, MilliValue(), Value().
@pytest.mark.parametrize(
    ("text", "want_nanos", "want_milli", "want_whole"),
    [
        ("0", 0, 0, 0),
        ("-0", 0, 0, 0),
        ("00012", 12_000_000_000, 12_000, 12),
        ("1.", 1_000_000_000, 1000, 1),
        ("1.k", 1_000_000_000_000, 1_000_000, 1000),
        (".5", 500_000_000, 500, 1),
        ("+1", 1_000_000_000, 1000, 1),
        ("-1.5", -1_500_000_000, -1500, -2),
        ("-1500u", -1_500_000, -2, -1),
        ("1n", 1, 1, 1),
        ("0.1n", 1, 1, 1),
        ("1u", 1000, 1, 1),
        ("1.1Ki", 1_126_400_000_000, 1_126_400, 1127),
        ("1E3", 1_000_000_000_000, 1_000_000, 1000),
        ("1e+3", 1_000_000_000_000, 1_000_000, 1000),
        ("12e-3", 12_000_000, 12, 1),
        ("1e-10", 1, 1, 1),
        ("1e-400", 1, 1, 1),
        ("0e-10", 0, 0, 0),
        ("9P", 9 * 10**24, 9 * 10**18, 9 * 10**15),
    ],
)
def test_kubernetes_gives_the_same_numbers(text: str, want_nanos: int, want_milli: int, want_whole: int) -> None:
    assert (parse_nanos(text), milli_cpu(text), whole(text)) == (want_nanos, want_milli, want_whole)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        *((text, True) for text in ("0", "2", "-2", "007", "2.", "1.5k", "2e3", "1Ti", "1024Gi", "9E", "1" * 18)),
        *(
            (text, False)
            for text in ("2000m", "2.0", "1.0Ki", "0.5Gi", "100Ti", "1Pi", "1Ei", "10E", "1" * 19, "2e-3", "2e" + "9" * 30)
        ),
    ],
)
def test_kubernetes_reads_these_as_integers(text: str, want: bool) -> None:
    """As `ParseQuantity(text).AsInt64()` of k8s.io/apimachinery 0.36.3 does."""
    assert is_integer_text(text) is want


@pytest.mark.parametrize(
    ("suffix", "want"),
    [
        *zip(("k", "M", "G", "T", "P", "E"), (10**power for power in (3, 6, 9, 12, 15, 18)), strict=True),
        *zip(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), (KI, MI, GI, TI, PI, EI), strict=True),
    ],
)
def test_every_suffix_has_its_size(suffix: str, want: int) -> None:
    assert byte_count(f"3{suffix}") == 3 * want
    assert byte_count(f"1.5{suffix}") == 3 * want // 2


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", " 1", "1 ", "1\n", "1.0.0", "1.1.M", "1+1", "+-1", "--1", "0x1", "1_0", "1,5", "\uff11", "\u0661"),
        *("1KI", "1K", "1i", "1ki", "1mi", "1Kim", "1kk", "1k5", "NaN", "inf", "abc"),
        *("1e", "1E+", "1e5.5", "1Ee5"),
        *("+", "-", ".", "+.", "m", "k", "Ki", ".Ki", "e5"),
    ],
)
def test_texts_outside_the_grammar_are_refused_with_the_text_and_what_is_wanted(text: str) -> None:
    for parse in (parse_nanos, milli_cpu, byte_count, whole):
        with pytest.raises(QuantityError) as refused:
            parse(text)
        assert refused.value.value == text
        assert str(refused.value).startswith(f"quantity {text!r}: want a number with one of the suffixes n u m")


@pytest.mark.parametrize("value", [True, False, None, [], {}, b"1", float("nan"), float("inf"), -float("inf")])
def test_only_strings_and_finite_numbers_are_quantities(value: object) -> None:
    for parse in (parse_nanos, milli_cpu, byte_count):
        with pytest.raises(QuantityError, match=r"want a string or a number|not finite"):
            parse(value)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["8Ei", "10Ei", "100E", "9223372036854775808", "1e20", "1e999999999", "9.3E"])
def test_what_passes_an_int64_is_capped(text: str) -> None:
    assert (byte_count(text), milli_cpu(text)) == (LARGEST, LARGEST)
    assert (byte_count(f"-{text}"), milli_cpu(f"-{text}")) == (-LARGEST, -LARGEST)
    assert parse_nanos(text) == LARGEST * 10**9


def test_milli_cpu_is_capped_where_the_quantity_itself_is_not() -> None:
    assert (byte_count("10P"), milli_cpu("10P")) == (10 * 10**15, LARGEST)
    assert milli_cpu(10 * 10**15) == LARGEST


@pytest.mark.parametrize("value", [2**63, 10**40, 1e30])
def test_numbers_are_capped_like_texts(value: float) -> None:
    assert (byte_count(value), milli_cpu(value)) == (LARGEST, LARGEST)


def test_an_exponent_far_below_a_nano_still_rounds_up() -> None:
    assert parse_nanos("1e-999999999") == 1
    assert parse_nanos("-1e-999999999") == -1
    assert parse_nanos("0e999999999") == 0


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("1e4294967296", 1000),
        ("1e4294967297", 10_000),
        ("2e4294967299", 2_000_000),
        ("1e-4294967296", 1000),
        ("3e-4294967293", 3_000_000),
        ("1.5e+4294967296", 1500),
        ("1e9223372036854775807", 100),
        ("-1e-9223372036854775808", -1000),
        ("1e0000000000000000000000003", 1_000_000),
    ],
)
def test_an_exponent_counts_by_its_lowest_32_bits(text: str, want: int) -> None:
    """The results are those of MilliValue() of k8s.io/apimachinery 0.36.3."""
    assert milli_cpu(text) == want


def test_an_exponent_beyond_an_int64_is_capped() -> None:
    assert milli_cpu("1e9223372036854775808") == LARGEST
    assert parse_nanos("1e-9223372036854775809") == 1


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("9" * 1001, LARGEST),
        ("9" * 5000 + "Ki", LARGEST),
        ("0" * 5000 + "7", 7),
        ("2" + "0" * 5000 + "e-5000", 2),
        ("3." + "0" * 5000, 3),
        ("3." + "0" * 5000 + "1", 4),
        ("3." + "0" * 5000 + "1Ki", 3073),
        ("0." + "0" * 5000 + "5e5000", 1),
        ("0." + "0" * 5000 + "1", 1),
        ("1e" + "9" * 5000, LARGEST),
        ("1e-" + "9" * 5000, 1),
        ("1e" + "0" * 5000 + "3", 1000),
        ("0" * 5000 + "e" + "9" * 5000, 0),
    ],
    ids=lambda value: str(value)[:12],
)
def test_texts_of_any_length_are_read(text: str, want: int) -> None:
    assert (byte_count(text), byte_count(f"-{text}")) == (want, -want)


def test_the_time_to_read_a_text_grows_with_its_length() -> None:
    def seconds(length: int) -> float:
        began = time.process_time()
        for text in ("7" * length, "7" * length + f"e-{length - 1}", f"0.{'7' * length}Ei", "7" * length + "?"):
            with suppress(QuantityError):
                milli_cpu(text)
        return time.process_time() - began

    assert seconds(1_000_000) < 100 * max(seconds(100_000), 0.005), "ten times the length"


def test_the_error_survives_a_process_boundary() -> None:
    error = pickle.loads(pickle.dumps(QuantityError("1KI", "no")))
    assert (type(error), error.value, error.why, str(error)) == (QuantityError, "1KI", "no", "quantity '1KI': no")


@pytest.mark.parametrize("amount", [-1, -1000])
def test_agents_are_never_sent_a_negative_amount(amount: int) -> None:
    with pytest.raises(QuantityError, match="negative milli-CPU, want 0 or more"):
        format_milli_cpu(MilliCpu(amount))
    with pytest.raises(QuantityError, match="negative bytes, want 0 or more"):
        format_bytes(Bytes(amount))


# Recorded from the String() of NewMilliQuantity(n, DecimalSI).
@pytest.mark.parametrize(
    ("amount", "want"),
    [(0, "0"), (1, "1m"), (250, "250m"), (2000, "2"), (1500, "1500m"), (10**6, "1k"), (-1500, "-1500m"), (-2000, "-2")],
)
def test_people_read_cpu_as_kubectl_prints_it(amount: int, want: str) -> None:
    assert quantity_text_cpu(MilliCpu(amount)) == want


# Recorded from the String() of NewQuantity(n, BinarySI).
@pytest.mark.parametrize(
    ("amount", "want"),
    [
        *((0, "0"), (500, "500"), (1000, "1k"), (1023, "1023"), (-1000, "-1k")),
        *((1024, "1Ki"), (-1024, "-1Ki"), (1025, "1025"), (3 * GI // 2, "1536Mi"), (EI, "1Ei")),
        (2**63 - 1, "9223372036854775807"),
    ],
)
def test_people_read_memory_as_kubectl_prints_it(amount: int, want: str) -> None:
    assert quantity_text_memory(Bytes(amount)) == want


def test_units_durations_and_names_need_the_standard_library_alone() -> None:
    program = (
        "import sys; before = set(sys.modules)\n"
        "import slackwater_protocol.units, slackwater_protocol.durations, slackwater_protocol.names\n"
        "new = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(sorted(new - set(sys.stdlib_module_names)))"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert ran.stdout.strip() == "['slackwater_protocol']"
