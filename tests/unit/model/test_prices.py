"""What a node costs: which of several prices counts, and that amounts are exact."""

import pickle
from dataclasses import replace

import pytest
from msgspec import structs

from slackwater.model.nodegroups import GroupName
from slackwater.model.prices import (
    ANY,
    Basis,
    Discount,
    Price,
    PriceBook,
    PriceFormula,
    PriceOverlay,
    PriceTable,
    by_weight,
    capacity_type_of,
    cost_of,
)
from slackwater.model.selectors import Requirement
from slackwater_protocol.money import decimal_text, micros_of
from tests.support.builders import a_node

POOL = GroupName("pool")
BASES: tuple[Basis, ...] = ("table", "formula", "provider")
LABELS = {
    "node.kubernetes.io/instance-type": "m5.large",
    "topology.kubernetes.io/zone": "a",
    "karpenter.sh/capacity-type": "spot",
}
NODE = a_node("n", cpu="2", memory="8Gi", labels=LABELS)
OF_FORMULA = 2 * 33_174 + 8 * 4_446
#: All prices that a book may have for the node, in the order in which they count.
WHOLE = PriceBook(
    currency="EUR",
    configured={POOL: 1},
    overlays=(PriceOverlay(name="all", price=2),),
    table={("m5.large", "a", "spot"): 3},
)


def test_the_first_that_knows_a_price_counts() -> None:
    found = []
    for book, provider in (
        (WHOLE, 4),
        (replace(WHOLE, configured={}), 4),
        (replace(WHOLE, configured={}, overlays=()), 4),
        (replace(WHOLE, configured={}, overlays=(), table={}), 4),
        (PriceBook(currency="EUR"), None),
    ):
        price = book.of(POOL, NODE, provider=provider)
        assert price.currency == "EUR"
        found.append((price.basis, price.micros))
    want = [("configured", 1), ("overlay", 2), ("table", 3), ("provider", 4), ("formula", OF_FORMULA)]
    assert found == want


ROWS = {
    ("m5.large", "a", "spot"): 1,
    ("m5.large", ANY, "spot"): 2,
    ("m5.large", "a", ANY): 3,
    ("m5.large", ANY, ANY): 4,
    ("c5.large", "a", "spot"): 9,
    ("m5.large", "b", "spot"): 9,
    ("m5.large", "a", "on-demand"): 9,
}


@pytest.mark.parametrize(("without", "want"), [(0, 1), (1, 2), (2, 3), (3, 4), (4, OF_FORMULA)])
def test_the_row_that_says_most_about_the_node_counts(without: int, want: int) -> None:
    table = dict(list(ROWS.items())[without:])
    assert PriceBook(table=table).of(POOL, NODE).micros == want


@pytest.mark.parametrize(
    ("labels", "want"),
    [
        ({}, "on-demand"),
        ({"karpenter.sh/capacity-type": "reserved"}, "reserved"),
        ({"eks.amazonaws.com/capacityType": "SPOT"}, "spot"),
        ({"eks.amazonaws.com/capacityType": "ON_DEMAND"}, "on-demand"),
        ({"cloud.google.com/gke-spot": "true"}, "spot"),
        ({"cloud.google.com/gke-preemptible": "true"}, "spot"),
        ({"cloud.google.com/gke-spot": "false"}, "on-demand"),
        ({"kubernetes.azure.com/scalesetpriority": "spot"}, "spot"),
        ({"kubernetes.azure.com/scalesetpriority": "regular"}, "on-demand"),
        ({"cloud.google.com/gke-provisioning": "spot"}, "spot"),
        ({"cloud.google.com/gke-provisioning": "standard"}, "on-demand"),
        ({"node.kubernetes.io/lifecycle": "spot"}, "spot"),
    ],
)
def test_every_cloud_says_in_its_label_how_a_node_is_paid_for(labels: dict[str, str], want: str) -> None:
    assert capacity_type_of(a_node("n", labels=labels)) == want


def test_older_labels_name_type_and_zone_too() -> None:
    labels = {"beta.kubernetes.io/instance-type": "m5.large", "failure-domain.beta.kubernetes.io/zone": "a"}
    table = {("m5.large", "a", "on-demand"): 96_000}
    assert PriceBook(table=table).of(POOL, a_node("n", labels=labels)).micros == 96_000


def test_a_discount_changes_prices_of_table_and_formula_only() -> None:
    half = (Discount(labels=(("karpenter.sh/capacity-type", "spot"),), ppm=500_000),)
    book = replace(WHOLE, discounts=half)
    assert book.of(POOL, NODE).micros == 1
    assert replace(book, configured={}).of(POOL, NODE).micros == 2
    assert replace(book, configured={}, overlays=()).of(POOL, NODE).micros == 2  # 1.5, rounded
    assert PriceBook(discounts=half).of(POOL, NODE, provider=4).micros == 4
    assert PriceBook(discounts=half).of(POOL, NODE).micros == OF_FORMULA // 2
    assert PriceBook(discounts=half).of(POOL, a_node("n", cpu="2", memory="8Gi")).micros == OF_FORMULA


