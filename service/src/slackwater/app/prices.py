"""Makes the price book of the settings, a table in a file and Karpenter's NodeOverlays."""

from collections.abc import Iterable, Mapping

from slackwater.app.price_table import read_price_table
from slackwater.app.settings import Settings
from slackwater.controllers.scaleup.settings import Prices
from slackwater.model.ids import PPM
from slackwater.model.nodegroups import GroupName
from slackwater.model.prices import Discount, PriceBook, PriceFormula, PriceOverlay, RowKey, by_weight


def has_prices(settings: Settings) -> bool:
    """True if prices are configured, or decide: by the expander `price`, or in consolidation. Then answers show costs."""
    autoscaler = settings.autoscaler
    return (
        autoscaler.prices is not None
        or "price" in autoscaler.expanders
        or autoscaler.consolidation.enabled
        or any(group.price is not None for group in autoscaler.node_groups)
    )


def price_book_of(
    settings: Settings, *, overlays: Iterable[PriceOverlay] = (), table: Mapping[RowKey, int] | None = None
) -> PriceBook | None:
    """The price book; None if no prices are configured. `table`: the rows of the table, if it was read before; else its file is
    read. Raises `SettingsError`."""
    return every_price(settings, overlays=overlays, table=table) if has_prices(settings) else None


def every_price(
    settings: Settings, *, overlays: Iterable[PriceOverlay] = (), table: Mapping[RowKey, int] | None = None
) -> PriceBook:
    """The price book, for a plan that needs prices: that of the formula if none are configured. Raises `SettingsError`."""
    prices = settings.autoscaler.prices or Prices()
    if table is None:
        table = {} if prices.table is None else read_price_table(prices.table, prices.currency)
    formula, groups = prices.formula, settings.autoscaler.node_groups
    return PriceBook(
        currency=prices.currency,
        configured={GroupName(group.name): group.price for group in groups if group.price is not None},
        overlays=by_weight(overlays),
        table=table,
        discounts=tuple(
            Discount(labels=tuple(sorted(each.node_labels.items())), ppm=round(each.factor * PPM)) for each in prices.discounts
        ),
        formula=PriceFormula(cpu=formula.cpu, memory=formula.memory, gpu=formula.gpu),
    )
