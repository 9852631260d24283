"""The agents' listener: what autoscaler agents ask for their pods, answered by the desk.

A raw ASGI application, for the reasons of the extender's (docs/adr/0004). Statuses, texts and their order are those that
agents know from Neon's scheduler, 0.36: POST on any path, the first JSON value of the first 1,024 bytes. Ours on top: 401 and
403 where authentication is configured, 408, 503, and `Prefer: wait=N`. Deliberately absent: every decision on resources.
"""

import time
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

import anyio
import structlog

from slackwater.edge.web import agentwire
from slackwater.edge.web.agent_metrics import AgentMetrics
from slackwater.edge.web.prefer import wait_seconds
from slackwater.model.permits import Caller, PermitAnswer, PermitAsk, PermitRefusal
from slackwater.run.ports import PermitDesk
from slackwater_protocol.agent import MAX_BODY_BYTES

_log = structlog.get_logger(__name__)

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_JSON: Final = b"application/json"
_TEXT: Final = b"text/plain"
#: What Go's server guesses where its handler names no type.
_GUESSED: Final = b"text/plain; charset=utf-8"
#: Of an answer that nobody is there to read: only metrics see it.
_GONE: Final = 499
#: Of a body beyond the part that is read; with more, the connection is closed instead.
_SKIPPED_BYTES: Final = 65_536
_CLOSE: Final = ((b"connection", b"close"),)


class Readiness(Protocol):
    """Has everything been listed once?"""

    @property
    def ready(self) -> bool: ...

    @property
    def unlisted(self) -> Sequence[str]: ...


class Gatekeeper(Protocol):
    """Tells who calls, or why the caller is turned away."""

    async def caller(self, scope: Scope) -> Caller | PermitRefusal: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentLimits:
    """Bounds of one listener; seconds."""

    max_requests: int = 16_384  #: in flight, waiting ones included
    max_wait_seconds: float = 30.0  #: granted to `Prefer: wait`
    body_seconds: float = 5.0  #: from a request's head to the end of its body
    answer_seconds: float = 5.0  #: for an answer, on top of what is waited for


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    status: int
    body: bytes
    media_type: bytes = _TEXT
    version: int = 0
    headers: tuple[tuple[bytes, bytes], ...] = ()
    node: str = ""  #: the pod's, where it is known
    has_metrics: bool | None = None  #: None: the request could not be read


