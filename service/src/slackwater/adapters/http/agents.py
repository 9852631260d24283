"""The agents listener's application: authenticates a caller, decodes and checks its request, asks the permit service.

`http_server` passes whole requests, and most are answered at once. Only a request that must wait gets a task and a deadline:
for a token's review, for the write of a permit limit, or for room (`Prefer: wait=N`). Statuses, texts and the order of checks
are those of Neon's scheduler plugin 0.36: POST on any path, the first JSON value of the first 1,024 bytes. Slackwater adds 401
and 403 if authentication is configured, 408, 503, and `Prefer: wait=N`. The permit service makes every decision on resources.
"""

import re
import time
from collections.abc import Awaitable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple, Protocol

import anyio
import msgspec
import structlog
from pydantic import ValidationError

from slackwater.adapters.http.application import RETRY_SOON, TEXT, Answer, Headers, Request, RequestTerms
from slackwater.controllers.permits.metrics import AgentMetrics
from slackwater.model.ids import PodKey
from slackwater.model.permits import Caller, Load, PermitAnswer, PermitAsk, PermitRefusal
from slackwater.model.resources import Amounts
from slackwater.ports.protocols import PermitServing, Readiness
from slackwater_protocol.agent import (
    MAX_BODY_BYTES,
    OUT_OF_RANGE,
    AgentRequest,
    NotJson,
    problem_of,
    wire_cpu,
    wire_load,
    wire_memory,
)
from slackwater_protocol.agent_versions import counts_slots

_log = structlog.get_logger(__name__)

#: The content type that Go's HTTP server sets for a text if the handler sets none.
_GUESSED: Final = b"text/plain; charset=utf-8"
NOT_POST: Final = Answer(400, b"must be POST", _GUESSED)
#: The status, in metrics only, of a request whose caller closed the connection.
_GONE: Final = 499
#: Bytes. The rest of a body up to this length is read and ignored; after a longer body the connection is closed.
_SKIPPED_BYTES: Final = 65_536
_BEARER: Final[Headers] = ((b"www-authenticate", b"Bearer"),)
_MICRO: Final = 1_000_000
_BAD_JSON: Final = "bad JSON"
#: Distinct pairs of quantities whose decoded form is cached, and distinct permits whose JSON is. There are few, since agents
#: change resources by whole compute units.
_CACHED_AMOUNTS: Final = 4096


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
        return self._asked(request, caller, started)

    async def _reviewed(self, request: Request, authenticator: CallerAuthenticator, started: float) -> _Outcome:
        with self._noting_hang_up(_Outcome(Answer(_GONE, b"")), started):
            caller = await authenticator.caller(request.headers, request.peer, request.address)
        outcome = self._asked(request, caller, started)
        return outcome if isinstance(outcome, _Outcome) else await outcome

    def _asked(self, request: Request, caller: Caller | PermitRefusal | None, started: float) -> _Outcome | Awaitable[_Outcome]:
        if isinstance(caller, PermitRefusal):
            return _Outcome(_refusal(caller), node=caller.node or "")
        try:
            ask = read_ask(request.body)
        except InvalidBody as refused:
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
        waited: Headers = ((b"preference-applied", b"wait=%d" % asked.wait),) if asked.wanted else ()
        return asked.outcome(Answer(200, written(decided, slots=asked.ask.slots), headers=waited), decided.node or "")


def _refusal(refusal: PermitRefusal) -> Answer:
    return Answer(refusal.status, refusal.message.encode(), TEXT, _BEARER if refusal.status == 401 else ())


def _panicked() -> _Outcome:
    _log.exception("agent request failed")
    return _Outcome(Answer(500, b"request handler panicked", _GUESSED))


# --- the messages ---------------------------------------------------------------------------------------------------------


class InvalidBody(Exception):
    """An invalid request, to be answered with 400 and `text`.

    If the body could not be decoded, `version` is 0 and `has_metrics` None.
    """

    def __init__(self, *, text: str, version: int, has_metrics: bool | None = None) -> None:
        super().__init__(text)
        self.text = text
        self.version = version
        self.has_metrics = has_metrics


