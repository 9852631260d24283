"""What a node costs: prices as integers, and where each comes from.

`PriceBook.of` prices one node. In: the configuration's prices, Karpenter's NodeOverlays, a price table, the provider's price.
Out: a `Price` with its basis. A price is in millionths (micros) of the book's one currency, for one node and one hour. Amounts
are rounded to whole micros, halves up.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from slackwater.model.nodegroups import GroupName
from slackwater.model.objects import Node
from slackwater.model.resources import GPUS
from slackwater.model.selectors import EVERYTHING, Requirement, selects

#: Where a price comes from. configured: the group's price in the configuration. overlay: a NodeOverlay. table: the price table.
#: provider: the group's provider. formula: computed of CPU, memory and GPUs, because nothing says the true price.
Basis = Literal["configured", "overlay", "table", "provider", "formula"]

MICROS: Final = 1_000_000
_PPM: Final = 1_000_000
_PERCENT: Final = 100
_GIB: Final = 2**30
#: The largest price that can be written: a thousand million an hour. So sums over nodes stay far below 2^63.
LARGEST_PRICE: Final = 10**9 * MICROS

_TYPES: Final = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
_ZONES: Final = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")
_CAPACITY_TYPES: Final = (
    "karpenter.sh/capacity-type",
    "eks.amazonaws.com/capacityType",
    "kubernetes.azure.com/scalesetpriority",
)
_SPOT_IF_TRUE: Final = ("cloud.google.com/gke-spot", "cloud.google.com/gke-preemptible")
_SAME_AS: Final = {"preemptible": "spot", "regular": "on-demand", "ondemand": "on-demand"}
#: In a row of the table: any zone, or any capacity type.
ANY: Final = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What one node costs an hour: `micros` millionths of `currency`."""

    micros: int
    currency: str
    basis: Basis


def _rounded(amount: int, divisor: int) -> int:
    return (2 * amount + divisor) // (2 * divisor)


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
        gpus = sum(amount for name, amount in node.scalars if name in GPUS)
        cpu, memory = node.allocatable.not_below_zero()
        amount = (self.cpu * cpu + self.gpu * max(gpus, 0) * 1000) * _GIB + self.memory * memory * 1000
        return min(_rounded(amount, 1000 * _GIB), LARGEST_PRICE)


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
        changed = micros + self.added + _rounded(micros * self.percent, _PERCENT * MICROS)
        return min(max(changed, 0), LARGEST_PRICE)


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceBook:
    """All known prices, in one currency. `table`: micros by (instance type, zone, capacity type), the latter two perhaps `ANY`.
    `overlays`: the first that selects a node counts. `discounts`: the first whose labels a node carries
    counts."""

    currency: str = "USD"
    configured: Mapping[GroupName, int] = field(default_factory=dict)
    overlays: tuple[PriceOverlay, ...] = ()
    table: Mapping[tuple[str, str, str], int] = field(default_factory=dict)
    discounts: tuple[Discount, ...] = ()
    formula: PriceFormula = PriceFormula()

    def of(self, group: GroupName, node: Node, *, provider: int | None = None) -> Price:
        """The price of a node of the group. `provider`: what its provider says, in micros; None if it says nothing.

        The first counts that knows a price: the group's configured price, a NodeOverlay's price, the table, the provider, the
        formula. A NodeOverlay that only adjusts changes what the last three say.
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
        """The price of the row that fits the node; of several, one of its capacity type comes before one of its zone."""
        kind, zone, capacity = _first(node, _TYPES), _first(node, _ZONES), capacity_type_of(node)
        rows = ((kind, zone, capacity), (kind, ANY, capacity), (kind, zone, ANY), (kind, ANY, ANY))
        return next((self.table[row] for row in rows if row in self.table), None)

    def _discounted(self, node: Node, micros: int) -> int:
        for discount in self.discounts:
            if all(node.labels.get(key) == value for key, value in discount.labels):
                return min(_rounded(micros * discount.ppm, _PPM), LARGEST_PRICE)
        return micros


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
