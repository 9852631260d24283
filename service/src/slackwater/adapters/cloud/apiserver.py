"""The API server as the providers that work through it need it: single requests, JSON in and out; `adapters.kube` carries them
out.

Flows through: a request, its answer's status and body, and what a status means for a change of a node group. Deliberately
absent: connections and credentials (see `app.clouds`), retries.
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

#: Objects of one page: decoding one must not keep others waiting for long.
_PAGE: Final = 500
#: Too much to do, or starting or stopping: nothing happened. Other 5xx may be time-outs of etcd.
_NOTHING_HAPPENED: Final = frozenset({429, 503})
_LONGEST_DETAIL: Final = 300


class NotSent(Exception):
    """There was no connection: nothing has happened."""


class Unanswered(Exception):
    """Sent, and no whole answer came: it may have happened."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer, whatever its status."""

    status: int
    body: bytes = b""


class ApiServer(Protocol):
    """One request and its whole answer, for as long as the caller's scope lets it take.

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
    """What the structs of objects share: unknown fields are skipped, absent ones have a default."""


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
    """What an answer that is no success says of a change of this group."""
    detail = f"{what}: {answer.status}: {answer.body.decode(errors='replace')[:_LONGEST_DETAIL]}"
    unsure = answer.status >= 500 and answer.status not in _NOTHING_HAPPENED
    return ProviderError("unknown" if unsure else "other", group, detail)


async def listed(api: ApiServer, path: str, kind: type[T], *, selector: str = "") -> AsyncIterator[T]:
    """Every object there, page by page; none where the API server does not know the type. Raises `ProviderError`."""
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
