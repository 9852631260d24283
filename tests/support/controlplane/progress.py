"""Shows a build's progress: one line that changes on a terminal, plain lines anywhere else."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, TextIO

from rich.console import Console
from rich.progress import Progress as LiveLine
from rich.progress import SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from tests.support.controlplane.build import BuildStep, Progress

#: The longest time without a line in a log, so that a long build step does not look stuck.
QUIET_SECONDS: Final = 30.0


@contextmanager
def shown_on(stream: TextIO) -> Iterator[Progress]:
    """Yields a progress callback for `build`, which writes to `stream`. Nothing is written if the build is in the cache."""
    if not stream.isatty():
        yield _PlainLines(stream)
        return
    line = _OneLine(stream)
    try:
        yield line
    finally:
        line.clear()


def described(step: BuildStep) -> str:
    """A step in words, for example "[5/9] building the control plane: kube-apiserver, 812 packages compiled"."""
    compiled = f", {step.packages} packages compiled" if step.packages else ""
    return f"[{step.index}/{step.total}] building the control plane: {step.name}{compiled}"


class _OneLine:
    def __init__(self, stream: TextIO) -> None:
        columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
        console = Console(file=stream, force_terminal=True)
        self._live = LiveLine(*columns, console=console, transient=True)
        self._task: TaskID | None = None

    def __call__(self, step: BuildStep) -> None:
        if self._task is None:
            self._live.start()
            self._task = self._live.add_task("", total=None)
        self._live.update(self._task, description=described(step))

    def clear(self) -> None:
        if self._task is not None:
            self._live.stop()


class _PlainLines:
    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._last = BuildStep(name="", index=0, total=0, seconds=0.0)

    def __call__(self, step: BuildStep) -> None:
        started = step.index != self._last.index
        overdue = step.seconds - self._last.seconds >= QUIET_SECONDS
        if not (started or overdue or step.state == "done"):
            return
        self._last = step
        ending = f": {step.seconds:.1f} s" if step.state == "done" else " ..."
        print(f"{described(step)}{ending}", file=self._stream, flush=True)
