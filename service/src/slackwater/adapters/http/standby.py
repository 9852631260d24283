"""What a standby answers: kube-scheduler gets an error, an agent the leader's answer.

Each is an application in front of the one that decides, and asks before each request who leads: whoever does not lead decides
nothing, also not for a request that began before. Deliberately absent: who leads (`run/leading`), and the way to the leader
(`forwarding`).
"""

from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from slackwater.adapters.http.http_server import Answer, Application, Headers, Request, Terms

#: A scheduler that leads and asks has heard of it before us, by milliseconds. It waits longer than this for an answer.
_HEAR_SECONDS: Final = 1.0
_TEXT: Final = b"text/plain"
_SOON: Final[Headers] = ((b"retry-after", b"1"),)


class Stand(Protocol):
    """Whether this replica decides."""

    def leads(self) -> bool: ...

    async def awaited(self, seconds: float) -> bool:
        """Whether it does, after one more look; within `seconds`."""
        ...


class Forwarder(Protocol):
    """Takes a request to the leader. Never raises."""

    #: Names, in lower case, of the headers that it wants to see.
    headers: frozenset[bytes]

    async def forward(self, request: Request) -> Answer: ...


class LedExtender:
    """The extender listener's application, where replicas stand beside one another. `holder` names whoever leads, "" nobody."""

    def __init__(self, app: Application, stand: Stand, *, holder: Callable[[], str]) -> None:
        self._app = app
        self._stand = stand
        self._holder = holder

    @property
    def terms(self) -> Terms:
        return self._app.terms

    def answer(self, request: Request) -> Answer | Awaitable[Answer]:
        return self._app.answer(request) if self._stand.leads() else self._answer_if_leading(request)

    async def _answer_if_leading(self, request: Request) -> Answer:
        if await self._stand.awaited(_HEAR_SECONDS):
            found = self._app.answer(request)
            return found if isinstance(found, Answer) else await found
        return self.refusal(503, request.path, _standby(self._holder()))

    def refusal(self, status: int, path: str, message: str) -> Answer:
        return self._app.refusal(status, path, message)


class LedAgents:
    """The agents listener's application, where replicas stand beside one another. `forwarder` is None where there is no way."""

    def __init__(self, app: Application, stand: Stand, *, holder: Callable[[], str], forwarder: Forwarder | None) -> None:
        self._app = app
        self._stand = stand
        self._holder = holder
        self._forwarder = forwarder

    @property
    def terms(self) -> Terms:
        terms = self._app.terms
        if self._forwarder is None:
            return terms
        return Terms(
            max_body_bytes=terms.max_body_bytes,
            read_body_bytes=terms.read_body_bytes,
            arrive_seconds=terms.arrive_seconds,
            headers=terms.headers | self._forwarder.headers,
            ends_with_caller=terms.ends_with_caller,
        )

    def answer(self, request: Request) -> Answer | Awaitable[Answer]:
        if not self._stand.leads():
            return self._unled() if self._forwarder is None else self._forwarder.forward(request)
        found = self._app.answer(request)
        return found if isinstance(found, Answer) else self._answer_while_leading(found)

    async def _answer_while_leading(self, pending: Awaitable[Answer]) -> Answer:
        """What was waited for is no promise any more where another leads by then."""
        answer = await pending
        return answer if self._stand.leads() else self._unled()

    def _unled(self) -> Answer:
        return Answer(503, _standby(self._holder()).encode(), _TEXT, _SOON)

    def refusal(self, status: int, path: str, message: str) -> Answer:
        return self._app.refusal(status, path, message)


def _standby(holder: str) -> str:
    return f"this replica does not lead: {f'the lease names {holder}' if holder else 'the lease names nobody'}"
