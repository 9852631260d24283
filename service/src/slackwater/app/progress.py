"""What takes so long: one line on stderr that changes and is gone at the end, where stderr is a terminal; elsewhere nothing.

    with shown() as progress:
        progress.step("reading cluster.json")
        ...
        for line in progress.counted(lines, "judging pods", total=len(pending)):

Deliberately absent: the build of a control plane (`controlplane.progress`), whose minutes are told in lines to CI too.
"""

import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TextIO, TypeVar

if TYPE_CHECKING:
    from rich.progress import Progress as LiveLine

T = TypeVar("T")

#: Between two changes of the line.
_EVERY_SECONDS: Final = 0.1


class Progress:
    """`stream` None: nothing is shown. `at` is how far the present step is, in the unit of its total."""

    def __init__(self, stream: TextIO | None) -> None:
        self._live = None if stream is None else _live_line(stream)
        self._next = 0.0

    def step(self, what: str, *, total: int | None = None) -> None:
        """What is done from now on. Without a total the bar only says that something is."""
        if self._live is not None:
            for task in self._live.task_ids:
                self._live.remove_task(task)
            self._live.add_task(what, total=total)
            self._live.start()

    def at(self, done: int) -> None:
        """Cheap: looks at the clock, and seldom at the line."""
        if self._live is not None and (now := time.monotonic()) >= self._next:
            self._next = now + _EVERY_SECONDS
            for task in self._live.task_ids:
                self._live.update(task, completed=done)

    def counted(self, items: Iterable[T], what: str, *, total: int | None = None) -> Iterator[T]:
        """The items, as a step that counts them."""
        self.step(what, total=total)
        for done, item in enumerate(items, 1):
            self.at(done)
            yield item

    def clear(self) -> None:
        """The line is gone, for good: what is written now has the terminal for itself."""
        if self._live is not None:
            self._live.stop()
            self._live = None


@contextmanager
def shown(stream: TextIO | None = None) -> Iterator[Progress]:
    """On stderr, or another stream; gone at the end, however that comes."""
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
    # What commands write to stdout is theirs: nothing of it may be caught for the line's sake.
    console = Console(file=stream)
    return LiveLine(*columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False)
