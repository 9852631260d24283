"""The log of the sides in the service: the process that writes it, and the parts in which it is read."""

import tempfile
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import ExitStack
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final

from slackwater import __version__
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

_LINES_IN_PART: Final = 500
_NAME: Final = "report.ndjson"


class WrittenLog:
    """Writes the log while it runs. Called, it is the `ports.protocols.ReportLog`.

    Without a path in the settings, the log is in a folder of its own, which goes with the object."""

    def __init__(
        self,
        settings: Settings,
        feed: ReplicaFeed,
        *,
        sides: Sides,
        registry: Callable[[], GroupRegistryView | None],
        times: Times,
    ) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="slackwater-") if settings.report.file is None else None
        self._path = settings.report.file or str(Path(self._folder.name if self._folder else "") / _NAME)
        self._times = times
        start = Start(
            settings=settings,
            version=__version__,
            path=self._path,
            max_bytes=settings.report.max_bytes,
            sides=sides,
        )
        self.process = CounterfactualProcess(feed, start, registry=registry, times=times)

    async def run(self) -> None:
        """Runs until cancelled."""
        await self.process.run()

    async def __call__(self, since_seconds: float | None) -> AsyncGenerator[bytes, None]:
        since = 0.0 if since_seconds is None else self._times.wall() - since_seconds
        with ExitStack() as opened:
            try:
                log = await in_thread(lambda: opened.enter_context(log_files(self._path)))
            except OSError as error:
                raise NothingThere(f"nothing is in the log yet: {error.strerror}") from error
            lines = log.lines(since)
            while some := await in_thread(partial(_some, lines)):
                yield written(some)


def _some(lines: Iterator[AnyLine]) -> list[AnyLine]:
    return list(islice(lines, _LINES_IN_PART))
