"""When filter's answer waits: bounded, and for what is so at that moment."""

from random import Random

import anyio

from slackwater.model.objects import Pod
from slackwater.run.patience import Patience
from tests.faults.virtualloop import run_virtually
from tests.support.builders import a_pod

POD = a_pod("p")


class Others:
    """So many seconds are wanted for the others; then no more."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def due(self, pod: Pod) -> bool:
        return pod is POD and self.seconds > 0

    async def wait(self, _pod: Pod) -> None:
        await anyio.sleep(self.seconds)
        self.seconds = 0.0


async def waited(patience: Patience) -> float:
    began = anyio.current_time()
    if patience.due(POD):
        await patience.wait(POD)
    return round(anyio.current_time() - began, 3)


def test_an_answer_waits_until_binds_do_not_stand_in_line_any_more() -> None:
    async def main() -> None:
        assert await waited(Patience(lambda: False)) == 0
        assert await waited(Patience(lambda: anyio.current_time() < 0.3)) == 0.3
        assert await waited(Patience(lambda: True)) == 1.0, "slowed down, and not stopped"

    run_virtually(Random(1), main)


def test_it_waits_for_others_first_and_then_for_the_line_that_is_left() -> None:
    async def main() -> None:
        assert await waited(Patience(lambda: False, head_start=Others(0.4))) == 0.4
        assert await waited(Patience(lambda: False, head_start=Others(0.0))) == 0
        began = anyio.current_time()
        assert await waited(Patience(lambda: anyio.current_time() < began + 0.7, head_start=Others(0.4))) == 0.7

    run_virtually(Random(1), main)