class Agents:
    """The ASGI application of the agents' listener."""

    def __init__(
        self,
        *,
        desk: PermitDesk,
        readiness: Readiness,
        metrics: AgentMetrics,
        gatekeeper: Gatekeeper | None = None,
        limits: AgentLimits = AgentLimits(),
    ) -> None:
        self._desk = desk
        self._readiness = readiness
        self._metrics = metrics
        self._gatekeeper = gatekeeper
        self._limits = limits
        self._in_flight = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        started = time.perf_counter()
        self._in_flight += 1
        try:
            answer = await self._answer(scope, receive)
        except Exception:
            _log.exception("agent request failed")
            answer = _Answer(status=500, body=b"request handler panicked", media_type=_GUESSED)
        finally:
            self._in_flight -= 1
        if answer.status != _GONE:
            await _respond(send, answer)
        self._metrics.observe(answer.status, answer.version, time.perf_counter() - started)
        if answer.has_metrics is not None:
            self._metrics.result(answer.status, answer.node, has_metrics=answer.has_metrics)

    async def _answer(self, scope: Scope, receive: Receive) -> _Answer:
        if scope["method"] != "POST":
            return _Answer(status=400, body=b"must be POST", media_type=_GUESSED)
        if self._in_flight > self._limits.max_requests:
            text = b"%d requests in flight, want at most %d" % (self._in_flight, self._limits.max_requests)
            return _Answer(status=503, body=text, headers=((b"retry-after", b"1"),))
        caller = None if self._gatekeeper is None else await self._gatekeeper.caller(scope)
        if isinstance(caller, PermitRefusal):
            return _refusal(caller)
        late = f"body: not complete within {self._limits.body_seconds:g} s"
        limit = _Limit(_Answer(status=408, body=late.encode(), headers=_CLOSE))
        with anyio.move_on_after(self._limits.body_seconds) as limit.scope:
            body = await _read_body(receive)
            if body is None:
                return _Answer(status=_GONE, body=b"")
            answer = await self._asked(scope, receive, body.head, caller, limit)
            return answer if body.whole else replace(answer, headers=(*answer.headers, *_CLOSE))
        return limit.late

    async def _asked(self, scope: Scope, receive: Receive, body: bytes, caller: Caller | None, limit: "_Limit") -> _Answer:
        try:
            ask = agentwire.read_ask(body)
        except agentwire.Refused as refused:
            return _Answer(status=400, body=refused.text.encode(), version=refused.version, has_metrics=refused.has_metrics)
        answer = await self._of_desk(scope, receive, ask, caller, limit)
        return replace(answer, version=ask.version, has_metrics=ask.load is not None)

    async def _of_desk(self, scope: Scope, receive: Receive, ask: PermitAsk, caller: Caller | None, limit: "_Limit") -> _Answer:
        if not self._readiness.ready:
            text = f"not ready: waiting for the first list of {', '.join(self._readiness.unlisted)}"
            return _Answer(status=503, body=text.encode())
        wanted = wait_seconds(scope["headers"])
        wait = min(wanted, self._limits.max_wait_seconds)
        limit.move_on(wait + self._limits.answer_seconds, ask)
        asked = self._desk.ask(ask, wait_seconds=wait, caller=caller)
        decided = await (_unless_gone(asked, receive) if wait else asked)
        if decided is None:
            return _Answer(status=_GONE, body=b"")
        if isinstance(decided, PermitRefusal):
            return _refusal(decided)
        self._note(decided)
        applied = ((b"preference-applied", b"wait=%d" % wait),) if wanted else ()
        written = agentwire.written(decided, ask.version)
        return _Answer(status=200, body=written, media_type=_JSON, headers=applied, node=decided.node or "")

    def _note(self, answer: PermitAnswer) -> None:
        if answer.migrate:
            self._metrics.migrating += 1
        if answer.ceiling_pending:
            self._metrics.pending += 1


class _Limit:
    """One deadline for the whole of a request, moved as it proceeds: a scope costs about as much as a decision.

    `late` is what is said when it strikes.
    """

    scope: anyio.CancelScope

    def __init__(self, late: _Answer) -> None:
        self.late = late

    def move_on(self, seconds: float, ask: PermitAsk) -> None:
        """The request was read; a decision has so long."""
        self.scope.deadline = anyio.current_time() + seconds
        text = f"pod {ask.key}: no decision within {seconds:g} s"
        self.late = _Answer(status=503, body=text.encode(), version=ask.version, has_metrics=ask.load is not None)


async def _unless_gone(asked: Awaitable[PermitAnswer | PermitRefusal], receive: Receive) -> PermitAnswer | PermitRefusal | None:
    """None if the agent hangs up while it waits."""
    decided = None

    async def hang_up() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        group.start_soon(hang_up)
        decided = await asked
        group.cancel_scope.cancel()
    return decided


@dataclass(frozen=True, slots=True)
class _Body:
    """What of a body is read by meaning, and whether nothing of the rest is left on the connection."""

    head: bytes
    whole: bool


async def _read_body(receive: Receive) -> _Body | None:
    """None if the caller is gone."""
    head, size = b"", 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        chunk = message.get("body", b"")
        size += len(chunk)
        if len(head) < MAX_BODY_BYTES:
            head += chunk[:MAX_BODY_BYTES]
        if size > _SKIPPED_BYTES or not message.get("more_body"):
            return _Body(head, not message.get("more_body"))


def _refusal(refusal: PermitRefusal) -> _Answer:
    headers = ((b"www-authenticate", b"Bearer"),) if refusal.status == 401 else ()
    return _Answer(status=refusal.status, body=refusal.message.encode(), headers=headers, node=refusal.node or "")


async def _respond(send: Send, answer: _Answer) -> None:
    length = (b"content-length", b"%d" % len(answer.body))
    headers = [(b"content-type", answer.media_type), length, *answer.headers]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})
