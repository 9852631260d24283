"""Applications that answer on a replica with leader election, and the forwarding of agents' requests to the leader.

A standby answers kube-scheduler with an error, and forwards agents' requests to the leader. `LedExtender` and `LedAgents` wrap
the applications that decide, and check the leadership before each request; `LedAgents` checks it again before a delayed answer.
The leadership itself comes through `LeadershipView`. `AgentForwarder` talks to the leader:

- Only POST requests are forwarded: the body, and the headers `Authorization` and `Prefer`. The leader answers agents on any
  path, so the path is always `/`, and nothing that an agent wrote becomes part of an address.
- The leader authenticates the agent by its bearer token. A request with a client certificate is refused, since this replica
  cannot present the agent's certificate.
- Over TLS the leader must present the same certificate as this replica, since replicas share it.
- A request is forwarded once: a replica that gets a forwarded request and does not lead refuses it.
- The number of concurrent requests and the time of each are bounded. There are no retries; agents retry.
"""

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal, Protocol

import aiohttp
import anyio
import anyio.to_thread
from yarl import URL

from slackwater.adapters.http.agents import NOT_POST, wait_seconds
from slackwater.adapters.http.application import RETRY_SOON, TEXT, Answer, Application, Request
from slackwater.adapters.http.certificates import TlsFiles

#: The header with the name of the replica that forwarded the request.
FORWARDED_BY: Final = "x-slackwater-forwarded-by"
_PASSED_ON: Final = frozenset({b"authorization", b"prefer"})
_PASSED_BACK: Final = ("retry-after", "preference-applied", "www-authenticate")
_CONNECT_SECONDS: Final = 2.0
_BEGIN: Final = "-----BEGIN CERTIFICATE-----"
_END: Final = "-----END CERTIFICATE-----"

#: How forwarding a request ended. answered: by the leader. unanswered: the leader failed to answer. refused: not forwarded.
Outcome = Literal["answered", "unanswered", "refused"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardLimits:
    """Limits of a forwarder. A request's timeout is `answer_seconds` plus its `Prefer: wait`, at most `max_wait_seconds`."""

    max_requests: int = 1024
    answer_seconds: float = 5.0
    max_wait_seconds: float = 30.0


#: Returns the leader's name and host; None if there is no leader or its address is not known.
WhereLeader = Callable[[], Awaitable[tuple[str, str] | None]]


class AgentForwarder:
    """Forwards requests to the leader; create it with `open_forwarder`.

    `replica` is this replica's name. `port` is that of the agents listener, the same on all replicas.
    """

    headers = frozenset({FORWARDED_BY.encode()})

    def __init__(
        self,
        http: aiohttp.ClientSession,
        where: WhereLeader,
        *,
        replica: str,
        port: int,
        tls: TlsFiles | None,
        limits: ForwardLimits,
    ) -> None:
        """Reads the shared certificate if `tls` is set.

        :raises OSError: the certificate cannot be read.
        """
        self._http = http
        self._tls = tls
        self._context = None if tls is None else _same_certificate(tls)
        self._where = where
        self._replica = replica
        self.port = port
        self._scheme = "http" if tls is None else "https"
        self._limits = limits
        self._under_way = 0
        self.counts: dict[Outcome, int] = {"answered": 0, "unanswered": 0, "refused": 0}

    async def forward(self, request: Request) -> Answer:
        if request.method != "POST":
            return self._counted("refused", NOT_POST)
        if (problem := self._problem(request)) is not None:
            return self._counted("refused", _no_leader(problem))
        self._under_way += 1
        try:
            return await self._forwarded(request)
        finally:
            self._under_way -= 1

    def _problem(self, request: Request) -> str | None:
        """Returns the reason why the request must not be forwarded, None if it may."""
        by = next((value for name, value in request.headers if name == FORWARDED_BY.encode()), None)
        if by is not None:
            return f"this replica does not lead, and {by.decode('latin-1')} has forwarded the request already"
        if request.peer is not None:
            return (
                f"this replica does not lead, and cannot show the certificate of {request.peer!r} to the leader: ask that one"
            )
        if self._under_way >= self._limits.max_requests:
            return f"this replica does not lead, and forwards {self._under_way} requests already"
        return None

    async def _forwarded(self, request: Request) -> Answer:
        wait = min(wait_seconds(request.headers), self._limits.max_wait_seconds)
        name = "the leader"
        try:
            with anyio.fail_after(wait + self._limits.answer_seconds):
                leader = await self._where()
                if leader is None:
                    return self._counted("refused", _no_leader("this replica does not lead, and nobody is known to"))
                name, host = leader
                return self._counted("answered", await self._ask(request, host))
        except aiohttp.ClientSSLError as error:
            if self._tls is not None:  # the leader presented another certificate: the shared one may have been renewed
                self._context = await anyio.to_thread.run_sync(_same_certificate, self._tls)
            return self._counted("unanswered", _no_leader(f"this replica does not lead; {name}, which does: {error}"))
        except (aiohttp.ClientError, OSError) as error:  # TimeoutError is an OSError
            problem = str(error) or "no answer in time"
            return self._counted("unanswered", _no_leader(f"this replica does not lead; {name}, which does: {problem}"))

    async def _ask(self, request: Request, host: str) -> Answer:
        headers = {name.decode(): value.decode("latin-1") for name, value in request.headers if name in _PASSED_ON}
        headers[FORWARDED_BY] = self._replica
        url = URL.build(scheme=self._scheme, host=host, port=self.port, path="/")
        async with self._http.post(
            url, data=request.body, headers=headers, allow_redirects=False, ssl=self._context or True
        ) as answer:
            back = tuple((name.encode(), answer.headers[name].encode()) for name in _PASSED_BACK if name in answer.headers)
            media_type = answer.headers.get("content-type", "application/json").encode()
            return Answer(answer.status, await answer.read(), media_type, back)

    def _counted(self, outcome: Outcome, answer: Answer) -> Answer:
        self.counts[outcome] += 1
        return answer


def _no_leader(text: str) -> Answer:
    return Answer(503, text.encode(), TEXT, RETRY_SOON)


@asynccontextmanager
async def open_forwarder(
    where: WhereLeader, *, replica: str, port: int, tls: TlsFiles | None, limits: ForwardLimits
) -> AsyncIterator[AgentForwarder]:
    """Opens an HTTP client session and yields a forwarder. `tls` are the files of the agents listener, None without TLS.

    :raises OSError: the certificate of `tls` cannot be read.
    """
    connector = aiohttp.TCPConnector(limit=limits.max_requests)
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS)
    async with aiohttp.ClientSession(
        connector=connector, timeout=timeout, cookie_jar=aiohttp.DummyCookieJar(), skip_auto_headers=["User-Agent"]
    ) as http:
        yield AgentForwarder(http, where, replica=replica, port=port, tls=tls, limits=limits)


