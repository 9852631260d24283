"""What a node costs: prices as integers, and where each comes from.

`PriceBook.of` prices one node, `cost_of` adds prices up. In: the configuration's prices, Karpenter's NodeOverlays, a price
table, the provider's price. Out: a `Price` with its basis. A price is in millionths (micros) of the book's one currency, for
one node and one hour. Amounts are rounded to whole micros, halves up.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Annotated, Final, Literal, Self

import msgspec
from msgspec import Meta

from slackwater.model.ids import PPM
from slackwater.model.json_answer import JsonAnswer
from slackwater.model.nodegroups import GroupName
from slackwater.model.objects import Node
from slackwater.model.resources import GPUS
from slackwater.model.selectors import EVERYTHING, Requirement, selects
from slackwater_protocol.money import LARGEST_PRICE, MICROS, decimal_text, rounded

#: Where a price comes from. configured: the group's price in the configuration. overlay: a NodeOverlay. table: the price table.
#: provider: the group's provider. formula: computed of CPU, memory and GPUs, because nothing says the true price. mixed: a sum
#: of prices from different places.
Basis = Literal["configured", "overlay", "table", "provider", "formula", "mixed"]

_PERCENT: Final = 100
_GIB: Final = 2**30

_TYPES: Final = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
_ZONES: Final = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")
_CAPACITY_TYPES: Final = (
    "karpenter.sh/capacity-type",
    "eks.amazonaws.com/capacityType",
    "kubernetes.azure.com/scalesetpriority",
    "cloud.google.com/gke-provisioning",
    "node.kubernetes.io/lifecycle",
)
_SPOT_IF_TRUE: Final = ("cloud.google.com/gke-spot", "cloud.google.com/gke-preemptible")
#: The labels that say a node's instance type, zone and capacity type.
VARIANT_LABELS: Final = (*_TYPES, *_ZONES, *_CAPACITY_TYPES, *_SPOT_IF_TRUE)
_SAME_AS: Final = {"preemptible": "spot", **dict.fromkeys(("regular", "ondemand", "standard", "normal"), "on-demand")}
#: In a row of the table: any zone, or any capacity type.
ANY: Final = ""
#: In a row of the table: the zone of a node that says none, such as the template of a group in several zones.
UNKNOWN_ZONE: Final = "?"
#: The instance type, zone and capacity type of a row of the table.
RowKey = tuple[str, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What one node, or several together, cost an hour: `micros` millionths of `currency`."""

    micros: int
    currency: str
    basis: Basis

    @property
    def text(self) -> str:
        """Such as `1.92 USD`."""
        return f"{decimal_text(self.micros)} {self.currency}"


class HourlyPrice(JsonAnswer, frozen=True, kw_only=True):
    """What one node, or several together, cost an hour."""

    per_hour: Annotated[str, Meta(description="A decimal number, exact.")]
    currency: str
    basis: Annotated[Basis, Meta(description="Where the price comes from. formula: a part of it rests on the formula.")]

    @classmethod
    def of(cls, price: Price | None) -> Self | None:
        if price is None:
            return None
        return cls(per_hour=decimal_text(price.micros), currency=price.currency, basis=price.basis)


def basis_text(basis: Basis | None) -> str:
    return "priced by the formula" if basis == "formula" else f"prices: {basis or 'none'}"


def price_document(price: Price) -> dict[str, str]:
    """The price as JSON values."""
    return {"perHour": decimal_text(price.micros), "currency": price.currency, "basis": price.basis}


def cost_of(nodes: Iterable[tuple[Price, int]]) -> Price | None:
    """What so many nodes at each price cost together, all in one currency; None if there are no nodes. The sum rests on the
    formula if a part of it does."""
    counted = [(price, count) for price, count in nodes if count]
    if not counted:
        return None
    bases = {price.basis for price, _ in counted}
    basis: Basis = "formula" if "formula" in bases else bases.pop() if len(bases) == 1 else "mixed"
    micros = sum(price.micros * count for price, count in counted)
    return Price(micros=micros, currency=counted[0][0].currency, basis=basis)


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceFormula:
    """The price of a node of which nothing else says one: so many micros an hour for each CPU, GiB of memory and GPU that is
    allocatable.

    The defaults, in US dollars, are those with which Cluster Autoscaler prices an unknown machine of Google Compute Engine
    (cpuPricePerHour, memoryPricePerHourPerGb, gpuPricePerHour in cloudprovider/gce/gce_price_info.go). Other clouds have other
    levels, but similar ratios.
    """

    cpu: int = 33_174
    memory: int = 4_446
    gpu: int = 700_000

    def of(self, node: Node) -> int:
        """The price in micros. More of a resource never costs less."""
        return self.of_amounts({"cpu": node.allocatable.cpu, "memory": node.allocatable.memory, **dict(node.scalars)})

    def of_amounts(self, amounts: Mapping[str, int]) -> int:
        """The price in micros of amounts by resource name: CPU in milliCPU, memory in bytes, GPUs by number."""
        gpus = sum(amount for name, amount in amounts.items() if name in GPUS)
        cpu, memory = (max(amounts.get(name, 0), 0) for name in ("cpu", "memory"))
        amount = (self.cpu * cpu + self.gpu * max(gpus, 0) * 1000) * _GIB + self.memory * memory * 1000
        return min(rounded(amount, 1000 * _GIB), LARGEST_PRICE)


FORMULA: Final = PriceFormula()
#: The currency of the formula's defaults.
FORMULA_CURRENCY: Final = "USD"


