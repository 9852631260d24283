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
from slackwater.app.settings import Settings
from slackwater.sandbox.free_ports import FreePorts
from tests.bench.objects import NAMESPACE
from tests.bench.options import PATIENCE_SECONDS, BenchFailed
from tests.cluster.support.audit_tail import SERVICE_TOO
from tests.support.controlplane.build import build
from tests.support.controlplane.component import Component, Launch
from tests.support.controlplane.launches import AUDIT_RULES
from tests.support.controlplane.stack import ControlPlane, until_ready

NODES_PATH: Final = "/api/v1/nodes"
PODS_PATH: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"

_CONNECTIONS: Final = 30
_STOP_WITHIN_SECONDS: Final = 10.0
#: What an API server answers that has more to do than it can, and how often it is asked again.
_LATER: Final = frozenset({429, 500, 503, 504})
_TRIES: Final = 10
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
        with anyio.move_on_after(PATIENCE_SECONDS):
            while True:
                unready = await self._unready_nodes()
                if not unready:
                    return
                await anyio.sleep(_LOOK_EVERY_SECONDS)
        within = f"within {PATIENCE_SECONDS:g} s"
        raise BenchFailed(f"{len(unready)} nodes did not become ready {within}, {unready[0] if unready else '?'} among them")

    async def _unready_nodes(self) -> list[str]:
        async with self.api.get(NODES_PATH, params={"resourceVersion": "0"}) as answer:
            answer.raise_for_status()
            found = orjson.loads(await answer.read())
        return [node["metadata"]["name"] for node in found["items"] if not _is_ready(node)]

    async def _create(self, path: str, item: Mapping[str, Any]) -> dict[str, Any]:
        name, again = item["metadata"]["name"], False
        for _ in range(_TRIES):
            async with self.api.post(path, data=orjson.dumps(item), headers={"Content-Type": "application/json"}) as answer:
                status, body = answer.status, await answer.read()
            if status not in _LATER:
                break
            again = True
            await anyio.sleep(1)
        if status == 409 and again:  # an earlier try has made it, although its answer says otherwise
            async with self.api.get(f"{path}/{name}") as answer:
                status, body = 201 if answer.status == 200 else answer.status, await answer.read()
        if status != 201:
            raise BenchFailed(f"creating {item['kind']} {name}: {status} {body.decode()}, want 201")
        made: dict[str, Any] = orjson.loads(body)
        return made

    @asynccontextmanager
    async def running(self, launch: Launch, *, ready_within_seconds: float = PATIENCE_SECONDS) -> AsyncIterator[Component]:
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
async def a_stage(
    *, kwok: bool, controllers: bool = False, settings: Settings | None = None, reads_too: bool = False
) -> AsyncIterator[Stage]:
    """A control plane that nothing was created on but the rights of the account `slackwater`, which are those for `settings`.

    With `reads_too` the audit log also has what that account reads, and its Leases and Events.
    """
    # Security: which ports are tried.
    ports = FreePorts(Random())
    async with (
        ControlPlane(
            build(),
            kwok=kwok,
            controllers=controllers,
            ports=ports,
            audited=SERVICE_TOO if reads_too else AUDIT_RULES,
            ready_within_seconds=PATIENCE_SECONDS,
        ) as cp,
        cp.session(connections=_CONNECTIONS) as api,
    ):
        # The logs of what we start lie beside the control plane's, which are kept where a run failed.
        stage = Stage(control_plane=cp, api=api, ports=ports, folder=cp.logs)
        for item in rbac.rights(settings, rbac.user("slackwater")):
            await stage.create(rbac.collection_path(item), [item])
        yield stage
