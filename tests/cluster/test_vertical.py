"""Forty virtual machines on four real Nodes, their agents and their controller; and the service dies three times.

The environment variable SLACKWATER_TEST_KILLS gives another number of times.

A seed (`tests/support/seeds.py`) decides the loads, how long migrations take, and when the service dies. A run repeats as far
as real processes repeat themselves.
"""

import os
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx
import pytest

from tests.cluster.neonvm import crds
from tests.cluster.neonvm.controller import Controller
from tests.cluster.neonvm.machines import NodeGroupRegistry
from tests.cluster.neonvm.moves import RESOURCES, began
from tests.cluster.neonvm.watcher import Watcher
from tests.cluster.support.ground import Ground
from tests.cluster.support.stage import Stage
from tests.support.seeds import a_seed
from tests.support.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.cluster, pytest.mark.timeout(600)]

MACHINES, NODES = 40, 4
SETTINGS = {"nodes": {"watermark": {"cpu": 0.8, "memory": 0.8}}}
KILLS = int(os.environ.get("SLACKWATER_TEST_KILLS", "3"))
#: With the time in which the machines start, longer than any period of a load.
UNDISTURBED_SECONDS = 8.0
LOOKS = 25
#: What an agent learns that wants to change a machine whose migration has begun.
REPORTED = "already been informed that pod is migrating"
#: What an agent is told whose own machine was too busy to send the request it had begun.
TOO_SLOW = "408: body: not complete"
#: For what comes in the end, on however slow a machine; none of it should take a quarter of that.
PATIENCE_SECONDS = 120.0


@asynccontextmanager
async def a_group_registry(
    stage: Stage, ground: Ground, rng: random.Random
) -> AsyncIterator[tuple[NodeGroupRegistry, Controller, Watcher]]:
    """Machines that run, each with its agent. What goes wrong fails the test at the end of the block."""
    await crds.install(ground.api)
    nodes = await ground.make_nodes(NODES, cpu="10", memory="40Gi")
    service = await stage.up(SETTINGS)
    async with httpx.AsyncClient(limits=httpx.Limits(max_connections=100), trust_env=False) as http:
        group_registry = NodeGroupRegistry(ground.api, http, ground.name, service.agents_url, random.Random(rng.random()))
        controller = Controller(ground.api, ground.name, random.Random(rng.random()))
        watcher = Watcher(service, group_registry, frozenset(nodes))
        group_registry.denied = watcher.denied
        async with anyio.create_task_group() as group:
            group.start_soon(controller.run)
            await group_registry.make([f"vm-{number:02}" for number in range(MACHINES)])
            # Loads begin when all machines run: else those that came first may fill the nodes before the last have a place.
            group_registry.calm = True
            group.start_soon(group_registry.run)
            await until_running(group_registry)
            group_registry.calm = False
            group.start_soon(watcher.run)
            yield group_registry, controller, watcher
            group.cancel_scope.cancel()


async def until_running(group_registry: NodeGroupRegistry) -> None:
    async def agents() -> int:
        return len(group_registry.agents)

    await eventually(agents, lambda count: count == MACHINES, within_seconds=PATIENCE_SECONDS, wanted=f"{MACHINES} agents")


async def test_forty_machines_grow_shrink_and_move(stage: Stage, ground: Ground) -> None:
    rng = random.Random(a_seed())
    async with a_group_registry(stage, ground, rng) as (group_registry, controller, watcher):
        controller.fails = {"vm-03", "vm-07"}
        await until_crowded(watcher)
        failed_undisturbed = failures(group_registry)
        tell_time(group_registry, "undisturbed")
        for _ in range(KILLS):
            await anyio.sleep(rng.uniform(2.0, 4.0))
            await stage.service.kill()
            await stage.service.start()
        await anyio.sleep(3.0)
        tell_time(group_registry, "killed")
        group_registry.calm = True
        await until_at_rest(stage, ground, group_registry)
        tell_time(group_registry, "at rest")

    agents = [running.agent for running in group_registry.everyone()]
    migrations = watcher.judge_migrations()
    print(
        f"migrations={migrations} ended={len(controller.migrated)} denied={sum(a.denied for a in agents)} "
        f"full={watcher.full_seen} failed={len(failures(group_registry))} looks={len(watcher.looks)}"
    )
    assert not watcher.faults, "\n".join(watcher.faults)
    assert [agent.rejected for agent in agents if agent.rejected] == []
    assert [text for text in failed_undisturbed if REPORTED not in text and TOO_SLOW not in text] == []
    assert migrations


def tell_time(group_registry: NodeGroupRegistry, phase: str) -> None:
    print(f"{phase}: {anyio.current_time() - group_registry.started_at:.0f} s after the first agent")


def failures(group_registry: NodeGroupRegistry) -> list[str]:
    """Of requests so far, that were not answered with a permit."""
    return [text for running in group_registry.everyone() for text in running.agent.failed]


async def until_crowded(watcher: Watcher) -> None:
    """Loads have risen and fallen, nodes were full, machines have moved; and all was looked at often. Or something is wrong."""

    async def seen() -> dict[str, int]:
        moved = sum(len(moves) for _, _, moves in began(watcher.looks))
        return {"looks": len(watcher.looks), "denied on a full node": watcher.full_seen, "migrations": moved}

    def enough(numbers: dict[str, int]) -> bool:
        return bool(watcher.faults) or (numbers["looks"] >= LOOKS and min(numbers.values()) > 0)

    await anyio.sleep(UNDISTURBED_SECONDS)
    await eventually(
        seen, enough, within_seconds=PATIENCE_SECONDS, wanted=f"{LOOKS} looks, and each of these", every_seconds=0.5
    )


async def until_at_rest(stage: Stage, ground: Ground, group_registry: NodeGroupRegistry) -> None:
    """Everybody has given back; then nothing is left of what was, neither in the cluster state nor at the API server."""

    async def left() -> list[str]:
        dump = await stage.service.dumpstate()
        objects = await ground.read(f"{crds.GROUP_PATH}/namespaces/{ground.name}/virtualmachinemigrations")
        return [
            *(f"migration {item['metadata']['name']}" for item in objects["items"]),
            *(f"{what}: {len(dump[what])}" for what in ("migrations", "holds", "migrationCleanups") if dump[what]),
            *(problem for node in dump["nodes"] for problem in not_at_rest(node, group_registry.in_use_by_node())),
            *(f"permit of {entry['name']}: {entry}" for entry in dump["permits"] if entry["permit"] != entry["limit"]),
        ]

    await eventually(left, lambda found: not found, within_seconds=PATIENCE_SECONDS, wanted="nothing left", every_seconds=0.5)


def not_at_rest(node: dict[str, Any], in_use: dict[str, tuple[int, int]]) -> list[str]:
    want = dict(zip(RESOURCES, in_use.get(node["name"], (0, 0)), strict=True))
    found = {resource: node[resource] for resource in RESOURCES}
    return [
        f"{node['name']}: {resource} {numbers}, want {want[resource]} reserved and nothing else"
        for resource, numbers in found.items()
        if numbers["reserved"] != want[resource]
        or any(numbers[what] for what in ("buffer", "capacityPressure", "pressureAccountedFor", "held"))
    ]
