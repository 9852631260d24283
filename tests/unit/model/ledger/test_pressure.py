"""When a node has too much pressure: the reference's section 2.6."""

import pytest

from slackwater.model.ledger import NodeAccount, too_much_pressure, weighted
from slackwater.model.resources import NOTHING, Amounts
from tests.support.builders import amounts


def numbers(
    *, reserved: int, watermark: int = 8000, capacity_pressure: int = 0, accounted_for: int = 0, buffer: int = 0
) -> NodeAccount:
    """CPU alone; memory is quiet."""
    return NodeAccount(
        total=amounts("10", "40Gi"),
        watermark=amounts(f"{watermark}m", "32Gi"),
        reserved=amounts(f"{reserved}m"),
        buffer=amounts(f"{buffer}m"),
        capacity_pressure=amounts(f"{capacity_pressure}m"),
        pressure_accounted_for=amounts(f"{accounted_for}m"),
        held=NOTHING,
    )


@pytest.mark.parametrize(
    ("node", "want"),
    [
        pytest.param(numbers(reserved=10_000, capacity_pressure=4500), True, id="worked-2000-plus-4500-above-0"),
        pytest.param(numbers(reserved=10_000, capacity_pressure=4500, accounted_for=500), True, id="worked-500-migrates"),
        pytest.param(numbers(reserved=10_000, capacity_pressure=4500, accounted_for=6500), False, id="all-accounted-for"),
        pytest.param(numbers(reserved=8000, buffer=4500), False, id="worked-buffer-is-slack"),
        pytest.param(numbers(reserved=8000, capacity_pressure=9000), False, id="not-above-the-watermark"),
        pytest.param(numbers(reserved=8001), True, id="just-above"),
        pytest.param(numbers(reserved=9000, buffer=1000), False, id="only-buffer-is-above"),
    ],
)
def test_pressure_against_what_migrations_account_for(node: NodeAccount, want: bool) -> None:
    assert too_much_pressure(node) is want


def test_memory_alone_is_enough_and_equal_to_its_watermark_is_not() -> None:
    quiet = numbers(reserved=0)
    at = quiet._replace(reserved=amounts("0", "32Gi"), capacity_pressure=amounts("0", "8Gi"))
    assert not too_much_pressure(at)
    assert too_much_pressure(at._replace(reserved=Amounts(at.reserved.cpu, at.watermark.memory + 1)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("pressure", "ppm", "want"),
    [(4500, 1_000_000, 4500), (4500, 500_000, 2250), (1, 500_000, 1), (3, 0, 1), (0, 500_000, 0), (3, 2_000_000, 6)],
)
def test_a_weight_never_makes_pressure_vanish(pressure: int, ppm: int, want: int) -> None:
    assert weighted(pressure, ppm) == want


def test_the_weight_decides_whether_denied_growth_starts_a_migration() -> None:
    node = numbers(reserved=8500, capacity_pressure=1000, accounted_for=1200)
    assert too_much_pressure(node)
    assert not too_much_pressure(node, weight_ppm=500_000)
