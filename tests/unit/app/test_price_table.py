"""The table of prices: what is read of CSV and JSON, and how a bad one is refused."""

import json
from pathlib import Path

import pytest

from slackwater.app import price_table
from slackwater.app.price_table import read_price_table
from slackwater.configuration.problems import SettingsError, UnreadableSettings
from slackwater.model.nodegroups import GroupName
from slackwater.model.prices import ANY, UNKNOWN_ZONE, PriceBook
from tests.support.builders import a_node

HEADER = "instance type,zone,capacity type,price per hour,currency\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "prices"


def problems(path: Path, text: str | bytes) -> list[str]:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(SettingsError) as caught:
        read_price_table(str(path), "USD")
    return [line.removeprefix(f"{path}: ") for line in caught.value.lines()]


WANT = {
    ("m5.large", "us-east-1a", "spot"): 35_200,
    ("m5.large", UNKNOWN_ZONE, "spot"): 35_200,
    ("m5.large", ANY, "on-demand"): 96_000,
    ("c5.large", ANY, ANY): 85_000,
}
ROWS = [
    {"Instance Type": "m5.large", "zone": "us-east-1a", "capacity_type": "SPOT", "pricePerHour": "0.0352", "currency": "USD"},
    {"instance_type": "m5.large", "Zone": "*", "CapacityType": "ON_DEMAND", "price per hour": 0.096, "Currency": "usd"},
    {"instanceType": "c5.large", "Price-Per-Hour": 0.085},
]


def test_a_table_is_read_from_csv_whatever_the_spelling_of_its_columns(path: Path) -> None:
    text = "\ufeffInstance_Type,ZONE,CapacityType,Price Per Hour,currency\r\nm5.large,us-east-1a,spot,0.0352,USD\r\n"
    path.write_text(text + '\r\nm5.large, * ,on-demand,0.096,\r\n"c5.large",,,0.085,usd\r\n', newline="")
    assert dict(read_price_table(str(path), "USD")) == WANT


def test_a_table_is_read_from_json(path: Path) -> None:
    path.write_text(json.dumps(ROWS))
    assert dict(read_price_table(str(path), "USD")) == WANT


def test_a_number_in_json_loses_no_digit(path: Path) -> None:
    path.write_text('[{"instance type": "a", "price per hour": 123456.1234565000000000000001}]')
    assert dict(read_price_table(str(path), "USD")) == {("a", ANY, ANY): 123_456_123_457}


def test_a_node_of_unknown_zone_costs_what_the_dearest_zone_does(path: Path) -> None:
    path.write_text(HEADER + "m5.large,a,spot,0.1,\nm5.large,b,spot,0.3,\nm5.large,c,spot,0.2,\nm5.large,*,on-demand,0.9,\n")
    book = PriceBook(table=read_price_table(str(path), "USD"))
    labels = {"node.kubernetes.io/instance-type": "m5.large", "karpenter.sh/capacity-type": "spot"}
    prices = [
        book.of(GroupName("g"), a_node("n", labels={**labels, **zone}))
        for zone in ({}, {"topology.kubernetes.io/zone": "a"}, {"topology.kubernetes.io/zone": "elsewhere"})
    ]
    assert [(price.micros, price.basis) for price in prices[:2]] == [(300_000, "table"), (100_000, "table")]
    assert prices[2].basis == "formula"


def test_columns_may_be_left_out(path: Path) -> None:
    path.write_text("price per hour,instance type\n0.1,m5.large\n0.1,m5.large\n")
    assert dict(read_price_table(str(path), "EUR")) == {("m5.large", ANY, ANY): 100_000}


NUMBER = "want a decimal number from 0 to 1000000 such as 0.096"
COLUMNS = "instance type, zone, capacity type, price per hour, currency"


