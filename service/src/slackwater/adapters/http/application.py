"""The application of a listener that `http_server` serves: what it is given, what it answers, and what it accepts.

- `Request`, `Answer`: one request as it was read, and its response.
- `RequestTerms`: the application's limits.
- `Application`: the protocol of all such applications.
"""

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from slackwater.adapters.http.connection_limiter import BodyBudget

JSON: Final = b"application/json"

#: Pairs of name and value; names in lower case.
Headers = Sequence[tuple[bytes, bytes]]


class Request(NamedTuple):
    """One request as it was read. `whole` is False if its body exceeded `RequestTerms.max_body_bytes` and was cut."""

    method: str
    path: str
    body: bytes
    keep_alive: bool = True
    headers: Headers = ()  #: only those named in `RequestTerms.headers`
    peer: str | None = None  #: common name of the client certificate; None without one
    whole: bool = True
    address: str = ""  #: the caller's IP address


class Answer(NamedTuple):
    """One HTTP response. `headers` exclude content-type, content-length and connection, which the server adds."""

    status: int
    body: bytes
    media_type: bytes = JSON
    headers: Headers = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestTerms:
    """What an application accepts: limits of a request, and the headers it needs."""

    max_body_bytes: int  #: a longer body is refused with 413, unless `read_body_bytes` is set
    #: The application gets only this many first bytes of a body. If set, a body above `max_body_bytes` is not refused: the
    #: request is answered from the bytes that were read, and the connection is closed.
    read_body_bytes: int | None = None
    #: Limit of the time from a request's first byte to its last. A request that takes longer gets 408; if not even its head is
    #: complete, the connection is closed without an answer.
    arrive_seconds: float = 30.0
    headers: frozenset[bytes] = frozenset()  #: names, in lower case, of the headers that the application reads
    bodies: BodyBudget | None = None  #: limit of all kept bodies together; None with `read_body_bytes`
    ends_with_caller: bool = False  #: the task of a pending answer is cancelled when the caller closes the connection


class Application(Protocol):
    """Answers the requests of one listener. Its methods never raise."""

    @property
    def terms(self) -> RequestTerms: ...

    def answer(self, request: Request) -> Answer | Awaitable[Answer]:
        """Returns the answer to a request, or an awaitable of it."""

    def refusal(self, status: int, path: str, message: str) -> Answer:
        """Returns the error answer to a request whose body was left unread (too large, too slow), or that is not HTTP."""
