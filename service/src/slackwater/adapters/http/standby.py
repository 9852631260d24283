"""Applications that answer on a replica with leader election: requests are served only while the replica leads.

A standby answers kube-scheduler with an error, and forwards agents' requests to the leader. `LedExtender` and `LedAgents` wrap
the applications that decide, and check the leadership before each request; `LedAgents` checks it again before a delayed answer.
The leadership itself comes through `LeadershipView`; `forwarding` talks to the leader.
"""

from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from slackwater.adapters.http.application import Answer, Application, Headers, Request, RequestTerms

#: How long a standby waits before it refuses a call of kube-scheduler. The kube-scheduler in our Pod may learn that it leads,
#: and call, milliseconds before this replica learns that it leads too. kube-scheduler's own timeout is longer.
_LEASE_READ_SECONDS: Final = 1.0
_TEXT: Final = b"text/plain"
_SOON: Final[Headers] = ((b"retry-after", b"1"),)


class LeadershipView(Protocol):
    """Says whether this replica leads."""

    def leads(self) -> bool: ...

    async def awaited(self, seconds: float) -> bool:
        """Waits up to `seconds` until the Lease has been read once more; returns whether this replica leads then."""
        ...


class Forwarder(Protocol):
    """Forwards a request to the leader and returns the answer. Never raises."""

    #: Names, in lower case, of the headers that the forwarder reads.
    headers: frozenset[bytes]

    async def forward(self, request: Request) -> Answer: ...


class LedExtender:
    """The extender listener's application with leader election. `holder` returns the Lease's holder, "" if there is none."""

    def __init__(self, app: Application, leadership_view: LeadershipView, *, holder: Callable[[], str]) -> None:
        self._app = app
        self._leadership_view = leadership_view
        self._holder = holder

    @property
    def terms(self) -> RequestTerms:
        return self._app.terms

    def answer(self, request: Request) -> Answer | Awaitable[Answer]:
        return self._app.answer(request) if self._leadership_view.leads() else self._answer_if_leading(request)

    async def _answer_if_leading(self, request: Request) -> Answer:
        if await self._leadership_view.awaited(_LEASE_READ_SECONDS):
            found = self._app.answer(request)
            return found if isinstance(found, Answer) else await found
        return self.refusal(503, request.path, _standby(self._holder()))

    def refusal(self, status: int, path: str, message: str) -> Answer:
        return self._app.refusal(status, path, message)


class LedAgents:
    """The agents listener's application with leader election.

    `holder` returns the Lease's holder, "" if there is none. Without a `forwarder` a standby answers with 503.
    """

    def __init__(
        self, app: Application, leadership_view: LeadershipView, *, holder: Callable[[], str], forwarder: Forwarder | None
    ) -> None:
        self._app = app
        self._leadership_view = leadership_view
        self._holder = holder
        self._forwarder = forwarder

    @property
    def terms(self) -> RequestTerms:
        terms = self._app.terms
        if self._forwarder is None:
            return terms
        return RequestTerms(
            max_body_bytes=terms.max_body_bytes,
            read_body_bytes=terms.read_body_bytes,
            arrive_seconds=terms.arrive_seconds,
            headers=terms.headers | self._forwarder.headers,
            ends_with_caller=terms.ends_with_caller,
        )

    def answer(self, request: Request) -> Answer | Awaitable[Answer]:
        if not self._leadership_view.leads():
            return self._no_leader() if self._forwarder is None else self._forwarder.forward(request)
        found = self._app.answer(request)
        return found if isinstance(found, Answer) else self._answer_while_leading(found)

    async def _answer_while_leading(self, pending: Awaitable[Answer]) -> Answer:
        """Awaits a delayed answer. If this replica does not lead any more by then, answers 503.

        The new leader does not know the delayed answer, so nobody would act by it.
        """
        answer = await pending
        return answer if self._leadership_view.leads() else self._no_leader()

    def _no_leader(self) -> Answer:
        return Answer(503, _standby(self._holder()).encode(), _TEXT, _SOON)

    def refusal(self, status: int, path: str, message: str) -> Answer:
        return self._app.refusal(status, path, message)


def _standby(holder: str) -> str:
    return f"this replica does not lead: {f'the lease names {holder}' if holder else 'the lease names nobody'}"
