"""What lies between the service and the API server: every request may be lost, late, doubled or refused, every watch may break.

One `Wire` for each life of the service. When that is killed its wire is `dead`: nothing of it passes any more, and whatever
still runs of it waits in vain.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, nullcontext
from dataclasses import replace
from random import Random
from typing import Final

import anyio

from slackwater.adapters.api_calls import Call, Params, Read, Response
from slackwater.adapters.kube.errors import NoAnswer, StatusError, Unreachable
from slackwater.sandbox.embedded.faults import Fault
from slackwater.sandbox.embedded.server import ApiServer
from slackwater.sandbox.embedded.timers import Timers
from slackwater.sandbox.embedded_demo import EmbeddedApi, answered_by
from tests.faults.promises import SentBinds
from tests.faults.provider_faults import Sky

#: A write that was on its way when its connection broke is over by then: what the service relies on for binds (10 s).
_LATEST_SECONDS: Final = 9.0
_REFUSALS: Final = ((429, "TooManyRequests"), (500, "InternalError"), (503, "ServiceUnavailable"), (504, "Timeout"))


#: Method, path and body of a request; what it returns takes the status of the answer.
About = Callable[[str, str, bytes | None], Callable[[int], None]]


class Wire:
    """Implements `adapters.api_calls.ApiPort`. `about` learns of each request before the server carries it
    out, and of its status after that."""

    def __init__(self, server: ApiServer, timers: Timers, sky: Sky, rng: Random, *, about: About, binds: SentBinds) -> None:
        self._server = server
        self._api = EmbeddedApi(server)
        self._timers = timers
        self._sky = sky
        self._rng = rng
        self._about = about
        self.binds = binds
        self.dead = False
        self.outage = False
        self.disk_seconds = 0.0  #: at most, that a write takes before it is done, and again before that is told

    def sent(self, body: bytes | None) -> bytes | None:
        """The body as it leaves the service."""
        return body

    async def send(self, call: Call) -> Response:
        def carry_out() -> Response:
            reported = self._about(call.method, call.path, call.body)
            answer = answered_by(self._server, call if isinstance(call, Read) else replace(call, body=self.sent(call.body)))
            reported(answer.status)
            return answer

        try:
            with nullcontext() if call.timeout_seconds is None else anyio.fail_after(call.timeout_seconds):
                return await self._pass(call.method, carry_out)
        except TimeoutError as error:
            raise NoAnswer(f"{call}: no answer in time", timed_out=True) from error

    async def _pass(self, method: str, carry_out: Callable[[], Response]) -> Response:
        provider_faults, chance = self._sky.now, self._rng.random
        disk = 0.0 if method == "GET" else self.disk_seconds
        await self._travel(disk)
        if self._dark() or chance() < provider_faults.lost_before / 2:
            raise Unreachable(f"{method}: connection refused")
        if chance() < provider_faults.lost_before / 2:
            raise NoAnswer(f"{method}: broken off", timed_out=False)
        if chance() < provider_faults.refused:
            return self._refusal(method)
        if method != "GET" and chance() < provider_faults.ghost:

            def late() -> None:
                carry_out()

            self._timers.after(self._rng.uniform(0.05, _LATEST_SECONDS), late)
            raise NoAnswer(f"{method}: broken off on its way", timed_out=False)
        answer = carry_out()
        if method != "GET" and chance() < provider_faults.doubled:
            answer = carry_out()
        await self._travel(disk)
        if self._dark() or chance() < provider_faults.lost_after:
            raise NoAnswer(f"{method}: broken off on the way back", timed_out=False)
        return answer

    def _refusal(self, method: str) -> Response:
        found = [*_REFUSALS, *([] if method == "GET" else [(409, "Conflict")])]
        code, reason = self._rng.choice(found)
        return Fault(code, reason, "as the simulation has it", retry_after=1 if code == 429 else None).answer()

    def _dark(self) -> bool:
        """It changes while one waits."""
        return self.outage

    async def _travel(self, disk: float = 0.0) -> None:
        slow = self._sky.now.slow
        await anyio.sleep(0.001 + slow * self._rng.random() ** 4 * 20 + disk * self._rng.random())
        if self.dead:
            await anyio.sleep_forever()

    async def stream(self, path: str, *, params: Params, silence_seconds: float) -> AsyncGenerator[list[bytes], None]:
        await self._travel()
        if self._dark() or self._rng.random() < self._sky.now.lost_before:
            raise Unreachable(f"watch {path}: connection refused")
        async with aclosing(self._api.stream(path, params=params, silence_seconds=silence_seconds)) as arriving:
            async for lines in arriving:
                provider_faults = self._sky.now
                await anyio.sleep(provider_faults.watch_lag * self._rng.random() ** 2 * 3)
                if self.dead:
                    await anyio.sleep_forever()
                if self._rng.random() < provider_faults.watch_expires:
                    raise self._expired(path)
                if self._dark() or self._rng.random() < provider_faults.watch_breaks:
                    # What one read completed arrived; the rest of the lines did not.
                    if some := lines[: self._rng.randrange(len(lines) + 1)]:
                        yield some
                    raise NoAnswer(f"watch {path}: broken off", timed_out=False)
                yield lines

    def _expired(self, path: str) -> StatusError:
        self._server.store.compact()
        self._server.forget_lists()
        return StatusError(f"watch {path}", code=410, reason="Expired", message="too old", after_seconds=None)
