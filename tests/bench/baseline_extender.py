"""An extender that decides nothing, as fast as Python honestly allows: the permit limit that the protocol sets for one in
Python.

It accepts every node, gives all the same score and binds through the binding subresource; with `--one-node` it accepts the
first node of each question only. It lists and watches nodes and pods, decodes every line and keeps what it says. Raw ASGI on
uvicorn (httptools, uvloop), orjson, aiohttp. Deliberately absent: decisions, metrics, retries, and whatever a lost history
needs: a run in which that happens is to fail.
"""

import argparse
import base64
import gc
import ssl
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import aiohttp
import anyio
import orjson
import uvicorn
import yaml

Message = MutableMapping[str, Any]

_PAGE: Final = 500
_SCORE: Final = 5
_NOTHING_WRONG: Final = b'{"Error":""}'
_JSON: Final = {"Content-Type": "application/json"}


@dataclass(slots=True)
class Cache:
    """Everything of one resource type, decoded, by UID."""

    path: str
    objects: dict[str, dict[str, Any]] = field(default_factory=dict)
    version: str = ""

    async def fill(self, api: aiohttp.ClientSession) -> None:
        """Lists page by page."""
        token = ""
        while True:
            params = {"limit": str(_PAGE)} | ({"continue": token} if token else {})
            async with api.get(self.path, params=params) as answer:
                answer.raise_for_status()
                page = orjson.loads(await answer.read())
            for item in page["items"]:
                self.objects[item["metadata"]["uid"]] = item
            token = page["metadata"].get("continue", "")
            if not token:
                self.version = page["metadata"]["resourceVersion"]
                return

    async def follow(self, api: aiohttp.ClientSession) -> None:
        """Watches; where the API server ends a watch (its reader was too slow for it), goes on from the last line."""
        timeout = aiohttp.ClientTimeout(total=None)
        while True:
            params = {"watch": "1", "resourceVersion": self.version, "allowWatchBookmarks": "true", "timeoutSeconds": "3600"}
            async with api.get(self.path, params=params, timeout=timeout) as answer:
                answer.raise_for_status()
                rest = b""
                async for chunk in answer.content.iter_any():
                    *lines, rest = (rest + chunk).split(b"\n")
                    for line in lines:
                        self._take(orjson.loads(line))

    def _take(self, change: dict[str, Any]) -> None:
        item = change["object"]
        self.version = item["metadata"]["resourceVersion"]
        match change["type"]:
            case "ADDED" | "MODIFIED":
                self.objects[item["metadata"]["uid"]] = item
            case "DELETED":
                self.objects.pop(item["metadata"]["uid"], None)
            case "BOOKMARK":
                pass
            case other:
                raise RuntimeError(f"the watch of {self.path} sent {other}: {item}")


class Extender:
    """The ASGI application: the four verbs, and `/readyz`."""

    def __init__(self, api: aiohttp.ClientSession, accepted: int | None) -> None:
        """`accepted`: how many nodes of a question pass filter; None for all."""
        self._api = api
        self._accepted = accepted
        self._verbs: Final[dict[str, Callable[[bytes], Awaitable[bytes]]]] = {
            "/scheduler/filter": self._filter,
            "/scheduler/prioritize": self._prioritize,
            "/scheduler/bind": self._bind,
            "/scheduler/preempt": self._preempt,
            "/readyz": self._ready,
        }

    async def __call__(
        self, scope: Message, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
    ) -> None:
        body = b""
        while True:
            message = await receive()
            body = body + message["body"] if body else message["body"]
            if not message["more_body"]:
                break
        answer = await self._verbs[scope["path"]](body)
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(answer))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": answer})

    async def _filter(self, body: bytes) -> bytes:
        return orjson.dumps({"NodeNames": orjson.loads(body)["NodeNames"][: self._accepted], "Error": ""})

    async def _prioritize(self, body: bytes) -> bytes:
        return orjson.dumps([{"Host": name, "Score": _SCORE} for name in orjson.loads(body)["NodeNames"]])

    async def _bind(self, body: bytes) -> bytes:
        args = orjson.loads(body)
        name, namespace = args["PodName"], args["PodNamespace"]
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "namespace": namespace, "uid": args["PodUID"]},
            "target": {"kind": "Node", "name": args["Node"]},
        }
        path = f"/api/v1/namespaces/{namespace}/pods/{name}/binding"
        async with self._api.post(path, data=orjson.dumps(binding), headers=_JSON) as answer:
            refusal = await answer.read()
            return _NOTHING_WRONG if answer.status == 201 else orjson.dumps({"Error": refusal.decode()})

    async def _preempt(self, body: bytes) -> bytes:
        return orjson.dumps({"NodeNameToMetaVictims": orjson.loads(body)["NodeNameToMetaVictims"]})

    async def _ready(self, _body: bytes) -> bytes:
        return b"{}"


def _session(kubeconfig: Path) -> aiohttp.ClientSession:
    """For a kubeconfig as the control plane's recipe writes it: one cluster, one user with a token."""
    config = yaml.safe_load(kubeconfig.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    tls = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
    return aiohttp.ClientSession(
        cluster["server"],
        headers={"Authorization": f"Bearer {user['token']}", "Accept-Encoding": "identity"},
        connector=aiohttp.TCPConnector(ssl=tls, limit=100),
        cookie_jar=aiohttp.DummyCookieJar(),
        read_bufsize=2**20,
        auto_decompress=False,
    )


async def _serve(kubeconfig: Path, port: int, accepted: int | None) -> None:
    async with _session(kubeconfig) as api, anyio.create_task_group() as group:
        caches = [Cache("/api/v1/nodes"), Cache("/api/v1/pods")]
        for cache in caches:
            await cache.fill(api)
            group.start_soon(partial(cache.follow, api))
        # As the service does: what was listed is not looked through again.
        gc.collect()
        gc.freeze()
        gc.set_threshold(50_000, 20, 20)
        config = uvicorn.Config(
            Extender(api, accepted),
            host="127.0.0.1",
            port=port,
            http="httptools",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            timeout_keep_alive=600,
        )
        await uvicorn.Server(config).serve()
        group.cancel_scope.cancel()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--one-node", action="store_true", help="accept the first node of each question only")
    asked = parser.parse_args()
    anyio.run(_serve, asked.kubeconfig, asked.port, 1 if asked.one_node else None, backend_options={"use_uvloop": True})
    return 0


if __name__ == "__main__":
    sys.exit(main())
