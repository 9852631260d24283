"""An API server over a real socket, small enough to break in every way: lists, watches, and scripted answers.

It keeps one history for all paths, as etcd does, and serves lists page by page from the moment of their first page. Breaks
are asked for by the tests: connections dropped after any byte, chunks cut anywhere, silence, 410 in both forms, refusals,
restarts. Deliberately absent: every rule of Kubernetes about what may be written.
"""

import asyncio
import json
import socket
import ssl
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Literal

import anyio
from aiohttp import web

Object = dict[str, Any]
Key = tuple[str, str]  # (namespace, name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A scripted answer. `drop`: the connection is cut instead, before any byte of an answer."""

    status: int = 200
    body: Object | bytes = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    drop: bool = False
    hang: bool = False


@dataclass(frozen=True, slots=True)
class Change:
    """One entry of the history."""

    revision: int
    path: str
    type: Literal["ADDED", "MODIFIED", "DELETED"]
    object: Object


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as it came."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def watch(self) -> bool:
        return "watch" in self.query


@dataclass(slots=True)
class Wire:
    """How the bytes of watches go out. `budget`: so many more, then the connection drops; None: no end."""

    cut: Callable[[bytes], list[bytes]] = lambda data: [data]
    budget: int | None = None
    silent: bool = False


def status(code: int, reason: str, message: str = "") -> Object:
    kind = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    return {**kind, "code": code, "reason": reason, "message": message}


