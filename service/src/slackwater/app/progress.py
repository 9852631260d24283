"""Shows a command's progress as one changing line on stderr, removed at the end. Shows nothing if stderr is no terminal.

with shown() as progress:
    progress.step("reading cluster.json")
    ...
    for line in progress.counted(lines, "judging pods", total=len(pending)):
"""

import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TextIO, TypeVar

if TYPE_CHECKING:
    from rich.progress import Progress as LiveLine

T = TypeVar("T")

#: The shortest time between two changes of the line.
_EVERY_SECONDS: Final = 0.1


class Progress:
    """The progress line on a stream. With the stream None, nothing is shown."""

    def __init__(self, stream: TextIO | None) -> None:
        self._live = None if stream is None else _live_line(stream)
        self._next = 0.0

    def step(self, what: str, *, total: int | None = None) -> None:
        """Begins a step with the text `what`. Without a total, the bar shows activity but no share."""
        if self._live is not None:
            for task in self._live.task_ids:
                self._live.remove_task(task)
            self._live.add_task(what, total=total)
            self._live.start()

    def at(self, done: int) -> None:
        """Notes how much of the step is done, in the unit of its total. Cheap: it redraws at most every `_EVERY_SECONDS`."""
        if self._live is not None and (now := time.monotonic()) >= self._next:
            self._next = now + _EVERY_SECONDS
            for task in self._live.task_ids:
                self._live.update(task, completed=done)

    def counted(self, items: Iterable[T], what: str, *, total: int | None = None) -> Iterator[T]:
        """Yields the items, and shows how many of them were taken, as a step with the text `what`."""
        self.step(what, total=total)
        for done, item in enumerate(items, 1):
            self.at(done)
            yield item

    def clear(self) -> None:
        """Removes the line for good, so that other output can be written to the terminal."""
        if self._live is not None:
            self._live.stop()
            self._live = None


@contextmanager
def shown(stream: TextIO | None = None) -> Iterator[Progress]:
    """A progress line on stderr or another stream, removed when the context ends, by an exception too."""
    stream = sys.stderr if stream is None else stream
    progress = Progress(stream if stream.isatty() else None)
    try:
        yield progress
    finally:
        progress.clear()


def _live_line(stream: TextIO) -> "LiveLine":
    from rich.console import Console
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as LiveLine

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    # By default rich would redirect what commands write to stdout and stderr.
    console = Console(file=stream)
    return LiveLine(*columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False)
