"""Demand that goes up and down around thresholds: with a least age of nodes, none is added and removed within an hour, and no
pod is moved twice."""

from collections.abc import Callable
from dataclasses import replace
from math import pi, sin
from random import Random

import pytest

from tests.support import installed
from tests.support.replacing import ConsolidationScene
from tests.support.seeds import FRESH

pytestmark = pytest.mark.anyio

HOUR = 3600.0
#: Seconds between two changes of the demand.
STEP = 300.0
RULES = replace(installed.CONSOLIDATION, enabled=True)
SCALE_DOWN = replace(installed.SCALE_DOWN, min_node_age=HOUR)


def around_a_threshold(step: int, draw: Random) -> tuple[int, str]:
    """So many pods of a size as just fit, and a few more or fewer."""
    return 15 + draw.randint(-3, 3), "1"


def alternating(step: int, draw: Random) -> tuple[int, str]:
    """Many small pods, then few large ones."""
    return (24, "1") if step % 4 < 2 else (4, "7")


def a_wave(step: int, draw: Random) -> tuple[int, str]:
    return round(16 + 14 * sin(2 * pi * step / 8)), "2"


def bursts(step: int, draw: Random) -> tuple[int, str]:
    return (draw.randint(10, 30), "1") if draw.random() < 0.3 else (3, "1")


Trace = Callable[[int, Random], tuple[int, str]]
#: Each with machines that boot, and with every third one failing. CI plays two, `make soak` all.
TRACES: list[tuple[Trace, int, bool]] = [
    *((trace, seed, seed == 1) for trace in (around_a_threshold, alternating, a_wave, bursts) for seed in (0, 1)),
    (bursts, 2, False),
    (around_a_threshold, 2, True),
]


@pytest.mark.parametrize(("trace", "seed", "failing"), TRACES if FRESH else TRACES[1:3])
async def test_no_node_is_added_and_removed_within_an_hour_and_no_pod_moves_twice(
    trace: Trace, seed: int, failing: bool
) -> None:
    draw = Random(seed)
    scene = ConsolidationScene(scale_down=SCALE_DOWN, rules=RULES)
    scene.machines("large", 32)
    scene.machines("small", 8)
    for pool in map(scene.cloud.pool, scene.cloud.pool_names()):
        pool.boot_outcome = lambda nth: "failed" if failing and nth % 3 == 1 else "fine"
    for step in range(30):
        scene.demand(*trace(step, draw))
        await scene.pass_time(STEP)
    assert {name: seconds for name, seconds in scene.lives.items() if seconds < HOUR} == {}
    assert scene.moved_twice == []
