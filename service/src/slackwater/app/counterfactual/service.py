"""The log of the sides in the service: the process that writes it, and the parts in which it is read."""

import tempfile
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import ExitStack
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final

from slackwater.app.counterfactual.lines import AnyLine, Sides, written
from slackwater.app.counterfactual.observation import Start
from slackwater.app.counterfactual.process import CounterfactualProcess
from slackwater.app.report.log_files import log_files
from slackwater.app.settings import Settings
from slackwater.app.whatif.question import GroupRegistryView
from slackwater.ports.clock import Times
from slackwater.ports.protocols import NothingThere
from slackwater.ports.threads import in_thread
from slackwater.runtime.planner.replica_feed import ReplicaFeed
from slackwater.runtime.record_file import RecordError
from slackwater_protocol import __version__

_LINES_IN_PART: Final = 500
_NAME: Final = "report.ndjson"


class WrittenLog:
    """Writes the log while it runs. Called, it is the `ports.protocols.ReportLog`.

    Without a path in the settings, the log is in a folder of its own, which goes with the run. Raises `RecordError` if the file
    cannot be written."""

    def __init__(
        self,
        settings: Settings,
        feed: ReplicaFeed,
        *,
        sides: Sides,
        registry: Callable[[], GroupRegistryView | None],
        pods_came: Callable[[], int],
        times: Times,
    ) -> None:
        self.process = CounterfactualProcess(feed, registry=registry, pods_came=pods_came, times=times)
        self._settings, self._sides, self._times = settings, sides, times
        #: None until it is known where the log is.
        self._path = settings.report.file
        if self._path is not None:
            _try(self._path)

    async def run(self) -> None:
        """Runs until cancelled. Raises `RecordError`."""
        with ExitStack() as folders:
            if self._path is None:
                self._path = _in_new_folder(folders)
            start = Start(
                settings=self._settings,
                version=__version__,
                path=self._path,
                max_bytes=self._settings.report.max_bytes,
                sides=self._sides,
            )
            await self.process.run(start)

    async def __call__(self, since_seconds: float | None) -> AsyncGenerator[bytes, None]:
        path = self._path
        if path is None:
            raise NothingThere("nothing is in the log yet")
        since = 0.0 if since_seconds is None else self._times.wall() - since_seconds
        with ExitStack() as opened:
            try:
                log = await in_thread(lambda: opened.enter_context(log_files(path)))
            except OSError as error:
                raise NothingThere(f"nothing is in the log yet: {error.strerror}") from error
            lines = log.lines(since)
            while some := await in_thread(partial(_some, lines)):
                yield written(some)


def _try(path: str) -> None:
    try:
        Path(path).touch(0o600)
    except OSError as error:
        raise RecordError(f"report.file: {path}: cannot be written: {error}") from error


def _in_new_folder(folders: ExitStack) -> str:
    try:
        return str(Path(folders.enter_context(tempfile.TemporaryDirectory(prefix="slackwater-"))) / _NAME)
    except OSError as error:
        raise RecordError(f"report.file is not set, and there is no folder for temporary files: {error}") from error


def _some(lines: Iterator[AnyLine]) -> list[AnyLine]:
    return list(islice(lines, _LINES_IN_PART))
