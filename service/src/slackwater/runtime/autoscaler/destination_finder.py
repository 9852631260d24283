"""Answers drains' questions where their pods fit now: by a question to the planning process, which no plan delays.

In: `FindDestinations` of the state machine. Out: a `DestinationsFound` for each. One question serves all drains that asked
meanwhile. Invariant: each `FindDestinations` ends; without an answer, with the problem.
"""

import json
from collections.abc import Awaitable, Callable

import anyio
import structlog

from slackwater.controllers.scaledown.replica_plan import DestinationQuestion
from slackwater.model.effects import FindDestinations
from slackwater.model.events import Destination, DestinationsFound, Event

_log = structlog.get_logger(__name__)


class DestinationFinder:
    """`ask` sends a question to the planning process. `cutoff`: pods of lower priority are expendable. `on_event` applies an
    event to the state machine."""

    def __init__(
        self,
        ask: Callable[[Callable[[], DestinationQuestion]], Awaitable[bytes]],
        *,
        cutoff: int,
        on_event: Callable[[Event], None],
    ) -> None:
        self._ask = ask
        self._cutoff = cutoff
        self._on_event = on_event
        self._sought: list[FindDestinations] = []
        self._woken = anyio.Event()

    def take(self, sought: FindDestinations) -> None:
        """Queues the request; `run` answers it."""
        self._sought.append(sought)
        self._woken.set()

    async def run(self) -> None:
        """Answers requests until cancelled."""
        while True:
            await self._woken.wait()
            self._woken = anyio.Event()
            sought, self._sought = self._sought, []
            await self._answer(sought)

    async def _answer(self, sought: list[FindDestinations]) -> None:
        uids = tuple(uid for each in sought for uid in each.pods)
        found, problem = dict[str, Destination](), ""
        try:
            answer = await self._ask(lambda: DestinationQuestion(pods=uids, cutoff=self._cutoff))
            found = {each[0]: Destination(*each) for each in json.loads(answer)}
        except Exception as error:  # without an answer nothing is evicted, and the drains ask again
            _log.warning("destinations of leaving pods are not known", error=str(error))
            problem = f"where it fits is not known: {error}"
        for each in sought:
            of_node = tuple(found[uid] for uid in each.pods if uid in found)
            self._on_event(DestinationsFound(each.node, of_node, problem))