class _Resources(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    vCPUs: int | str | float
    mem: int | str | float

    @property
    def amounts(self) -> Amounts:
        return _amounts(self.vCPUs, self.mem)


@lru_cache(maxsize=_CACHED_AMOUNTS, typed=True)
def _amounts(cpu: float | str, mem: float | str) -> Amounts:
    return Amounts(wire_cpu(cpu), wire_memory(mem))


class _Pod(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    namespace: str
    name: str


class _Metrics(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    loadAvg1M: float
    loadAvg5M: float | None = None
    memoryUsageBytes: float | None = None

    @property
    def load(self) -> Load:
        return Load(
            load1_micro=round(wire_load(self.loadAvg1M) * _MICRO),
            load5_micro=None if self.loadAvg5M is None else round(wire_load(self.loadAvg5M) * _MICRO),
            memory_usage_bytes=None if self.memoryUsageBytes is None else round(wire_load(self.memoryUsageBytes)),
        )


class _Request(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    protoVersion: int
    pod: _Pod
    resources: _Resources
    computeUnit: _Resources | None = None
    lastPermit: _Resources | None = None
    metrics: _Metrics | None = None


_decoder: Final = msgspec.json.Decoder(_Request)


def read_ask(body: bytes) -> PermitAsk:
    """Decodes a request and applies all checks that need no state.

    Bodies with exactly the known keys, which is what agents send, are decoded at once. All others are first read by
    `AgentRequest`, which follows Go's leniency (keys in another case, unknown or repeated keys, text after the value), and
    written again with the known keys.

    :raises InvalidBody: the request fails a check; the text is that of the first failed check, in the order of Neon's plugin.
    """
    try:
        return _read(body[:MAX_BODY_BYTES])
    except (ValueError, msgspec.DecodeError):
        return _read(_as_agents_write(body))


def _read(body: bytes) -> PermitAsk:
    """Decodes and checks a body as agents write it.

    :raises ValueError, msgspec.DecodeError: the body is another one.
    :raises InvalidBody: the request fails a check.
    """
    request = _decoder.decode(body)
    version, permitted, metrics = request.protoVersion, request.lastPermit, request.metrics
    if not 0 <= version < 2**32:
        raise ValueError
    unit = None if request.computeUnit is None else request.computeUnit.amounts
    ask = PermitAsk(
        key=PodKey(request.pod.namespace, request.pod.name),
        version=version,
        asked=request.resources.amounts,
        last_permit=None if permitted is None else permitted.amounts,
        compute_unit=None if unit is None or not any(unit) else unit,
        load=None if metrics is None else metrics.load,
        slots=counts_slots(version),
    )
    extended = None if metrics is None else (metrics.loadAvg5M is not None, metrics.memoryUsageBytes is not None)
    problem = problem_of(version, compute_unit=ask.compute_unit, resources=ask.asked, extended=extended)
    if problem is not None:
        raise InvalidBody(text=problem, version=version, has_metrics=metrics is not None)
    return ask


def _as_agents_write(body: bytes) -> bytes:
    try:
        return AgentRequest.from_body(body).to_body()
    except NotJson:
        raise InvalidBody(text=_BAD_JSON, version=0) from None
    except ValidationError as error:
        faults = error.errors(include_url=False, include_context=False, include_input=False)
    if any(fault["type"] != OUT_OF_RANGE for fault in faults):
        raise InvalidBody(text=_BAD_JSON, version=0)
    text = "; ".join(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in faults)
    raise InvalidBody(text=text, version=0)


def written(answer: PermitAnswer, *, slots: bool) -> bytes:
    """Encodes an answer in the form of `PluginResponse`. Amounts are rounded down, since a permit is an upper bound."""
    return _body(answer.permit, answer.slot_bytes if slots else None, answer.migrate)


@lru_cache(maxsize=_CACHED_AMOUNTS)
def _body(amounts: Amounts, slot_bytes: int | None, migrate: bool) -> bytes:
    permit = amounts.quantities
    if slot_bytes is not None:
        permit["mem"] = amounts.memory // slot_bytes
    return msgspec.json.encode({"permit": permit, "migrate": {}} if migrate else {"permit": permit})


#: Matches `wait` as a preference, not as part of another word or as a parameter of another preference.
_WAIT: Final = re.compile(rb'(?:^|,)\s*wait\s*=\s*"?([0-9]{1,9})"?\s*(?:[;,]|$)', re.IGNORECASE)


def wait_seconds(headers: Iterable[tuple[bytes, bytes]]) -> int:
    """Returns how many seconds a caller is willing to wait for a better answer: header `Prefer: wait=N` (RFC 7240).

    The first `wait` counts; 0 if there is none, or not in the RFC's form. `headers` are pairs of name, in lower case, and
    value.
    """
    for name, value in headers:
        if name == b"prefer" and (found := _WAIT.search(value)):
            return int(found[1])
    return 0
