"""Requests to an API server, as all adapters send them: the call, its answer, and two errors.

- `ApiReader`: an API server that can only be read. `ApiPort`: one that can be written too. `adapters.kube` implements both, and
  the wiring gives them to providers too. What only reads asks for an `ApiReader`, so a shadow can run it.
- `get` sends one read, `ask` any request with a JSON body.
"""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import ClassVar, Final, Literal, Protocol

import msgspec

Pool = Literal["calls", "event_sources"]
Params = Mapping[str, str]
NO_PARAMS: Final[Params] = {}

MERGE_PATCH: Final = "application/merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"


class NotSent(Exception):
    """The request was not sent, so it had no effect."""


class Unanswered(Exception):
    """The request was sent without a complete answer: it may have had its effect."""


@dataclass(frozen=True, slots=True)
class Response:
    """An answer of the API server, with any status."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Read:
    """One request that reads. `timeout_seconds` is None if a cancel scope of the caller bounds it."""

    method: ClassVar[str] = "GET"
    body: ClassVar[None] = None
    content_type: ClassVar[str] = ""

    path: str
    _: KW_ONLY
    timeout_seconds: float | None
    params: Params = field(default_factory=dict)
    accept: str = "application/json"
    pool: Pool = "calls"
    #: The most bytes of the answer's body that are read.
    most_bytes: int | None = None

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


@dataclass(frozen=True, slots=True)
class Write:
    """One request that may change something. `timeout_seconds` as in `Read`."""

    accept: ClassVar[str] = "application/json"
    most_bytes: ClassVar[None] = None

    method: str
    path: str
    _: KW_ONLY
    timeout_seconds: float | None
    params: Params = field(default_factory=dict)
    body: bytes | None = None
    content_type: str = "application/json"
    pool: Pool = "calls"

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


Call = Read | Write


class ApiReads(Protocol):
    """Sends reads to an API server. The answer may have any status; without one it raises `NotSent` or `Unanswered`."""

    async def send(self, call: Read) -> Response: ...


class ApiCalls(Protocol):
    """Sends any requests to an API server, as `ApiReads` does."""

    async def send(self, call: Call) -> Response: ...


class _Streams(Protocol):
    def stream(self, path: str, *, params: Params, silence_seconds: float) -> AsyncGenerator[list[bytes], None]: ...


class ApiReader(ApiReads, _Streams, Protocol):
    """The API server for those who only read: `adapters.kube.client.KubeReader`, which documents what is raised."""


class ApiPort(ApiCalls, _Streams, Protocol):
    """The API server, with watches: `adapters.kube.client.KubeClient` and its substitutes."""


async def get(
    api: ApiReads, path: str, *, timeout_seconds: float | None = None, params: Params = NO_PARAMS, pool: Pool = "calls"
) -> Response:
    """Sends one read. `timeout_seconds` as in `Read`."""
    return await api.send(Read(path, timeout_seconds=timeout_seconds, params=params, pool=pool))


async def ask(
    api: ApiCalls,
    method: str,
    path: str,
    body: object = None,
    *,
    timeout_seconds: float | None = None,
    params: Params = NO_PARAMS,
    content_type: str = "application/json",
    pool: Pool = "calls",
) -> Response:
    """Sends one request with the JSON of `body`; None: without a body. `timeout_seconds` as in `Read`."""
    if method == Read.method:
        return await get(api, path, timeout_seconds=timeout_seconds, params=params, pool=pool)
    raw = None if body is None else msgspec.json.encode(body)
    return await api.send(
        Write(method, path, timeout_seconds=timeout_seconds, params=params, body=raw, content_type=content_type, pool=pool)
    )
