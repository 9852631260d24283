"""Reads nodes and pods as the API server has them now, for an audit: lists page by page, and single objects.

Implements `ports.protocols.AuditReads`. Keeps no state. Lists name the objects that cannot be read instead of containing them.
"""

from collections.abc import AsyncGenerator, Callable
from functools import partial
from http import HTTPStatus
from typing import TypeVar
from urllib.parse import quote

import anyio.lowlevel
import msgspec

from slackwater.adapters.api_calls import ApiReads, get
from slackwater.adapters.kube.decode import NodeDecoder, PodDecoder, read_meta, version_number
from slackwater.adapters.kube.errors import UNREADABLE, KubeError, MalformedAnswer, refused
from slackwater.adapters.kube.resource_type import NODES_PATH, PODS_PATH, has_ended, object_path
from slackwater.adapters.kube.slices import PageSize, read, read_page, slices
from slackwater.model.ids import NodeName, PodKey
from slackwater.model.objects import Node, Pod
from slackwater.ports.protocols import AuditReadError, Listing

T = TypeVar("T", Node, Pod)


class ApiAuditReads:
    """Reads nodes and pods from the API server, for the audit.

    An answer contains `page_size` objects; splitting it into objects takes about 2 ms for each 250.
    """

    def __init__(self, client: ApiReads, pods: PodDecoder, *, page_size: int = 250) -> None:
        self._client = client
        self._pods = pods
        self._nodes = NodeDecoder()
        self._page_size = page_size

    def nodes(self, *, timeout_seconds: float) -> AsyncGenerator[Listing[Node], None]:
        return self._listed(NODES_PATH, self._nodes.decode, timeout_seconds)

    def pods(self, *, timeout_seconds: float) -> AsyncGenerator[Listing[Pod], None]:
        return self._listed(PODS_PATH, self._pods.decode, timeout_seconds)

    async def node(self, name: NodeName, *, timeout_seconds: float) -> Node | None:
        body = await self._object(f"{NODES_PATH}/{quote(name, safe='')}", timeout_seconds)
        return None if body is None else await read(partial(_decoded, self._nodes.decode, body, f"node {name}"), [body])

    async def pod(self, key: PodKey, *, timeout_seconds: float) -> Pod | None:
        body = await self._object(object_path(PODS_PATH, key), timeout_seconds)
        if body is None:
            return None
        try:
            return await read(partial(_decoded, self._pods.decode, body, f"pod {key}"), [body])
        except AuditReadError:
            if has_ended(body):
                return None
            raise

    async def _listed(
        self, path: str, decode: Callable[[bytes | msgspec.Raw], T], timeout_seconds: float
    ) -> AsyncGenerator[Listing[T], None]:
        token = ""
        version = 0
        size = PageSize(self._page_size)
        while True:
            try:
                page = await read_page(self._client, path, token, size, timeout_seconds=timeout_seconds)
            except KubeError as error:
                raise AuditReadError(str(error)) from error
            await anyio.lowlevel.checkpoint()
            version = version or version_number(page.metadata.resource_version)
            for items in slices(page.items or ()):
                yield await read(partial(_slice, items, decode, version), items)
                await anyio.lowlevel.checkpoint()
            token = page.metadata.continue_
            if not token:
                yield Listing(version, ())
                return

    async def _object(self, path: str, timeout_seconds: float) -> bytes | None:
        try:
            answer = await get(self._client, path, timeout_seconds=timeout_seconds, pool="event_sources")
            if answer.status == HTTPStatus.NOT_FOUND:
                return None
            if answer.status != HTTPStatus.OK:
                raise refused(f"get {path}", answer)
        except KubeError as error:
            raise AuditReadError(str(error)) from error
        return answer.body


def _slice(items: list[msgspec.Raw], decode: Callable[[bytes | msgspec.Raw], T], version: int) -> Listing[T]:
    objects: list[T] = []
    unreadable = []
    for raw in items:
        try:
            objects.append(decode(raw))
        except UNREADABLE:
            if has_ended(raw):
                continue
            try:
                meta = read_meta(raw)
                unreadable.append((meta.uid, meta.name))
            except UNREADABLE:
                continue  # without a UID the object cannot be in the cluster state either
    return Listing(version, tuple(objects), tuple(unreadable))


def _decoded(decode: Callable[[bytes | msgspec.Raw], T], body: bytes, what: str) -> T:
    try:
        return decode(body)
    except UNREADABLE as error:
        raise AuditReadError(str(MalformedAnswer(f"{what}: {error}"))) from error
