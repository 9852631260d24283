"""Requests to an API server, as all adapters send them: the call, its answer, and two errors.

- `ApiPort`: an API server, which `adapters.kube` implements. The wiring gives it to providers too.
- `ask`: sends one request with a JSON body.
"""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Final, Literal, Protocol

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
class Call:
    """One request. `timeout_seconds` is None if a cancel scope of the caller bounds it."""

    method: str
    path: str
    _: KW_ONLY
    timeout_seconds: float | None
    params: Params = field(default_factory=dict)
    body: bytes | None = None
    content_type: str = "application/json"
    accept: str = "application/json"
    pool: Pool = "calls"
    #: The most bytes of the answer's body that are read.
    most_bytes: int | None = None

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


class ApiCalls(Protocol):
    """Sends requests to an API server. The answer may have any status; without one it raises `NotSent` or `Unanswered`."""

    async def send(self, call: Call) -> Response: ...


class ApiPort(ApiCalls, Protocol):
    """The API server, with watches: `adapters.kube.client.KubeClient`, which documents what is raised, and its substitutes."""

    def stream(self, path: str, *, params: Params, silence_seconds: float) -> AsyncGenerator[list[bytes], None]: ...


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
    """Sends one request with the JSON of `body`; None: without a body. `timeout_seconds` as in `Call`."""
    raw = None if body is None else msgspec.json.encode(body)
    return await api.send(
        Call(method, path, timeout_seconds=timeout_seconds, params=params, body=raw, content_type=content_type, pool=pool)
    )
