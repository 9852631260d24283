"""The agents listener's application: authenticates and decodes autoscaler-agents' requests, and asks the permit service.

`http_server` passes whole requests, and most are answered at once. Only a request that must wait gets a task and a deadline:
for a token's review, for the write of a permit limit, or for room (`Prefer: wait=N`). Statuses, texts and the order of checks
are those of Neon's scheduler plugin 0.36: POST on any path, the first JSON value of the first 1,024 bytes. Slackwater adds 401
and 403 if authentication is configured, 408, 503, and `Prefer: wait=N`. The permit service makes every decision on resources.
"""

import time
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

import anyio
import structlog

from slackwater.adapters.http import agent_messages
from slackwater.adapters.http.agent_messages import wait_seconds
from slackwater.adapters.http.application import RETRY_SOON, TEXT, Answer, Headers, Request, RequestTerms
from slackwater.controllers.permits.metrics import AgentMetrics
from slackwater.model.permits import Caller, PermitAnswer, PermitAsk, PermitRefusal
from slackwater.ports.protocols import PermitServing, Readiness
from slackwater_protocol.agent import MAX_BODY_BYTES

_log = structlog.get_logger(__name__)

#: The content type that Go's HTTP server sets for a text if the handler sets none.
_GUESSED: Final = b"text/plain; charset=utf-8"
NOT_POST: Final = Answer(400, b"must be POST", _GUESSED)
#: The status, in metrics only, of a request whose caller closed the connection.
_GONE: Final = 499
#: Bytes. The rest of a body up to this length is read and ignored; after a longer body the connection is closed.
_SKIPPED_BYTES: Final = 65_536
_BEARER: Final[Headers] = ((b"www-authenticate", b"Bearer"),)


