"""The price book of the settings."""

from pathlib import Path

import pytest

from slackwater.app.prices import price_book_of
from slackwater.app.settings import SettingsError, loads
from slackwater.model.nodegroups import GroupName
from slackwater.model.prices import ANY, FORMULA, Discount, PriceBook, PriceFormula, PriceOverlay
from tests.support.configuration import HEADER

POOL = GroupName("pool")


def book_of(autoscaler: str) -> PriceBook | None:
    return price_book_of(loads(f"{HEADER}autoscaler: {autoscaler}"))


def test_without_prices_in_the_configuration_there_is_no_book() -> None:
    assert book_of("{expanders: [least-waste], nodeGroups: [{name: pool}]}") is None


def test_a_price_of_a_group_or_an_empty_section_makes_one() -> None:
    assert book_of('{nodeGroups: [{name: pool, price: "0.0960001"}, {name: other}]}') == PriceBook(configured={POOL: 96_000})
    assert book_of("{nodeGroups: [{name: pool, price: 1e-5}]}") == PriceBook(configured={POOL: 10})
    assert book_of("{prices: {}}") == PriceBook()


def test_the_book_has_what_the_section_says(tmp_path: Path) -> None:
    table = tmp_path / "prices.csv"
    table.write_text("instance type,price per hour,currency\nm5.large,0.1,EUR\n")
    formula = "formula: {cpu: 0.03, memory: 0.004, gpu: 0.6}"
    discounts = "discounts: [{nodeLabels: {lifecycle: spot}, factor: 0.35}]"
    assert book_of(f"{{prices: {{currency: EUR, table: {table}, {formula}, {discounts}}}}}") == PriceBook(
        currency="EUR",
        table={("m5.large", ANY, ANY): 100_000},
        formula=PriceFormula(cpu=30_000, memory=4_000, gpu=600_000),
        discounts=(Discount(labels=(("lifecycle", "spot"),), ppm=350_000),),
    )


def test_the_formulas_defaults_hold_in_their_own_currency_alone() -> None:
    with pytest.raises(SettingsError, match="formula: got not all prices, want cpu, gpu in EUR: the defaults are in USD"):
        book_of("{prices: {currency: EUR, formula: {memory: 0.004}}}")
    book = book_of("{prices: {formula: {memory: 0.004}}}")
    assert book is not None
    assert book.formula == PriceFormula(cpu=FORMULA.cpu, memory=4_000, gpu=FORMULA.gpu)


@pytest.mark.parametrize("price", ["-1", "true", ".inf", "1Gi", "2000000", '""'])
def test_what_is_no_price_is_refused(price: str) -> None:
    with pytest.raises(SettingsError, match="want a decimal number from 0 to 1000000 such as"):
        book_of(f"{{nodeGroups: [{{name: pool, price: {price}}}]}}")


def test_the_heaviest_overlay_comes_first() -> None:
    overlays = [PriceOverlay(name="b", weight=1, price=1), PriceOverlay(name="a", weight=2, price=2)]
    book = price_book_of(loads(f"{HEADER}autoscaler: {{prices: {{}}}}"), overlays=overlays)
    assert book is not None
    assert [overlay.name for overlay in book.overlays] == ["a", "b"]