@dataclass(frozen=True, slots=True, kw_only=True)
class Discount:
    """A factor, in ppm, on prices of the table and the formula, for nodes that carry all `labels`."""

    labels: tuple[tuple[str, str], ...]
    ppm: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceOverlay:
    """The price part of a Karpenter NodeOverlay, for nodes whose labels meet `requirements`: exactly one of a price, an amount
    to add and a change in percent, in micros (of one percent). The sum is never below 0."""

    name: str
    weight: int = 0
    requirements: tuple[Requirement, ...] = EVERYTHING
    price: int | None = None
    added: int = 0
    percent: int = 0

    def changed(self, micros: int) -> int:
        """The price after the change, of one before it."""
        if self.price is not None:
            return self.price
        changed = micros + self.added + rounded(micros * self.percent, _PERCENT * MICROS)
        return min(max(changed, 0), LARGEST_PRICE)


class PriceTable(Mapping[RowKey, int]):
    """The rows of a price table, micros by key. A pickle of it is one piece of bytes: the planning process gets all prices with
    each inquiry, and to copy thousands of rows would hold up the event loop."""

    __slots__ = ("_packed", "_rows")

    def __init__(self, rows: Mapping[RowKey, int]) -> None:
        self._rows = rows
        self._packed = msgspec.msgpack.encode([(*key, micros) for key, micros in rows.items()])

    def __getitem__(self, key: RowKey) -> int:
        return self._rows[key]

    def __iter__(self) -> Iterator[RowKey]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __reduce__(self) -> tuple[Callable[[bytes], "PriceTable"], tuple[bytes]]:
        return _unpacked, (self._packed,)


@lru_cache(maxsize=2)
def _unpacked(packed: bytes) -> PriceTable:
    rows = msgspec.msgpack.decode(packed, type=list[tuple[str, str, str, int]])
    return PriceTable({(kind, zone, capacity): micros for kind, zone, capacity, micros in rows})


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceBook:
    """All known prices, in one currency. `table`: micros by (instance type, zone, capacity type), the latter two perhaps `ANY`.
    `overlays`: the first that selects a node counts (`by_weight`). `discounts`: the first whose labels a node carries
    counts."""

    currency: str = FORMULA_CURRENCY
    configured: Mapping[GroupName, int] = field(default_factory=dict)
    overlays: tuple[PriceOverlay, ...] = ()
    table: Mapping[RowKey, int] = field(default_factory=dict)
    discounts: tuple[Discount, ...] = ()
    formula: PriceFormula = FORMULA

    def of(self, group: GroupName, node: Node, *, provider: int | None = None) -> Price:
        """The price of a node of the group. `provider`: the price that its provider says, in micros; None if it says none.

        The price comes from the first of these that knows one: the group's configuration, a NodeOverlay's price, the table, the
        provider, the formula. A NodeOverlay that only adjusts changes the price of the last three.
        """
        if (micros := self.configured.get(group)) is not None:
            return self._price(micros, "configured")
        overlay = next((overlay for overlay in self.overlays if selects(overlay.requirements, node.labels)), None)
        if overlay is not None and overlay.price is not None:
            return self._price(overlay.price, "overlay")
        price = self._listed(node, provider)
        if overlay is None:
            return price
        return self._price(overlay.changed(price.micros), "formula" if price.basis == "formula" else "overlay")

    def _listed(self, node: Node, provider: int | None) -> Price:
        if (listed := self._in_table(node)) is not None:
            return self._price(self._discounted(node, listed), "table")
        if provider is not None:
            return self._price(provider, "provider")
        return self._price(self._discounted(node, self.formula.of(node)), "formula")

    def _price(self, micros: int, basis: Basis) -> Price:
        return Price(micros=micros, currency=self.currency, basis=basis)

    def _in_table(self, node: Node) -> int | None:
        """The price of the row that matches the node. A row with its capacity type comes before a row with its zone."""
        kind, zone, capacity = instance_type_of(node), zone_of(node) or UNKNOWN_ZONE, capacity_type_of(node)
        rows = ((kind, zone, capacity), (kind, ANY, capacity), (kind, zone, ANY), (kind, ANY, ANY))
        return next((self.table[row] for row in rows if row in self.table), None)

    def _discounted(self, node: Node, micros: int) -> int:
        for discount in self.discounts:
            if all(node.labels.get(key) == value for key, value in discount.labels):
                return min(rounded(micros * discount.ppm, PPM), LARGEST_PRICE)
        return micros


def by_weight(overlays: Iterable[PriceOverlay]) -> tuple[PriceOverlay, ...]:
    """NodeOverlays in the order in which Karpenter applies them: the heaviest first, of equal ones by name."""
    return tuple(sorted(overlays, key=lambda overlay: (-overlay.weight, overlay.name)))


def instance_type_of(node: Node) -> str:
    """The node's instance type; "" if no label says it."""
    return _first(node, _TYPES)


def zone_of(node: Node) -> str:
    """The node's zone; "" if no label says it."""
    return _first(node, _ZONES)


def capacity_type_of(node: Node) -> str:
    """The node's capacity type in Karpenter's words (spot, on-demand, reserved); on-demand if no label says another."""
    if any(node.labels.get(key) == "true" for key in _SPOT_IF_TRUE):
        return "spot"
    return capacity_type(_first(node, _CAPACITY_TYPES)) or "on-demand"


def capacity_type(text: str) -> str:
    """A cloud's word for a capacity type in Karpenter's words."""
    found = text.lower().replace("_", "-").replace(" ", "-")
    return _SAME_AS.get(found, found)


def _first(node: Node, keys: tuple[str, ...]) -> str:
    return next((node.labels[key] for key in keys if node.labels.get(key)), "")
