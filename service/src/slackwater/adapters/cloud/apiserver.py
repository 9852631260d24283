"""Requests to the API server, for providers that work through it: JSON in and out. `adapters.kube` carries them out.

This module says what an answer's status means for a change of a node group. Connections and credentials are in `app.clouds`.
There are no retries.
"""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

import msgspec

from slackwater.model.nodegroups import GroupName
from slackwater.ports.protocols import ProviderError

T = TypeVar("T")

OK: Final = 200
CREATED: Final = 201
NOT_FOUND: Final = 404
CONFLICT: Final = 409
MERGE_PATCH: Final = "application/merge-patch+json"
NO_PARAMS: Final[Mapping[str, str]] = {}

#: Objects in one page of a list: decoding a page must not block the event loop for long.
_PAGE: Final = 500
#: The server is overloaded, starting or stopping: nothing has happened. Other 5xx may be time-outs of etcd.
_NOTHING_HAPPENED: Final = frozenset({429, 503})
_LONGEST_DETAIL: Final = 300


class NotSent(Exception):
    """Raised if there was no connection: nothing has happened."""


class Unanswered(Exception):
    """Raised if a request was sent and no whole answer came: it may have been carried out."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of any status."""

    status: int
    body: bytes = b""


class ApiServer(Protocol):
    """Sends one request and returns its whole answer. The caller's cancel scope limits the time.

    Raises `NotSent` and `Unanswered`, never for a status.
    """

    async def ask(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] = NO_PARAMS,
        body: object = None,
        content_type: str = "application/json",
    ) -> Answer: ...


class Wire(msgspec.Struct, gc=False, rename="camel"):
    """The base of the structs of objects: unknown fields are skipped, absent ones have a default."""


class OwnerWire(Wire):
    kind: str = ""
    name: str = ""
    uid: str = ""


class MetaWire(Wire):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerWire] | None = None


class _ListMetaWire(Wire):
    continue_: str = msgspec.field(name="continue", default="")


class _PageWire(Wire, Generic[T]):
    metadata: _ListMetaWire = msgspec.field(default_factory=_ListMetaWire)
    items: list[T] | None = None


def refusal(group: GroupName | None, what: str, answer: Answer) -> ProviderError:
    """The error of an answer that is no success, for a change of this group."""
    detail = f"{what}: {answer.status}: {answer.body.decode(errors='replace')[:_LONGEST_DETAIL]}"
    unsure = answer.status >= 500 and answer.status not in _NOTHING_HAPPENED
    return ProviderError("unknown" if unsure else "other", group, detail)


async def listed(api: ApiServer, path: str, kind: type[T], *, selector: str = "") -> AsyncIterator[T]:
    """Lists all objects, page by page; none if the API server does not know the type. Raises `ProviderError`."""
    decoder = msgspec.json.Decoder(_PageWire[kind])  # type: ignore[valid-type]
    params = {"limit": str(_PAGE)} | ({"labelSelector": selector} if selector else {})
    while True:
        answer = await api.ask("GET", path, params=params)
        if answer.status == NOT_FOUND:
            return
        if answer.status != OK:
            raise refusal(None, f"list {path}", answer)
        page = decoder.decode(answer.body)
        for item in page.items or ():
            yield item
        if not page.metadata.continue_:
            return
        params["continue"] = page.metadata.continue_
