"""The stage of one run: a fresh control plane with Slackwater's rights, and everything created on it that the run needs."""

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final

import aiohttp
import anyio
import orjson

from slackwater.app import rbac
from slackwater.sandbox.controlplane.build import build
from slackwater.sandbox.controlplane.component import Component, Launch
from slackwater.sandbox.controlplane.ports import FreePorts
from slackwater.sandbox.controlplane.stack import ControlPlane, until_ready
from tests.bench.objects import NAMESPACE
from tests.bench.options import BenchFailed

NODES_PATH: Final = "/api/v1/nodes"
PODS_PATH: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"

_RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"
_CONNECTIONS: Final = 30
_STOP_WITHIN_SECONDS: Final = 10.0
#: KWOK takes some 40 nodes a second on a busy machine.
_NODES_WITHIN_SECONDS: Final = 300.0
_LOOK_EVERY_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One control plane, and a folder for the files of whatever else runs."""

    control_plane: ControlPlane
    api: aiohttp.ClientSession
    ports: FreePorts
    folder: Path

    async def create(self, path: str, objects: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Creates the objects, 30 at a time; what the API server made of them, in the same order. Raises BenchFailed."""
        waiting = enumerate(objects)
        created: dict[int, dict[str, Any]] = {}

        async def work() -> None:
            for number, item in waiting:
                created[number] = await self._create(path, item)

        try:
            async with anyio.create_task_group() as group:
                for _ in range(_CONNECTIONS):
                    group.start_soon(work)
        except ExceptionGroup as errors:  # what went wrong first is what there is to say
            raise errors.exceptions[0] from errors
        return [created[number] for number in range(len(created))]

    async def until_nodes_ready(self) -> None:
        """Until KWOK has told of every node that it is ready: else a run has to share the machine with what is left of that.

        Raises BenchFailed.
        """
        unready: list[str] = []
        with anyio.move_on_after(_NODES_WITHIN_SECONDS):
            while True:
                unready = await self._unready_nodes()
                if not unready:
                    return
                await anyio.sleep(_LOOK_EVERY_SECONDS)
        within = f"within {_NODES_WITHIN_SECONDS:.0f} s"
        raise BenchFailed(f"{len(unready)} nodes did not become ready {within}, {unready[0] if unready else '?'} among them")

    async def _unready_nodes(self) -> list[str]:
        async with self.api.get(NODES_PATH, params={"resourceVersion": "0"}) as answer:
            answer.raise_for_status()
            found = orjson.loads(await answer.read())
        return [node["metadata"]["name"] for node in found["items"] if not _is_ready(node)]

    async def _create(self, path: str, item: Mapping[str, Any]) -> dict[str, Any]:
        async with self.api.post(path, data=orjson.dumps(item), headers={"Content-Type": "application/json"}) as answer:
            body = await answer.read()
        if answer.status != 201:
            raise BenchFailed(f"creating {item['kind']} {item['metadata']['name']}: {answer.status} {body.decode()}, want 201")
        made: dict[str, Any] = orjson.loads(body)
        return made

    @asynccontextmanager
    async def running(self, launch: Launch, *, ready_within_seconds: float = 60.0) -> AsyncIterator[Component]:
        """The program, from ready until the block is left."""
        component = Component(launch, log=self.folder / f"{launch.name}.log", home=self.folder)
        await component.start()
        try:
            await until_ready(component, self.api, within_seconds=ready_within_seconds)
            yield component
            component.check()
        finally:
            with anyio.CancelScope(shield=True):
                await component.stop(within_seconds=_STOP_WITHIN_SECONDS)


def _is_ready(node: Mapping[str, Any]) -> bool:
    conditions = node["status"].get("conditions", ())
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


@asynccontextmanager
async def a_stage(*, kwok: bool) -> AsyncIterator[Stage]:
    """A control plane that nothing was created on but the rights of the account `slackwater`."""
    # Security: which ports are tried.
    ports = FreePorts(Random())
    async with ControlPlane(build(), kwok=kwok, ports=ports) as cp, cp.session(connections=_CONNECTIONS) as api:
        # The logs of what we start lie beside the control plane's, which are kept where a run failed.
        stage = Stage(control_plane=cp, api=api, ports=ports, folder=cp.logs)
        await stage.create(f"{_RBAC}/clusterroles", [rbac.cluster_role()])
        await stage.create(f"{_RBAC}/clusterrolebindings", [rbac.cluster_role_binding(rbac.user("slackwater"))])
        yield stage
