"""Runs the counterfactual's process for the service: sends it observations, and starts it again when it ends.

    counterfactual = CounterfactualProcess(feed, registry=..., times=times)
    tasks.start_soon(counterfactual.run, start)       # until cancelled

One observation is under way at a time: while the process is busy, the next one collects more changes. A process that ends, or
does not answer for `_PATIENCE` seconds, is followed by another one, which gets the whole cluster; both sides begin again then.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Final

import anyio
import msgspec
import structlog
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from slackwater.app.counterfactual.lines import Sample, Side
from slackwater.app.counterfactual.observation import FRAMED, Observation, Progress, Start
from slackwater.app.whatif.question import GroupRegistryView
from slackwater.model.exponential_backoff import ExponentialBackoff
from slackwater.model.ids import UnixTime
from slackwater.ports.clock import Times, Watch
from slackwater.ports.threads import in_thread
from slackwater.runtime.planner.children import how_ended
from slackwater.runtime.planner.pipe import LOST
from slackwater.runtime.planner.replica_feed import ReplicaFeed
from slackwater.runtime.planner.value_frames import Encoder, framed

_log = structlog.get_logger(__name__)

#: `-P`: Python imports nothing from the service's working directory.
COMMAND: Final = (sys.executable, "-P", "-m", "slackwater.app.counterfactual")
#: How often the real cluster is looked at. Its times are as exact as that, but when pods come is looked at more often.
OBSERVE_SECONDS: Final = 2.0
_COUNT_SECONDS: Final = 0.1
#: The first look waits for the node groups for so many looks: there may be none.
_LOOKS_FOR_GROUPS: Final = 30
#: A process that has not answered for so long hangs.
_PATIENCE: Final = 600.0
_END_SECONDS: Final = 5.0
_MOST_ANSWER_BYTES: Final = 1 << 20
_BACKOFF: Final = ExponentialBackoff(first_seconds=1.0, longest_seconds=60.0)
_LONG_LIFE: Final = 60.0


class CounterfactualProcess:
    """`pid`: of the process that runs, or ran last. `restarts`: how often one ended. `newest`: the newest sample of each side.
    `cpu_seconds`: of all processes."""

    def __init__(
        self,
        feed: ReplicaFeed,
        *,
        registry: Callable[[], GroupRegistryView | None],
        pods_came: Callable[[], int],
        times: Times,
        every: float = OBSERVE_SECONDS,
    ) -> None:
        """`registry`: the node groups now; None until they are known. `pods_came`: how many pods ever came."""
        self.pid = 0
        self.restarts = 0
        self.cpu_seconds = 0.0
        self.newest: Mapping[Side, Sample] = {}
        self._feed, self._registry, self._times, self._every = feed, registry, times, every
        self._pods_came = pods_came

    async def run(self, start: Start) -> None:
        short_lives = 0
        while True:
            began = self._times.monotonic()
            how = await self._run_once(start)
            self.restarts += 1
            short_lives = short_lives + 1 if self._times.monotonic() - began < _LONG_LIFE else 0
            _log.error("counterfactual ended", how=how, restarts=self.restarts)
            await anyio.sleep(_BACKOFF.seconds(short_lives))

    async def _run_once(self, start: Start) -> str:
        """Runs one process until it ends. Returns how it ended."""
        async with await anyio.open_process(
            COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=None, start_new_session=True
        ) as process:
            self.pid = process.pid
            _log.info("counterfactual runs", pid=process.pid)
            self._feed.begin()
            try:
                await self._observe(process, start)
            except LOST:
                pass  # it has ended
            except TimeoutError:
                _log.error("counterfactual hangs, and is ended", pid=process.pid, seconds=_PATIENCE)
            finally:
                self._feed.end()
                await _end(process)
            assert process.returncode is not None
            return how_ended(process.returncode)

    async def _observe(self, process: Process, start: Start) -> None:
        """Sends observations, and takes the progress, until the process ends. Raises `LOST` or TimeoutError."""
        assert process.stdout is not None
        encoder, answers, rebuild = Encoder(FRAMED), BufferedByteReceiveStream(process.stdout), True
        await _send(process, encoder, start)
        arrivals = Arrivals(self._pods_came, self._times)
        while True:
            registry = await self._known_registry(_LOOKS_FOR_GROUPS if rebuild else 0)
            changes = await self._feed.collect(Watch(self._times.monotonic))
            seen = Observation(
                at=UnixTime(self._times.wall()),
                changes=changes,
                rebuild=rebuild,
                registry=registry,
                now=self._times.monotonic(),
                came=arrivals.take(),
            )
            rebuild = False
            with anyio.fail_after(_PATIENCE):
                await _send(process, encoder, seen)
                answer = await answers.receive_until(b"\n", _MOST_ANSWER_BYTES)
            progress = msgspec.json.decode(answer, type=Progress)
            self.newest, self.cpu_seconds = progress.sides, self.cpu_seconds + progress.cpu_seconds
            await arrivals.count(self._every)

    async def _known_registry(self, looks: int) -> GroupRegistryView:
        """The node groups, once auxiliary objects are listed. It waits for the first loop too, which fills them, but no longer
        than for so many looks: a node that is taken before belongs to no group."""
        while (registry := self._registry()) is None or (looks and not registry.group_status):
            looks -= registry is not None
            await anyio.sleep(self._every)
        return registry


class Arrivals:
    """When pods came since the last call of `take`."""

    def __init__(self, pods_came: Callable[[], int], times: Times) -> None:
        self._pods_came, self._times = pods_came, times
        self._taken = pods_came()
        self._came: list[tuple[UnixTime, int]] = []

    async def count(self, seconds: float) -> None:
        """Counts for so long."""
        end = self._times.monotonic() + seconds
        while (left := end - self._times.monotonic()) > 0:
            await anyio.sleep(min(left, _COUNT_SECONDS))
            self._look()

    def take(self) -> tuple[tuple[UnixTime, int], ...]:
        self._look()
        came, self._came = self._came, []
        self._taken += came[-1][1] if came else 0
        return tuple(came)

    def _look(self) -> None:
        came = self._pods_came() - self._taken
        if came > (self._came[-1][1] if self._came else 0):
            self._came.append((UnixTime(self._times.wall()), came))


async def _end(process: Process) -> None:
    """Lets the process write its last lines, and kills it if that takes too long."""
    assert process.stdin is not None
    with anyio.CancelScope(shield=True):
        with anyio.move_on_after(_END_SECONDS):
            await process.stdin.aclose()
            await process.wait()
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
        await process.wait()


async def _send(process: Process, encoder: Encoder, message: Start | Observation) -> None:
    """Encodes in a thread, since nothing waits for it."""
    assert process.stdin is not None
    frames = encoder.frames(message)
    while (frame := await in_thread(partial(next, frames, None))) is not None:
        await process.stdin.send(framed(frame))
