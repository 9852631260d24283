"""Shows a command's progress on stderr: on a terminal as one changing line with share and time left, removed at the end;
elsewhere, if it was asked for, as a line now and then. Otherwise it shows nothing.

with shown() as progress:
    progress.step("reading cluster.json")
    ...
    for line in progress.counted(lines, "judging pods", total=len(pending)):
"""

import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Protocol, TextIO, TypeVar

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress

T = TypeVar("T")

#: The shortest time between two changes of the line on a terminal, and between two lines elsewhere.
_EVERY_SECONDS: Final = 0.1
_EVERY_LINE_SECONDS: Final = 5.0


class _Display(Protocol):
    def step(self, what: str, total: int | None) -> None: ...
    def at(self, done: int, total: int | None) -> None: ...
    def stop(self) -> None: ...


class Progress:
    """The progress of the present step. With the display None, nothing is shown."""

    def __init__(self, display: _Display | None) -> None:
        self._display = display

    def step(self, what: str, *, total: int | None = None) -> None:
        """Begins a step with the text `what`. Without a total, the bar shows activity but no share."""
        if self._display is not None:
            self._display.step(what, total)

    def at(self, done: int, total: int | None = None) -> None:
        """Notes how much of the step is done, in the unit of its total, and the total if that became known or changed. Cheap:
        little is drawn, however often it is called."""
        if self._display is not None:
            self._display.at(done, total)

    def counted(self, items: Iterable[T], what: str, *, total: int | None = None) -> Iterator[T]:
        """Yields the items, and shows how many of them were taken, as a step with the text `what`."""
        self.step(what, total=total)
        for done, item in enumerate(items, 1):
            self.at(done)
            yield item

    def clear(self) -> None:
        """Removes the line for good, so that other output can be written to the terminal."""
        if self._display is not None:
            self._display.stop()
            self._display = None


@contextmanager
def shown(stream: TextIO | None = None, *, forced: bool = False) -> Iterator[Progress]:
    """Progress on stderr or another stream, removed when the context ends, by an exception too. `forced`: also if the stream
    is no terminal."""
    stream = sys.stderr if stream is None else stream
    display: _Display | None = None
    if stream.isatty():
        display = _Line(stream)
    elif forced:
        display = _Lines(stream)
    progress = Progress(display)
    try:
        yield progress
    finally:
        progress.clear()


class _Line:
    """One line of a terminal, which `rich` draws. It appears with the first step."""

    def __init__(self, stream: TextIO) -> None:
        self._live = _live_line(stream)
        self._next = 0.0

    def step(self, what: str, total: int | None) -> None:
        for task in self._live.task_ids:
            self._live.remove_task(task)
        self._live.add_task(what, total=total)
        self._live.start()

    def at(self, done: int, total: int | None) -> None:
        if (now := time.monotonic()) >= self._next:
            self._next = now + _EVERY_SECONDS
            for task in self._live.task_ids:
                self._live.update(task, completed=done, total=total)

    def stop(self) -> None:
        self._live.stop()


class _Lines:
    """Lines of a stream that is no terminal: one for each step, and one now and then while a step lasts."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._what, self._total, self._begun, self._next = "", 0, 0.0, 0.0

    def step(self, what: str, total: int | None) -> None:
        self._what, self._total, self._begun = what, total or 0, time.monotonic()
        self._next = self._begun + _EVERY_LINE_SECONDS
        self._write(what)

    def at(self, done: int, total: int | None) -> None:
        self._total = total or self._total
        if (now := time.monotonic()) < self._next:
            return
        self._next = now + _EVERY_LINE_SECONDS
        if not self._total or not done:
            self._write(f"{self._what}: {done}")
            return
        left = (now - self._begun) * max(self._total - done, 0) / done
        self._write(f"{self._what}: {min(100 * done // self._total, 100)} %, about {left:.0f} s left")

    def stop(self) -> None:
        """Lines stay."""

    def _write(self, text: str) -> None:
        print(f"slackwater: {text}", file=self._stream, flush=True)


def _live_line(stream: TextIO) -> "RichProgress":
    from rich.console import Console
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as RichProgress

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("left:"),
        TimeRemainingColumn(compact=True),
    )
    # By default rich would redirect what commands write to stdout and stderr.
    console = Console(file=stream)
    return RichProgress(*columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False)
