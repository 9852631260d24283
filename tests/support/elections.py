"""Replicas that want to lead, on virtual time: a Lease of the sandbox, and a way to it that can be stopped."""

from collections.abc import AsyncGenerator
from contextlib import aclosing, nullcontext
from dataclasses import dataclass, field
from random import Random
from typing import Final

import anyio

from slackwater.adapters.api_calls import Call, Params, Response
from slackwater.adapters.kube.errors import NoAnswer
from slackwater.adapters.kube.lease_store import ApiLease
from slackwater.controllers.leadership.elector import LeaderElector, LeaderElectorConfig, LeaseFollower
from slackwater.controllers.leadership.lease import Lease
from slackwater.controllers.leadership.state import Leadership
from slackwater.model.ids import Instant
from slackwater.sandbox.embedded.server import ApiServer
from slackwater.sandbox.embedded_demo import EmbeddedApi

EPOCH: Final = 1.8e9
CONFIG: Final = LeaderElectorConfig(lease_seconds=15, renew_seconds=10.0, retry_seconds=2.0)


class StoppableApi:
    """Implements `adapters.api_calls.ApiPort`. While `stopped` nothing passes; what was about to leave does so afterwards,
    also when nobody waits for it any more: `late` counts those, by the status they met."""

    def __init__(self, server: ApiServer, delay_seconds: float = 0.001) -> None:
        self._api = EmbeddedApi(server)
        self._delay = delay_seconds
        self._goes = anyio.Event()
        self._goes.set()
        self._held: list[Call] = []
        self.late: list[tuple[str, str, int]] = []

    @property
    def stopped(self) -> bool:
        return not self._goes.is_set()

    def stop(self) -> None:
        """As SIGSTOP."""
        self._goes = anyio.Event()

    async def go_on(self) -> None:
        """As SIGCONT: first leaves what was in the middle of it."""
        held, self._held = self._held, []
        for call in held:
            answer = await self._api.send(call)
            self.late.append((call.method, call.path, answer.status))
        self._goes.set()

    async def send(self, call: Call) -> Response:
        if self.stopped and call.method != "GET":
            self._held.append(call)
        try:
            with nullcontext() if call.timeout_seconds is None else anyio.fail_after(call.timeout_seconds):
                if self.stopped and call.method != "GET":
                    await anyio.sleep_forever()
                await self._goes.wait()
                await anyio.sleep(self._delay)
                return await self._api.send(call)
        except TimeoutError as error:
            raise NoAnswer(f"{call}: no answer in time", timed_out=True) from error

    async def stream(self, path: str, *, params: Params, silence_seconds: float) -> AsyncGenerator[list[bytes], None]:
        async with aclosing(self._api.stream(path, params=params, silence_seconds=silence_seconds)) as arriving:
            async for lines in arriving:
                await self._goes.wait()
                yield lines


@dataclass
class Candidate:
    """One replica's election. `offset` is what its monotonic clock is ahead, `skew` what its wall clock is, in seconds."""

    name: str
    server: ApiServer
    offset: float = 0.0
    skew: float = 0.0
    config: LeaderElectorConfig = CONFIG
    leadership: Leadership = field(init=False)
    api: StoppableApi = field(init=False)

    def __post_init__(self) -> None:
        self.leadership = Leadership(self.clock)
        self.api = StoppableApi(self.server)
        self.lease = ApiLease(self.api, namespace="kube-system", name="slackwater")

    def clock(self) -> Instant:
        return Instant(anyio.current_time() + self.offset)

    def holding(self) -> LeaderElector:
        return LeaderElector(
            self.lease,
            self.leadership,
            identity=f"{self.name}_1",
            config=self.config,
            clock=self.clock,
            wall=lambda: EPOCH + anyio.current_time() + self.skew,
            rng=Random(self.name),
        )

    def following(self) -> LeaseFollower:
        return LeaseFollower(
            self.lease, self.leadership, names={self.name}, retry_seconds=0.5, clock=self.clock, rng=Random(self.name)
        )


def a_server() -> ApiServer:
    return ApiServer(rng=Random(1), wall=lambda: EPOCH + anyio.current_time())


async def written_by_a_scheduler(lease: ApiLease, holder: str, renewal: int) -> None:
    """One renewal, as kube-scheduler writes it."""
    found = await lease.read(timeout_seconds=1)
    version = "" if found is None else found.version
    renewed = f"2026-01-01T00:00:{renewal % 60:02}.{renewal:06}Z"
    wanted = Lease(holder=holder, seconds=15, renewed=renewed, acquired="2026-01-01T00:00:00.000000Z", version=version)
    assert await lease.write(wanted, timeout_seconds=1) is not None
