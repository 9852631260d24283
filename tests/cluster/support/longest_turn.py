"""Runs the service as its command line does, and writes what its event loop's turns take.

    python longest_turn.py FILE serve --config=...

A line of FILE is one turn of 10 ms or more: when it ended (`time.monotonic`), and how many milliseconds of CPU the loop's
thread took.
Between two turns of the task here, every other task has had at most one step or a few: the numbers are upper bounds of a step.
"""

import sys
import time
from pathlib import Path
from typing import Final

import anyio

from slackwater.cli.main import main
from slackwater.runtime.intake import Intake

_FROM_SECONDS: Final = 0.01
_EVERY_SECONDS: Final = 0.001

_run: Final = Intake.run


async def _watched(path: Path) -> None:
    with path.open("a", buffering=1) as file:
        while True:
            before = time.thread_time()
            await anyio.sleep(_EVERY_SECONDS)
            seconds = time.thread_time() - before
            if seconds >= _FROM_SECONDS:
                file.write(f"{time.monotonic():.3f} {1000 * seconds:.1f}\n")


async def _run_watched(self: Intake) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(_watched, Path(FILE))
        await _run(self)


if __name__ == "__main__":
    FILE = sys.argv.pop(1)
    Intake.run = _run_watched  # type: ignore[method-assign]
    sys.exit(main())