class FakeApi:
    """The server. Change it with `put`, `delete`, `bookmark`; break it with the rest."""

    def __init__(self) -> None:
        self.revision = 1000
        self.objects: dict[str, dict[Key, Object]] = defaultdict(dict)
        self.asked: list[Asked] = []
        self.written: list[int] = []  # the version of every object as it was created or changed
        self.asked_at: list[float] = []  # seconds; of the same index
        self.absent: set[str] = set()
        self.replies: dict[tuple[str, str], deque[Reply]] = defaultdict(deque)
        self.wire = Wire()
        self.expired_as: Literal["status", "event"] = "status"
        self.token: str | None = None
        self.port = 0
        self.tls: ssl.SSLContext | None = None
        self._history: list[Change] = []
        self._compacted = 0
        self._bookmarks: list[bytes] = []
        self._pages: dict[str, tuple[int, list[Object]]] = {}
        self._uids = count(1)
        self._changed = asyncio.Event()
        self._came = anyio.Event()  # a request
        self._open: set[asyncio.Transport] = set()
        self._listener: socket.socket | None = None
        self._held: socket.socket | None = None
        self._runner: web.ServerRunner | None = None

    # What the tests change.

    def put(self, path: str, name: str, namespace: str = "", **parts: Any) -> Object:
        """Creates or changes an object; a changed one keeps its UID."""
        before = self.objects[path].get((namespace, name))
        uid = before["metadata"]["uid"] if before else f"uid-{next(self._uids)}"
        self.revision += 1
        meta = {"name": name, "uid": uid, "resourceVersion": str(self.revision), **parts.pop("metadata", {})}
        if namespace:
            meta["namespace"] = namespace
        made = {"metadata": meta, **parts}
        self.objects[path][namespace, name] = made
        self.written.append(self.revision)
        self._record(Change(self.revision, path, "MODIFIED" if before else "ADDED", made))
        return made

    def delete(self, path: str, name: str, namespace: str = "") -> None:
        last = self.objects[path].pop((namespace, name))
        self.revision += 1
        last = {**last, "metadata": {**last["metadata"], "resourceVersion": str(self.revision)}}
        self._record(Change(self.revision, path, "DELETED", last))

    def bookmark(self, version: str | None = None) -> None:
        """Sends a bookmark on every open watch, of the present revision unless told otherwise."""
        self.send(_line("BOOKMARK", {"metadata": {"resourceVersion": version or str(self.revision)}}))

    def send(self, line: bytes) -> None:
        """Sends any line on every open watch."""
        self._bookmarks.append(line)
        self._wake()

    def compact(self) -> None:
        """Forgets the history, and with it the pages of lists under way."""
        self._compacted = self.revision
        self._history.clear()
        self._pages.clear()

    def reply(self, method: str, path: str, *replies: Reply) -> None:
        """The next answers to this method and path ("watch" for a watch), instead of the usual ones."""
        self.replies[method, path].extend(replies)

    def drop(self) -> None:
        """Cuts every open connection."""
        for transport in list(self._open):
            transport.abort()

    async def was_asked(self, times: int, *, seconds: float = 60.0) -> None:
        """Waits until so many requests have come."""
        with anyio.fail_after(seconds):
            while len(self.asked) < times:
                await self._came.wait()

    # Start and stop.

    @property
    def url(self) -> str:
        return f"http{'s' if self.tls else ''}://127.0.0.1:{self.port}"

    async def start(self) -> None:
        runner = web.ServerRunner(web.Server(self._handle, access_log=None, handler_cancellation=True), shutdown_timeout=0.01)
        await runner.setup()
        if self._held is None:
            self._held = held()
            self.port = self._held.getsockname()[1]
        listener = socket.create_server(("127.0.0.1", self.port))
        await web.SockSite(runner, listener, ssl_context=self.tls).start()
        self._runner, self._listener = runner, listener

    async def stop(self) -> None:
        """As kill -9 does it: connections are cut, none is taken."""
        runner, self._runner = self._runner, None
        assert runner is not None
        assert self._listener is not None
        # asyncio loses a connection that it is accepting while it closes the server: the peer would wait for ever.
        asyncio.get_running_loop().remove_reader(self._listener.fileno())
        for _ in range(3):
            await asyncio.sleep(0)
        self.drop()
        await runner.cleanup()

    # Serving.

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        transport = request.transport
        assert isinstance(transport, asyncio.Transport)
        self._open.add(transport)
        try:
            return await self._answer(request, transport)
        except ConnectionError:
            return web.Response()  # nobody is there to read it
        finally:
            self._open.discard(transport)

    async def _answer(self, request: web.BaseRequest, transport: asyncio.Transport) -> web.StreamResponse:
        asked = Asked(request.method, request.path, dict(request.query), dict(request.headers), await request.read())
        self.asked.append(asked)
        self.asked_at.append(anyio.current_time())
        self._came.set()
        self._came = anyio.Event()
        if self.token is not None and asked.headers.get("Authorization") != self.token:
            return _json(401, status(401, "Unauthorized", "Unauthorized"))
        scripted = self.replies["watch" if asked.watch else asked.method, asked.path]
        if scripted:
            return await self._scripted(scripted.popleft(), transport)
        if asked.method != "GET" or asked.path in self.absent or asked.path not in self.objects:
            return _json(404, status(404, "NotFound", f"{asked.path} not found"))
        return await self._watch(asked, request, transport) if asked.watch else self._list(asked)

    async def _scripted(self, reply: Reply, transport: asyncio.Transport) -> web.StreamResponse:
        if reply.hang:
            await asyncio.sleep(3600)
        if reply.drop:
            transport.abort()
            await asyncio.sleep(3600)
        body = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
        return web.Response(status=reply.status, body=body, headers=reply.headers, content_type="application/json")

    def _list(self, asked: Asked) -> web.Response:
        token = asked.query.get("continue", "")
        if token:
            snapshot, _, start = token.partition("/")
            if snapshot not in self._pages:
                return _json(410, status(410, "Expired", "The provided continue parameter is too old"))
        else:
            snapshot, start = str(len(self.asked)), "0"
            self._pages[snapshot] = (self.revision, list(self.objects[asked.path].values()))
        revision, items = self._pages[snapshot]
        first, limit = int(start), int(asked.query.get("limit", "0")) or len(items)
        more = f"{snapshot}/{first + limit}" if first + limit < len(items) else ""
        meta = {"resourceVersion": str(revision), "continue": more}
        return _json(200, {"kind": "List", "metadata": meta, "items": items[first : first + limit]})

    async def _watch(self, asked: Asked, request: web.BaseRequest, transport: asyncio.Transport) -> web.StreamResponse:
        since = int(asked.query["resourceVersion"])
        expired = status(410, "Expired", f"too old resource version: {since} ({self._compacted})")
        if since < self._compacted and self.expired_as == "status":
            return _json(410, expired)
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        if since < self._compacted:
            await response.write(_line("ERROR", expired))
            return response
        timeout = float(asked.query["timeoutSeconds"])
        with anyio.move_on_after(timeout):
            bookmarks = len(self._bookmarks)
            while True:
                if since < self._compacted:  # what this watch has not sent yet is forgotten
                    await self._send(_line("ERROR", expired), response, transport)
                    return response
                changed, upto = self._changed, self.revision
                for change in self._after(since, asked.path):
                    await self._send(_line(change.type, change.object), response, transport)
                since = upto
                while bookmarks < len(self._bookmarks):
                    bookmarks += 1
                    await self._send(self._bookmarks[bookmarks - 1], response, transport)
                await changed.wait()
        return response

    async def _send(self, data: bytes, response: web.StreamResponse, transport: asyncio.Transport) -> None:
        if self.wire.silent:
            with anyio.CancelScope(shield=True):  # from the end that timeoutSeconds sets
                await asyncio.sleep(3600)
        if self.wire.budget is not None:
            data, self.wire.budget = data[: self.wire.budget], self.wire.budget - len(data)
        for part in self.wire.cut(data):
            await response.write(part)
            await asyncio.sleep(0)
        if self.wire.budget is not None and self.wire.budget < 0:
            self.wire.budget = None
            # What was written reaches the peer; then the connection is gone, in the middle of the answer.
            transport.close()
            await asyncio.sleep(3600)

    def _after(self, revision: int, path: str) -> list[Change]:
        return [change for change in self._history if change.revision > revision and change.path == path]

    def _record(self, change: Change) -> None:
        self._history.append(change)
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


def held() -> socket.socket:
    """A free port of loopback that nobody else gets while the socket is open: one that sets SO_REUSEADDR may listen on it."""
    holder = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    holder.bind(("127.0.0.1", 0))
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # after `bind`, so that it is not another's held port
    return holder


@asynccontextmanager
async def fake_api(*, tls: ssl.SSLContext | None = None) -> AsyncIterator[FakeApi]:
    api = FakeApi()
    api.tls = tls
    await api.start()
    try:
        yield api
    finally:
        if api._runner is not None:
            await api.stop()
        if api._held is not None:
            api._held.close()


def write_kubeconfig(path: Path, url: str, *, user: Object | None = None, cluster: Object | None = None) -> str:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "fake",
        "clusters": [{"name": "fake", "cluster": {"server": url, **(cluster or {})}}],
        "users": [{"name": "tester", "user": user or {}}],
        "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "tester"}}],
    }
    path.write_text(json.dumps(config))
    return str(path)


def _line(type_: str, object_: Object) -> bytes:
    return json.dumps({"type": type_, "object": object_}, separators=(",", ":")).encode() + b"\n"


def _json(code: int, body: Object) -> web.Response:
    return web.Response(status=code, body=json.dumps(body).encode(), content_type="application/json")
