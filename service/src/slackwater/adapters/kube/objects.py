"""Reads and writes single API objects as JSON values, for commands. The service itself uses the typed writers."""

import math
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import datetime
from http import HTTPStatus
from itertools import count
from typing import Any, Final, Literal

import msgspec

from slackwater.adapters.api_calls import JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, ApiPort, ApiReads, Read, Response, ask, get
from slackwater.adapters.api_objects import ListWire, ObjectDecoder, Wire
from slackwater.adapters.kube.errors import MalformedAnswer, refused
from slackwater.model.kubernetes_rules import KubernetesVersion

Json = dict[str, Any]
PatchType = Literal["merge", "strategic", "json"]

_CONTENT_TYPES: Final[Mapping[PatchType, str]] = {
    "merge": MERGE_PATCH,
    "strategic": STRATEGIC_PATCH,
    "json": JSON_PATCH,
}
_JSON: Final = "application/json"
#: The Accept header with which the API server answers a list with only the metadata of the objects.
METADATA_ONLY: Final = f"{_JSON};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_SECONDS: Final = 30.0
_VERSION_SECONDS: Final = 10.0
_PAGE: Final = "500"


class ApiObjects:
    """Reads and writes API objects. Each method sends one request, or one for each page.

    All raise `KubeError`; a status other than success is a `StatusError`.
    """

    def __init__(self, client: ApiPort) -> None:
        self._client = client

    async def get(self, path: str) -> Json | None:
        """The object; None if it does not exist."""
        answer = await get(self._client, path, timeout_seconds=_SECONDS)
        return None if answer.status == HTTPStatus.NOT_FOUND else _decoded(answer, f"get {path}")

    async def create(self, path: str, body: Json) -> Json:
        return _decoded(await ask(self._client, "POST", path, body, timeout_seconds=_SECONDS), f"create {path}")

    async def patch(self, path: str, patch: object, how: PatchType = "merge") -> Json:
        kind = _CONTENT_TYPES[how]
        answer = await ask(self._client, "PATCH", path, patch, content_type=kind, timeout_seconds=_SECONDS)
        return _decoded(answer, f"patch {path}")

    async def delete(self, path: str, preconditions: Mapping[str, str]) -> None:
        """Deletes the object. `preconditions` may have its `uid` and its `resourceVersion`."""
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": dict(preconditions)}
        _decoded(await ask(self._client, "DELETE", path, options, timeout_seconds=_SECONDS), f"delete {path}")

    async def each(self, path: str, *, metadata_only: bool = False, labels: str = "") -> AsyncIterator[Json]:
        """The objects of a collection, read page by page. `labels` is a label selector."""
        async for page in self.pages(path, metadata_only=metadata_only, labels=labels):
            for item in msgspec.json.decode(page).get("items") or ():
                yield item

    async def pages(
        self,
        path: str,
        *,
        metadata_only: bool = False,
        fields: str = "",
        labels: str = "",
        report: Callable[[int, int], None] = lambda done, total: None,
    ) -> AsyncIterator[bytes]:
        """The pages of a collection as JSON text: lists of one kind. `fields` and `labels` are selectors. `report` is called
        with how many objects have been read, and how many there are, for a list of several pages."""
        token = ""
        for page in count(1):
            chosen = {"continue": token, "fieldSelector": fields, "labelSelector": labels}
            params = {"limit": _PAGE} | {name: value for name, value in chosen.items() if value}
            accept = METADATA_ONLY if metadata_only else _JSON
            call = Read(path, params=params, accept=accept, timeout_seconds=_SECONDS)
            answer = await self._client.send(call)
            _check(answer, f"list {path}")
            yield answer.body
            head = _PAGE_OF_LIST.decode(answer.body).metadata
            token, done = head.continue_, page * int(_PAGE)
            if head.remaining_item_count is not None:  # left out with selectors, and on the last page
                report(done, done + head.remaining_item_count)
            if not token:
                return


_PAGE_OF_LIST: Final = ObjectDecoder(ListWire)


def _check(answer: Response, what: str) -> None:
    if answer.status not in {HTTPStatus.OK, HTTPStatus.CREATED, HTTPStatus.ACCEPTED}:
        raise refused(what, answer)


def _decoded(answer: Response, what: str) -> Json:
    _check(answer, what)
    decoded: Json = msgspec.json.decode(answer.body)
    return decoded


def seconds_since(text: str | None, now: datetime) -> float:
    """How many seconds before `now` the time `text` is; infinite if `text` is no time, in RFC 3339 or as Go prints it."""
    try:
        return (now - datetime.fromisoformat((text or "").removesuffix(" UTC").replace(" +", "+"))).total_seconds()
    except (ValueError, TypeError):
        return math.inf


class _VersionWire(Wire):
    git_version: str = ""


_VERSION: Final = ObjectDecoder(_VersionWire)


async def server_version(client: ApiReads) -> KubernetesVersion:
    """Asks the API server for its version. Raises `KubeError`, also for an answer that names no version of Kubernetes 1."""
    call = Read("/version", timeout_seconds=_VERSION_SECONDS)
    answer = await client.send(call)
    if answer.status != HTTPStatus.OK:
        raise refused(str(call), answer)
    try:
        return KubernetesVersion.parse(_VERSION.decode(answer.body).git_version)
    except ValueError as err:
        raise MalformedAnswer(f"{call}: {err}") from err