@pytest.mark.parametrize(
    ("text", "want"),
    [
        (HEADER + "m5.large,a,spot,0.1,USD\nm5.large,b,spot,$1,USD\n", f'line 3, price per hour: got "$1", {NUMBER}'),
        (HEADER + "m5.large,a,spot,-1,USD\n", f'line 2, price per hour: got "-1", {NUMBER}'),
        (HEADER + "m5.large,a,spot,1e3,USD\n", f'line 2, price per hour: got "1e3", {NUMBER}'),
        (HEADER + "m5.large,a,spot,,USD\n", f'line 2, price per hour: got "", {NUMBER}'),
        (HEADER + '"m5\n.large",a,spot,x,USD\n', f'line 3, price per hour: got "x", {NUMBER}'),
        (HEADER + ",a,spot,1,USD\n", 'line 2, instance type: got "", want the name of an instance type'),
        (
            HEADER + "m5.large,a,spot,1,EUR\n",
            'line 2, currency: got "EUR", want USD, as autoscaler.prices.currency: one currency in all',
        ),
        (HEADER + "m5.large,a,spot,1\n", "line 2: got 4 cells, want 5, as in the header"),
        (
            HEADER + "m5.large,a,spot,1,USD\nm5.large,a,SPOT,2,USD\n",
            "line 3: got another price, want one price for each type, zone and capacity type: line 2 has one",
        ),
        ("instance type,price\nm5.large,1\n", f'line 1, column 2: got "price", want one of {COLUMNS}'),
        ("zone,Zone\n", 'line 1, column 2: got "Zone" a second time, want each column once'),
        (
            "instance type,zone\nm5.large,a\n",
            "line 1: got no column price per hour, want instance type and price per hour at least",
        ),
        ("", f"the file: got nothing in it, want a header with {COLUMNS}, and rows"),
        ('a,"b\n', "line 1: got unexpected end of data, want CSV with commas"),
        ('[{"instance type": "a", "price per hour": "x"}]', f'entry 1, price per hour: got "x", {NUMBER}'),
        ('[{"instance type": ["a"], "price per hour": 1}]', "entry 1, instance type: got a list, want text or a number"),
        ('[{"instance type": "a", "price per hour": NaN}]', "entry 1, price per hour: got NaN, want text or a number"),
        ("[{}]", "entry 1: got no column instance type, want instance type and price per hour at least"),
        ("[1]", f'entry 1: got "1", want an object with {COLUMNS}'),
        ("{}", f"the file: got an object, want a list of objects with {COLUMNS}"),
        ("[\n{,", "line 2, column 2: got Expecting property name enclosed in double quotes, want JSON"),
        ("[" * 100_000, "the file: got JSON nested too deeply, want a list of objects"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(path: Path, text: str, want: str) -> None:
    assert problems(path, text) == [want]


def test_all_bad_rows_are_named_up_to_a_number(path: Path) -> None:
    assert [line.partition(":")[0] for line in problems(path, HEADER + "a,,,x,\nb,,,1,\nc,,,y,\n")] == [
        "line 2, price per hour",
        "line 4, price per hour",
    ]
    assert len(problems(path, HEADER + "a,,,x,\n" * 100)) == 20


def test_a_file_that_is_no_text_is_refused(path: Path) -> None:
    (problem,) = problems(path, b"instance type\xff")
    assert problem.endswith("want a file of UTF-8 text")
    with pytest.raises(UnreadableSettings, match=r"nowhere: .* want a file of UTF-8 text"):
        read_price_table("nowhere", "USD")


def test_a_table_is_bounded(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (problem,) = problems(path, b" " * (price_table.LARGEST_FILE + 1))
    assert problem == f"the file: got more bytes, want at most {price_table.LARGEST_FILE} bytes"
    monkeypatch.setattr(price_table, "MOST_ROWS", 2)
    assert problems(path, "[" + ",".join(f'{{"instancetype": "{n}", "priceperhour": 1}}' for n in range(9)) + "]") == [
        "entry 3: got one more row, want at most 2 rows"
    ]
