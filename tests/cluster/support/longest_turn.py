"""Runs the service as its command line does, and writes what its event loop's turns take.

    python longest_turn.py FILE serve --config=...

A line of FILE is one turn of 10 ms or more: when it ended (`time.monotonic`), how many milliseconds of CPU the loop's thread
took, and, of a turn of 40 ms or more, the places in the code that were seen while it went on, the most frequent first.
Between two turns of the task here, every other task has had at most one step or a few: the numbers are upper bounds of a step.
"""

import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Final

import anyio

from slackwater.cli.main import main
from slackwater.runtime.intake import Intake

_FROM_SECONDS: Final = 0.01
_EVERY_SECONDS: Final = 0.001
_NAMED_FROM_SECONDS: Final = 0.04
_LOOK_SECONDS: Final = 0.004
_DEEPEST: Final = 14

_run: Final = Intake.run


class _Looks:
    """Looks at the loop's thread every few milliseconds, and remembers what it was in since the last turn."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self._seen: Counter[str] = Counter()
        threading.Thread(target=self._look, daemon=True).start()

    def _look(self) -> None:
        while True:
            time.sleep(_LOOK_SECONDS)
            frame = sys._current_frames().get(self._thread)
            names: list[str] = []
            while frame is not None and len(names) < _DEEPEST:
                names.append(f"{Path(frame.f_code.co_filename).stem}.{frame.f_code.co_name}:{frame.f_lineno}")
                frame = frame.f_back
            self._seen["<".join(names)] += 1

    def taken(self) -> Counter[str]:
        seen, self._seen = self._seen, Counter()
        return seen


async def _watched(path: Path) -> None:
    looks = _Looks()
    with path.open("a", buffering=1) as file:
        while True:
            before = time.thread_time()
            looks.taken()
            await anyio.sleep(_EVERY_SECONDS)
            seconds = time.thread_time() - before
            if seconds >= _FROM_SECONDS:
                seen = looks.taken().most_common(12) if seconds >= _NAMED_FROM_SECONDS else []
                file.write(" ".join([f"{time.monotonic():.3f} {1000 * seconds:.1f}", *(f"{n}x{s}" for s, n in seen)]) + "\n")


async def _run_watched(self: Intake) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(_watched, Path(FILE))
        await _run(self)


if __name__ == "__main__":
    FILE = sys.argv.pop(1)
    Intake.run = _run_watched  # type: ignore[method-assign]
    sys.exit(main())