def _same_certificate(tls: TlsFiles) -> ssl.SSLContext:
    """Creates a TLS context that trusts only the listener's own certificate.

    Host names are not checked, since Pods are called by IP address.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    text = Path(tls.cert_file).read_text(encoding="ascii", errors="ignore")
    first, end, _ = text.partition(_END)  # the first certificate of a chain is the listener's own
    context.load_verify_locations(cadata=first[first.find(_BEGIN) :] + end)
    return context


#: How long a standby waits before it refuses a call of kube-scheduler. The kube-scheduler in our Pod may learn that it leads,
#: and call, milliseconds before this replica learns that it leads too. kube-scheduler's own timeout is longer.
_LEASE_READ_SECONDS: Final = 1.0


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
    #: The number of forwarded requests by outcome.
    counts: dict[Outcome, int]

    async def forward(self, request: Request) -> Answer: ...


class _Led:
    """An application with leader election. `holder` returns the Lease's holder, "" if there is none."""

    def __init__(self, app: Application, leadership_view: LeadershipView, *, holder: Callable[[], str]) -> None:
        self._app = app
        self._leadership_view = leadership_view
        self._holder = holder
        self.terms = app.terms

    def refusal(self, status: int, path: str, message: str) -> Answer:
        return self._app.refusal(status, path, message)

    def _standby(self) -> str:
        return f"this replica does not lead: the lease names {self._holder() or 'nobody'}"


class LedExtender(_Led):
    """The extender listener's application with leader election."""

    def answer(self, request: Request) -> Answer | Awaitable[Answer]:
        return self._app.answer(request) if self._leadership_view.leads() else self._answer_if_leading(request)

    async def _answer_if_leading(self, request: Request) -> Answer:
        if await self._leadership_view.awaited(_LEASE_READ_SECONDS):
            found = self._app.answer(request)
            return found if isinstance(found, Answer) else await found
        return self.refusal(503, request.path, self._standby())


class LedAgents(_Led):
    """The agents listener's application with leader election. Without a `forwarder` a standby answers with 503."""

    def __init__(
        self, app: Application, leadership_view: LeadershipView, *, holder: Callable[[], str], forwarder: Forwarder | None
    ) -> None:
        super().__init__(app, leadership_view, holder=holder)
        self._forwarder = forwarder
        if forwarder is not None:
            self.terms = replace(app.terms, headers=app.terms.headers | forwarder.headers)

    def answer(self, request: Request) -> Answer | Awaitable[Answer]:
        if not self._leadership_view.leads():
            return _no_leader(self._standby()) if self._forwarder is None else self._forwarder.forward(request)
        found = self._app.answer(request)
        return found if isinstance(found, Answer) else self._answer_while_leading(found)

    async def _answer_while_leading(self, pending: Awaitable[Answer]) -> Answer:
        """Awaits a delayed answer. If this replica does not lead any more by then, answers 503.

        The new leader does not know the delayed answer, so nobody would act by it.
        """
        answer = await pending
        return answer if self._leadership_view.leads() else _no_leader(self._standby())