class CallerAuthenticator(Protocol):
    """Authenticates the caller of a request; implemented by `authenticator`."""

    def at_once(self, headers: Headers, peer: str | None) -> Caller | PermitRefusal | None:
        """Returns the caller or a refusal; None if a token must be reviewed first."""

    async def caller(self, headers: Headers, peer: str | None, address: str) -> Caller | PermitRefusal:
        """Returns the caller or a refusal, after a review if needed. `address`: the caller's IP address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentLimits:
    """Limits of the agents listener. Times are in seconds."""

    max_requests: int = 16_384  #: concurrent requests, including those that wait
    max_wait_seconds: float = 30.0  #: greatest wait granted to `Prefer: wait`
    body_seconds: float = 5.0  #: from a request's first byte to its last
    answer_seconds: float = 5.0  #: deadline of a decision, in addition to the granted wait


class _Outcome(NamedTuple):
    """An answer with the labels for its metrics."""

    answer: Answer
    version: int = 0
    has_metrics: bool | None = None  #: None: the request could not be read
    node: str = ""  #: the pod's node; empty if it is not known


class _AgentAsk(NamedTuple):
    """A decoded request. `wanted` is the wait in seconds that its `Prefer` header asks for, `wait` the wait that we allow."""

    ask: PermitAsk
    wanted: int
    wait: float

    def outcome(self, answer: Answer, node: str = "") -> _Outcome:
        return _Outcome(answer, self.ask.version, self.ask.load is not None, node)


class AgentsApp:
    """The application of the agents listener. Without an `authenticator` every caller is accepted."""

    def __init__(
        self,
        *,
        permit_service: PermitServing,
        readiness: Readiness,
        metrics: AgentMetrics,
        authenticator: CallerAuthenticator | None = None,
        limits: AgentLimits = AgentLimits(),
    ) -> None:
        self._permit_service = permit_service
        self._readiness = readiness
        self._metrics = metrics
        self._authenticator = authenticator
        self._limits = limits
        self._in_flight = 0
        self.terms = RequestTerms(
            max_body_bytes=_SKIPPED_BYTES,
            read_body_bytes=MAX_BODY_BYTES,
            arrive_seconds=limits.body_seconds,
            headers=frozenset({b"prefer", b"authorization"}),
            ends_with_caller=True,
        )

    def answer(self, request: Request) -> Answer | Awaitable[Answer]:
        """Returns the answer; an awaitable if it needs a token review, a write of the permit limit, or room."""
        started = time.perf_counter()
        try:
            outcome = self._outcome(request, started)
        except Exception:
            outcome = _panicked()
        if isinstance(outcome, _Outcome):
            return self._noted(outcome, started)
        self._in_flight += 1
        return self._answer_later(outcome, started)

    async def _answer_later(self, pending: Awaitable[_Outcome], started: float) -> Answer:
        try:
            outcome = await pending
        except Exception:
            outcome = _panicked()
        finally:
            self._in_flight -= 1
        return self._noted(outcome, started)

    def refusal(self, status: int, _path: str, message: str) -> Answer:
        """Returns the error answer to a request whose body was left unread, such as one that is too large."""
        return self._noted(_Outcome(Answer(status, message.encode(), TEXT)), time.perf_counter())

    def _noted(self, outcome: _Outcome, started: float) -> Answer:
        status = outcome.answer.status
        self._metrics.observe(status, outcome.version, time.perf_counter() - started)
        if outcome.has_metrics is not None:
            self._metrics.result(status, outcome.node, has_metrics=outcome.has_metrics)
        return outcome.answer

    @contextmanager
    def _noting_hang_up(self, outcome: _Outcome, started: float) -> Iterator[None]:
        """Counts a request whose agent closed the connection: `http_server` cancels its pending answer."""
        try:
            yield
        except anyio.get_cancelled_exc_class():
            self._noted(outcome, started)
            raise

    # --- the checks -------------------------------------------------------------------------------------------------------

    def _outcome(self, request: Request, started: float) -> _Outcome | Awaitable[_Outcome]:
        if request.method != "POST":
            return _Outcome(NOT_POST)
        if self._in_flight >= self._limits.max_requests:
            text = b"%d requests in flight, want at most %d" % (self._in_flight + 1, self._limits.max_requests)
            return _Outcome(Answer(503, text, TEXT, RETRY_SOON))
        if self._authenticator is None:
            return self._asked(request, None, started)
        caller = self._authenticator.at_once(request.headers, request.peer)
        if caller is None:
            return self._reviewed(request, self._authenticator, started)
        return self._answer_caller(request, caller, started)

    async def _reviewed(self, request: Request, authenticator: CallerAuthenticator, started: float) -> _Outcome:
        with self._noting_hang_up(_Outcome(Answer(_GONE, b"")), started):
            caller = await authenticator.caller(request.headers, request.peer, request.address)
        outcome = self._answer_caller(request, caller, started)
        return outcome if isinstance(outcome, _Outcome) else await outcome

    def _answer_caller(
        self, request: Request, caller: Caller | PermitRefusal, started: float
    ) -> _Outcome | Awaitable[_Outcome]:
        if isinstance(caller, PermitRefusal):
            return _Outcome(_refusal(caller), node=caller.node or "")
        return self._asked(request, caller, started)

    def _asked(self, request: Request, caller: Caller | None, started: float) -> _Outcome | Awaitable[_Outcome]:
        try:
            ask = agent_messages.read_ask(request.body)
        except agent_messages.InvalidBody as refused:
            return _Outcome(Answer(400, refused.text.encode(), TEXT), refused.version, refused.has_metrics)
        wanted = wait_seconds(request.headers)
        asked = _AgentAsk(ask, wanted, min(wanted, self._limits.max_wait_seconds))
        if not self._readiness.ready:
            text = f"not ready: waiting for the first list of {', '.join(self._readiness.unlisted)}"
            return asked.outcome(Answer(503, text.encode(), TEXT))
        decided = self._permit_service.ask(ask, wait_seconds=asked.wait, caller=caller)
        if isinstance(decided, PermitAnswer | PermitRefusal):
            return self._decided(decided, asked)
        return self._decided_later(decided, asked, started)

    # --- the permit service's answer --------------------------------------------------------------------------------------

    async def _decided_later(
        self, pending: Awaitable[PermitAnswer | PermitRefusal], asked: _AgentAsk, started: float
    ) -> _Outcome:
        seconds = asked.wait + self._limits.answer_seconds
        with self._noting_hang_up(asked.outcome(Answer(_GONE, b"")), started), anyio.move_on_after(seconds):
            return self._decided(await pending, asked)
        text = f"pod {asked.ask.key}: no decision within {seconds:g} s"
        return asked.outcome(Answer(503, text.encode(), TEXT))

    def _decided(self, decided: PermitAnswer | PermitRefusal, asked: _AgentAsk) -> _Outcome:
        if isinstance(decided, PermitRefusal):
            return asked.outcome(_refusal(decided), decided.node or "")
        self._metrics.migrating += decided.migrate
        self._metrics.pending += decided.permit_limit_pending
        body = agent_messages.written(decided, asked.ask.version)
        if not asked.wanted:
            return asked.outcome(Answer(200, body), decided.node or "")
        return asked.outcome(Answer(200, body, headers=((b"preference-applied", b"wait=%d" % asked.wait),)), decided.node or "")


def _refusal(refusal: PermitRefusal) -> Answer:
    return Answer(refusal.status, refusal.message.encode(), TEXT, _BEARER if refusal.status == 401 else ())


def _panicked() -> _Outcome:
    _log.exception("agent request failed")
    return _Outcome(Answer(500, b"request handler panicked", _GUESSED))
