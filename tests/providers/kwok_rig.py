"""The kwok provider over an API server in memory, on virtual time."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from slackwater.adapters.api_calls import ApiCalls
from slackwater.adapters.cloud.kwok.nodes import NODES_PATH, KwokGroup, SimulatedFailures
from slackwater.adapters.cloud.kwok.provider import KwokProvider
from slackwater.adapters.kube.decode import NodeDecoder
from slackwater.model.nodegroups import GroupName, InstanceErrorKind
from slackwater.model.objects import Node
from tests.providers.rig import FIRST_SIZE, MAX_SIZE, MIN_SIZE, Rig
from tests.support.flakyapi import FlakyApi
from tests.support.objectstore import ObjectStore, nodes_of

CONFIG_MAPS = "/api/v1/configmaps"
TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"tier": "batch"}},
    "spec": {"taints": [{"key": "dedicated", "value": "batch", "effect": "NoSchedule"}]},
    "status": {"capacity": {"cpu": "4", "memory": "16Gi", "pods": "110"}},
}
SLOW = SimulatedFailures(appear_seconds=30, boot_seconds=30)


def a_group(
    name: str, *, simulated_failures: SimulatedFailures = SLOW, min_size: int = 0, max_size: int = MAX_SIZE
) -> KwokGroup:
    raw = json.dumps({**TEMPLATE, "metadata": {**TEMPLATE["metadata"], "name": "template", "uid": "none"}}).encode()
    template = NodeDecoder().decode(raw)
    return KwokGroup(
        name=GroupName(name),
        min_size=min_size,
        max_size=max_size,
        template=template,
        body=TEMPLATE,
        simulated_failures=simulated_failures,
    )


Read = Callable[[], Awaitable[Sequence[Node]]]


@dataclass
class KwokRig:
    """See `Rig`. Time is virtual. `make`: a provider of these groups; `read`: the Nodes of the cluster."""

    api: FlakyApi
    clock: list[float]
    groups: list[KwokGroup]
    make: Callable[[], KwokProvider]
    read: Read
    guards_processes: bool = True

    def __post_init__(self) -> None:
        self.provider = self.make()
        self.group, self.other = (group.name for group in self.groups)

    async def start(self) -> None:
        """The nodes that run at first."""
        await self.provider.grow(self.group, seen=0, to=FIRST_SIZE, timeout_seconds=60)
        await self.provider.grow(self.other, seen=0, to=1, timeout_seconds=60)
        await self.settle()

    async def noticed(self) -> None:
        """At once."""

    async def settle(self) -> None:
        while (due_at := await self.provider.arrivals.settle()) is not None:
            self.clock[0] = due_at

    async def nodes(self) -> Sequence[Node]:
        return await self.read()

    def another(self) -> KwokProvider:
        return self.make()

    def lose_answer(self, *, done: bool) -> None:
        self.api.lost.append(done)

    async def machines_fail(self, kind: InstanceErrorKind) -> None:
        """As a change of the settings would do it: there is another provider over the same record."""
        bad = SimulatedFailures(failing=1) if kind == "other" else SimulatedFailures(stock=FIRST_SIZE, appear_seconds=30)
        self.groups[0] = replace(self.groups[0], simulated_failures=bad)
        self.provider = self.another()

    def silence(self) -> None:
        self.api.silent = True


def a_store() -> ObjectStore:
    return ObjectStore(served={NODES_PATH, CONFIG_MAPS})


def a_provider(
    api: ApiCalls, groups: Sequence[KwokGroup], clock: list[float], *, namespace: str = "kube-system"
) -> KwokProvider:
    return KwokProvider(api, groups, now=lambda: clock[0], seed=7, namespace=namespace)


@asynccontextmanager
async def kwok_rig() -> AsyncIterator[Rig]:
    store, clock = a_store(), [1000.0]
    groups = [a_group("group", min_size=MIN_SIZE), a_group("other")]
    api = FlakyApi(store)
    rig = KwokRig(api, clock, groups, lambda: a_provider(api, groups, clock), lambda: nodes_of(store, NODES_PATH))
    await rig.start()
    yield rig
