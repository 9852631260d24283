"""An extender that decides nothing: it lets every node pass, binds as asked, and keeps each call's body."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import aiohttp
from aiohttp import web

from slackwater.sandbox.free_ports import FreePorts

_MOST_BYTES: Final = 64 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtenderCall:
    """One call of kube-scheduler, with the name of the pod that it is about."""

    verb: str
    pod: str
    body: dict[str, Any]

    def __str__(self) -> str:
        """The verb, and for filter and prioritize to how many nodes it refers."""
        names = self.body.get("NodeNames")
        return self.verb if names is None else f"{self.verb}:{len(names)}"


@dataclass(slots=True)
class Recorder:
    """The calls so far. Pods named in `refused` get no node."""

    api: aiohttp.ClientSession
    refused: frozenset[str] = frozenset()
    calls: list[ExtenderCall] = field(default_factory=list)

    def of(self, pod: str) -> list[str]:
        """The calls about a pod, in order."""
        return [str(call) for call in self.calls if call.pod == pod]

    async def answer(self, request: web.Request) -> web.Response:
        """Keeps the call and answers it."""
        verb, body = request.match_info["verb"], await request.json()
        pod = body.get("PodName") or body["Pod"]["metadata"]["name"]
        self.calls.append(ExtenderCall(verb=verb, pod=pod, body=body))
        match verb:
            case "filter":
                names = [] if pod in self.refused else body["NodeNames"]
                failed = dict.fromkeys(set(body["NodeNames"]) - set(names), "the canary refuses it")
                return web.json_response({"NodeNames": names, "FailedNodes": failed})
            case "prioritize":
                return web.json_response([{"Host": name, "Score": 5} for name in body["NodeNames"]])
            case "preempt":
                return web.json_response({"NodeNameToMetaVictims": body["NodeNameToMetaVictims"]})
            case _:
                return web.json_response({"Error": await self._bind(body)})

    async def _bind(self, body: dict[str, Any]) -> str:
        path = f"/api/v1/namespaces/{body['PodNamespace']}/pods/{body['PodName']}/binding"
        target = {"apiVersion": "v1", "kind": "Node", "name": body["Node"]}
        wanted = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": body["PodName"]}, "target": target}
        async with self.api.post(path, json=wanted) as answer:
            return "" if answer.status == 201 else await answer.text()


@asynccontextmanager
async def recording(
    api: aiohttp.ClientSession, ports: FreePorts, refused: frozenset[str]
) -> AsyncIterator[tuple[Recorder, str]]:
    """A recorder that listens on loopback, and its `urlPrefix`."""
    recorder = Recorder(api, refused)
    app = web.Application(client_max_size=_MOST_BYTES)
    app.router.add_post("/scheduler/{verb}", recorder.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    port = ports.take()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    try:
        yield recorder, f"http://127.0.0.1:{port}/scheduler"
    finally:
        await runner.cleanup()
