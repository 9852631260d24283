"""The answers of a replica that does not lead: an error for kube-scheduler, and the leader's answer for an agent.

Each class wraps the application that decides, and checks the leader before each request. A replica that does not lead decides
nothing, not even for a request that began while it led. The election is elsewhere (`controllers/leadership`), as is the
connection to the leader (`forwarding`).
"""

from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from slackwater.adapters.http.http_server import Answer, Application, Headers, Request, Terms

#: A kube-scheduler that has just become the leader may call milliseconds before we know that we lead. It waits longer than
#: this.
_HEAR_SECONDS: Final = 1.0
_TEXT: Final = b"text/plain"
_SOON: Final[Headers] = ((b"retry-after", b"1"),)


class Stand(Protocol):
    """Tells whether this replica leads."""

    def leads(self) -> bool: ...

    async def awaited(self, seconds: float) -> bool:
        """Whether this replica leads after another look at the Lease, within `seconds`."""
        ...


class Forwarder(Protocol):
    """Forwards a request to the leader. Never raises."""

    #: Names, in lower case, of the headers that it needs.
    headers: frozenset[bytes]

    async def forward(self, request: Request) -> Answer: ...


class LedExtender:
    """The extender listener's application if there are several replicas. `holder` returns the leader's name, "" without one."""

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
    """The agents listener's application if there are several replicas. `forwarder` is None if requests cannot be forwarded."""

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
        """Answers, unless another replica has become the leader in the meantime: then the answer is worth nothing."""
        answer = await pending
        return answer if self._stand.leads() else self._unled()

    def _unled(self) -> Answer:
        return Answer(503, _standby(self._holder()).encode(), _TEXT, _SOON)

    def refusal(self, status: int, path: str, message: str) -> Answer:
        return self._app.refusal(status, path, message)


def _standby(holder: str) -> str:
    return f"this replica does not lead: {f'the lease names {holder}' if holder else 'the lease names nobody'}"
