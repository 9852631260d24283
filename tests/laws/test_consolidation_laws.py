"""Whatever fails while nodes are replaced: nothing stays cordoned, nobody loses their room, what was bought in vain goes."""

from collections.abc import Callable
from random import Random

import pytest

from slackwater.model.events import PausesSeen
from slackwater.model.pauses import Pause
from slackwater.ports.protocols import ProviderErrorKind
from tests.support.cloud import MachineOutcome
from tests.support.replacing import ConsolidationScene
from tests.support.seeds import FRESH

pytestmark = pytest.mark.anyio

#: `make soak` plays all of them.
SEEDS = range(30 if FRESH else 3)
BOOTS: tuple[MachineOutcome, ...] = ("fine", "fine", "fine", "failed", "silent", "unready")
REFUSALS: tuple[ProviderErrorKind, ...] = ("quota", "other", "out-of-resources", "unknown")


def partly_empty(draw: Random) -> ConsolidationScene:
    """Large and middle nodes that are partly empty, with budgets on some workloads, and groups that could replace them."""
    scene = ConsolidationScene()
    scene.machines("large", 32, size=draw.randint(1, 4))
    scene.machines("middle", 16, size=draw.randint(0, 3))
    scene.machines("small", 8)
    for pool in map(scene.cloud.pool, scene.cloud.pool_names()):
        pool.boot_outcome = drawn(draw.random())
    scene.settle()
    for node in sorted(scene.shown_nodes()):
        replicas = draw.randint(1, 6)
        least = draw.choice((None, None, replicas - 1, replicas))
        scene.runs(f"web-{node}", [node] * replicas, cpu=draw.choice(("1", "2")), least=least)
    return scene


def drawn(seed: float) -> Callable[[int], MachineOutcome]:
    """The outcome of the nth machine, always the same for one seed."""
    return lambda nth: Random(f"{seed} {nth}").choice(BOOTS)


async def disturb(scene: ConsolidationScene, draw: Random) -> None:
    """Something happens that consolidation cannot foresee."""
    match draw.randrange(8):
        case 0:
            scene.restart()
        case 1:
            scene.cloud.refuse(draw.choice(REFUSALS), draw.randint(1, 3))
        case 2:
            scene.cloud.lose_answers(1, done=draw.random() < 0.5)
        case 3:
            scene.cloud.breaks()
            await scene.pass_time(draw.choice((20, 60)))
            scene.cloud.breaks(None)
        case 4:
            pauses = (Pause(activity=draw.choice(("scale-down", "scale-up")), note=""),)
            scene.carry_out(scene.state_machine.apply(PausesSeen(pauses), scene.now))
            await scene.pass_time(30)
            scene.carry_out(scene.state_machine.apply(PausesSeen(()), scene.now))
        case 5:
            scene.wants_many(draw.randint(1, 3), cpu="3", tag=f"late-{scene.time.seconds:.0f}-")
        case 6:
            some = draw.choice(sorted(scene.workloads))
            scene.refused.symmetric_difference_update({some})
        case _:
            pass


@pytest.mark.parametrize("seed", SEEDS)
async def test_whatever_fails_nothing_is_left_behind(seed: int) -> None:
    draw = Random(seed)
    scene = partly_empty(draw)
    for _ in range(6):
        await scene.pass_time(draw.choice((30, 60, 90)))
        await disturb(scene, draw)
    scene.refused.clear()
    for pool in map(scene.cloud.pool, scene.cloud.pool_names()):
        pool.boot_outcome = lambda _: "fine"
    await scene.pass_time(5400)
    assert (scene.left_behind(), scene.pending(), scene.state_machine.drains.nodes) == ([], 0, {})
    assert (scene.empty_nodes(), scene.moves()) == ([], 0)
    assert scene.watched.violations == []