def test_of_several_discounts_the_first_that_applies_counts() -> None:
    spot, zone = (("karpenter.sh/capacity-type", "spot"),), (("topology.kubernetes.io/zone", "a"),)
    discounts = (Discount(labels=(*spot, ("team", "x")), ppm=1), Discount(labels=zone, ppm=0), Discount(labels=spot, ppm=1))
    assert PriceBook(discounts=discounts).of(POOL, NODE).micros == 0


@pytest.mark.parametrize(
    ("overlay", "want"),
    [
        (PriceOverlay(name="o", percent=10 * 1_000_000), 110),
        (PriceOverlay(name="o", percent=-25 * 1_000_000), 75),
        (PriceOverlay(name="o", percent=-100 * 1_000_000), 0),
        (PriceOverlay(name="o", added=7), 107),
        (PriceOverlay(name="o", added=-200), 0),
    ],
)
def test_an_overlay_adjusts_what_the_table_says(overlay: PriceOverlay, want: int) -> None:
    price = PriceBook(table={("m5.large", "a", "spot"): 100}, overlays=(overlay,)).of(POOL, NODE)
    assert (price.micros, price.basis) == (want, "overlay")


def test_an_adjusted_formula_still_says_that_it_is_one() -> None:
    price = PriceBook(overlays=(PriceOverlay(name="o", percent=100 * 1_000_000),)).of(POOL, NODE)
    assert (price.micros, price.basis) == (2 * OF_FORMULA, "formula")


def test_the_heaviest_overlay_that_selects_the_node_counts() -> None:
    elsewhere = (Requirement("topology.kubernetes.io/zone", "NotIn", ("a",)),)
    overlays = by_weight(
        (
            PriceOverlay(name="light", weight=1, price=1),
            PriceOverlay(name="b", weight=5, price=3),
            PriceOverlay(name="a", weight=5, price=2),
            PriceOverlay(name="other", weight=9, price=4, requirements=elsewhere),
        )
    )
    assert PriceBook(overlays=overlays).of(POOL, NODE).micros == 2


def test_the_formula_counts_every_kind_of_gpu() -> None:
    node = structs.replace(NODE, scalars=(("amd.com/gpu", 1), ("example.com/fpga", 5), ("nvidia.com/gpu", 2)))
    assert PriceFormula(gpu=700_000).of(node) == OF_FORMULA + 3 * 700_000


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("0", 0),
        ("0.096", 96_000),
        ("12", 12_000_000),
        ("0.0000004", 0),
        ("0.0000005", 1),
        ("1.00000049999999999999", 1_000_000),
        ("1000000", 10**12),
    ],
)
def test_a_decimal_number_is_read_exactly(text: str, want: int) -> None:
    assert micros_of(text) == want


@pytest.mark.parametrize(
    "text", ["", "-1", "+1", "1e3", ".5", "1.", "1,5", "0x1", "nan", "inf", "\u0661", "1000001", " 1", "$1"]
)
def test_what_is_no_price_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="number"):
        micros_of(text)


@pytest.mark.parametrize(("micros", "want"), [(0, "0.00"), (1, "0.000001"), (96_000, "0.096"), (2_500_000, "2.50")])
def test_an_amount_is_written_with_every_digit(micros: int, want: str) -> None:
    assert decimal_text(micros) == want
    assert micros_of(want) == micros


def test_a_sum_says_whether_a_part_of_it_is_computed_by_the_formula() -> None:
    table, formula, provider = (Price(micros=1_000, currency="USD", basis=basis) for basis in BASES)
    assert cost_of([]) is None
    assert cost_of([(table, 0)]) is None
    for nodes, want in (
        ([(table, 2)], "table"),
        ([(table, 1), (provider, 1)], "mixed"),
        ([(table, 9), (formula, 1)], "formula"),
    ):
        cost = cost_of(nodes)
        assert cost is not None
        assert (cost.micros, cost.basis) == (1_000 * sum(count for _, count in nodes), want)


def test_a_table_goes_to_the_planning_process_as_one_piece_of_bytes() -> None:
    table = PriceTable({("m5.large", "a", "spot"): 7, ("m5.large", ANY, ANY): 9})
    again = pickle.loads(pickle.dumps(table))
    assert dict(again) == dict(table)
    assert pickle.loads(pickle.dumps(table)) is again  # decoded once
