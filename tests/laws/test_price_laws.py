"""What holds for the prices of all nodes."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from slackwater.model.nodegroups import GroupName
from slackwater.model.objects import Node
from slackwater.model.prices import ANY, Discount, PriceBook, PriceFormula, PriceOverlay
from slackwater.model.resources import GPUS, LARGEST_ON_NODE, amounts_of
from slackwater_protocol.money import LARGEST_PRICE
from tests.support.builders import a_node

POOL = GroupName("pool")
AMOUNT = st.integers(0, LARGEST_ON_NODE)
COEFFICIENT = st.integers(0, LARGEST_PRICE)
MICROS = st.integers(0, LARGEST_PRICE)
LABELS = st.fixed_dictionaries(
    {},
    optional={
        "node.kubernetes.io/instance-type": st.sampled_from(("m5.large", "c5.large")),
        "topology.kubernetes.io/zone": st.sampled_from("ab"),
        "karpenter.sh/capacity-type": st.sampled_from(("spot", "on-demand", "reserved")),
    },
)
ROW = st.tuples(
    st.sampled_from(("m5.large", "c5.large")),
    st.sampled_from((ANY, "a", "b")),
    st.sampled_from((ANY, "spot", "on-demand", "reserved")),
)
OVERLAY = st.builds(
    PriceOverlay,
    name=st.just("o"),
    price=st.none() | MICROS,
    added=st.integers(-LARGEST_PRICE, LARGEST_PRICE),
    percent=st.integers(-(10**8), 10**10),
)
BOOK = st.builds(
    PriceBook,
    configured=st.dictionaries(st.just(POOL), MICROS),
    overlays=st.lists(OVERLAY, max_size=1).map(tuple),
    table=st.dictionaries(ROW, MICROS, max_size=4),
    discounts=st.lists(st.builds(Discount, labels=st.just(()), ppm=st.integers(0, 2_000_000)), max_size=1).map(tuple),
)


def sized(cpu: int, memory: int, gpus: int, labels: dict[str, str] | None = None) -> Node:
    node = a_node("n", labels=labels)
    return structs.replace(node, allocatable=amounts_of((cpu, memory)), scalars=((min(GPUS), gpus),))


@given(st.tuples(AMOUNT, AMOUNT, AMOUNT), st.tuples(AMOUNT, AMOUNT, AMOUNT), st.tuples(COEFFICIENT, COEFFICIENT, COEFFICIENT))
def test_a_larger_node_never_costs_less(
    one: tuple[int, int, int], other: tuple[int, int, int], each: tuple[int, int, int]
) -> None:
    formula = PriceFormula(cpu=each[0], memory=each[1], gpu=each[2])
    cpu, memory, gpus = map(max, one, other)
    assert formula.of(sized(*one)) <= formula.of(sized(cpu, memory, gpus)) <= LARGEST_PRICE


@given(BOOK, LABELS, st.none() | MICROS)
def test_every_node_has_a_price_whose_basis_knows_it(book: PriceBook, labels: dict[str, str], provider: int | None) -> None:
    price = book.of(POOL, sized(4_000, 2**34, 0, labels), provider=provider)
    assert 0 <= price.micros <= LARGEST_PRICE
    fixed = any(overlay.price is not None for overlay in book.overlays)
    listed = labels.get("node.kubernetes.io/instance-type", "") in {row[0] for row in book.table}
    if POOL in book.configured:
        assert price.basis == "configured"
    elif fixed:
        assert price.basis == "overlay"
    elif provider is None and price.basis != "formula":
        assert listed
    elif provider is not None:
        assert price.basis == "overlay" if book.overlays else price.basis in ("table", "provider")
