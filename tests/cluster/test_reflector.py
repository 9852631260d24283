"""Our reflectors under a real API server that is killed, restarted and paused while objects change all the time."""

import random
from collections.abc import AsyncIterator, Hashable
from functools import partial
from pathlib import Path
from signal import SIGKILL
from typing import Any

import aiohttp
import anyio
import pytest

from slackwater.adapters.kube.client import KubeClient, open_client
from slackwater.adapters.kube.reflector import Reflector, ReflectorConfig
from slackwater.adapters.kube.resource_type import nodes, pods
from slackwater.model.pod_constraints import KindInterner
from tests.support.controlplane.build import Binaries
from tests.support.controlplane.stack import ControlPlane
from tests.support.feedreader import EventSourceReader
from tests.support.seeds import a_seed
from tests.support.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.cluster]

PODS = "/api/v1/namespaces/default/pods"
NODES = "/api/v1/nodes"
CONFIG = ReflectorConfig(page_size=20, watch_seconds=(2.0, 4.0), grace_seconds=1.0)

State = dict[Hashable, tuple[str, int]]


class EventSources:
    """Both event sources, each with its reader."""

    def __init__(self, client: KubeClient, rng: random.Random) -> None:
        self.broken: list[str] = []
        self.reflectors: dict[str, Reflector[Any]] = {
            NODES: Reflector(client, nodes(self._note), rng=rng, config=CONFIG),
            "/api/v1/pods": Reflector(client, pods(KindInterner(), self._note), rng=rng, config=CONFIG),
        }
        self.readers = {path: EventSourceReader() for path in self.reflectors}

    def _note(self, kind: str, name: str, error: Exception) -> None:
        self.broken.append(f"{kind} {name}: {error}")

    async def run(self) -> None:
        async with anyio.create_task_group() as group:
            for path, reflector in self.reflectors.items():
                group.start_soon(self.readers[path].run, reflector)

    async def listed(self) -> None:
        await until(lambda: all(reader.lists > 0 for reader in self.readers.values()))

    async def agree_with(self, api: aiohttp.ClientSession) -> None:
        """Waits until each reader has what a fresh list shows; nothing may be doubled or out of order on the way."""
        for path, reader in self.readers.items():
            await until(partial(_has, reader, await fresh_list(api, path)))
            assert not reader.complaints
        assert not self.broken


def _has(reader: EventSourceReader, state: State) -> bool:
    return reader.state == state


async def fresh_list(api: aiohttp.ClientSession, path: str) -> State:
    async with api.get(path) as answer:
        assert answer.status == 200, await answer.text()
        metas = [item["metadata"] for item in (await answer.json())["items"]]
    return {
        (meta["namespace"], meta["name"]) if "namespace" in meta else meta["name"]: (
            meta["uid"],
            int(meta["resourceVersion"]),
        )
        for meta in metas
    }


class Meddler:
    """Creates, changes and deletes objects, some of them again and again under the same name. Failures do not stop it."""

    def __init__(self, api: aiohttp.ClientSession, rng: random.Random) -> None:
        self._api = api
        self._rng = rng
        self.done = 0

    async def run(self) -> None:
        while True:
            path, body = self._target()
            name = body["metadata"]["name"]
            try:
                match self._rng.randrange(4):
                    case 0:
                        answer = await self._api.delete(f"{path}/{name}", params={"gracePeriodSeconds": "0"})
                    case 1:
                        answer = await self._api.post(path, json=body)
                    case _:
                        patch = {"metadata": {"annotations": {"touched": str(self.done)}}}
                        kind = {"Content-Type": "application/merge-patch+json"}
                        answer = await self._api.patch(f"{path}/{name}", json=patch, headers=kind)
                self.done += answer.ok
                answer.release()
            except (aiohttp.ClientError, OSError):
                await anyio.sleep(0.02)

    def _target(self) -> tuple[str, dict[str, Any]]:
        number = self._rng.randrange(100)
        if self._rng.random() < 0.3:
            return NODES, {"metadata": {"name": f"reflected-{number}"}, "status": {"capacity": {"cpu": "4"}}}
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}}
        return PODS, {"metadata": {"name": f"reflected-{number}"}, "spec": {"containers": [container]}}


@pytest.fixture
async def own(anyio_backend: str, binaries: Binaries, tmp_path: Path) -> AsyncIterator[ControlPlane]:
    """A control plane of this test's own: it kills the API server."""
    async with ControlPlane(binaries, directory=tmp_path / "control-plane", kwok=False) as cp:
        yield cp


async def until_done(meddler: Meddler, changes: int) -> None:
    want = meddler.done + changes
    await until(lambda: meddler.done >= want, seconds=120)


async def test_the_api_server_killed_twice_under_load_leaves_no_gap_and_doubles_nothing(own: ControlPlane) -> None:
    rng = random.Random(a_seed())
    async with open_client(kubeconfig=str(own.kubeconfig("admin"))) as client, own.session() as api:
        event_sources, meddler = EventSources(client, rng), Meddler(api, rng)
        async with anyio.create_task_group() as everything:
            everything.start_soon(event_sources.run)
            async with anyio.create_task_group() as meddling:
                for _ in range(4):
                    meddling.start_soon(meddler.run)
                await until_done(meddler, 200)
                await event_sources.listed()
                for _ in range(2):
                    await until_done(meddler, 300)
                    own.kill("kube-apiserver", SIGKILL)
                    await own.ended("kube-apiserver")
                    await own.start("kube-apiserver")
                await until_done(meddler, 300)
                meddling.cancel_scope.cancel()
            await event_sources.agree_with(api)
            for path, reflector in event_sources.reflectors.items():
                print(path, reflector.lists, reflector.watches, reflector.events, reflector.breaks)
                assert sum(reflector.breaks.values()) >= 2
            # A watch that has just expired lists again.
            await until(lambda: all(reflector.alive for reflector in event_sources.reflectors.values()))
            everything.cancel_scope.cancel()
    assert meddler.done >= 1100


async def test_an_api_server_that_hangs_is_left_and_found_again(own: ControlPlane) -> None:
    rng = random.Random(1)
    async with open_client(kubeconfig=str(own.kubeconfig("admin"))) as client, own.session() as api:
        event_sources, meddler = EventSources(client, rng), Meddler(api, rng)
        async with anyio.create_task_group() as everything:
            everything.start_soon(event_sources.run)
            await event_sources.listed()
            own.pause("kube-apiserver")
            await until(lambda: all("silent" in r.breaks for r in event_sources.reflectors.values()))
            own.resume("kube-apiserver")
            async with anyio.create_task_group() as meddling:
                meddling.start_soon(meddler.run)
                await until_done(meddler, 100)
                meddling.cancel_scope.cancel()
            await event_sources.agree_with(api)
            everything.cancel_scope.cancel()
