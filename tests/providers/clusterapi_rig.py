"""The Cluster API provider over an API server in memory, with a controller that behaves as Cluster API's."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count

from slackwater.adapters.api_calls import ApiCalls
from slackwater.adapters.cloud.clusterapi.provider import ClusterApiProvider, GroupSelection
from slackwater.adapters.kube.decode import NodeDecoder
from slackwater.model.nodegroups import GroupName, InstanceErrorKind
from slackwater.model.objects import Node
from tests.providers.rig import FIRST_SIZE, MAX_SIZE, MIN_SIZE, Rig
from tests.support.flakyapi import FlakyApi
from tests.support.machines import GROUP_PATH, NODES, PLURALS, MachineController, a_scaled, sizes
from tests.support.objectstore import ObjectStore

CAPACITY = {
    "capacity.cluster-autoscaler.kubernetes.io/cpu": "4",
    "capacity.cluster-autoscaler.kubernetes.io/memory": "16Gi",
    "capacity.cluster-autoscaler.kubernetes.io/labels": "tier=batch",
    "capacity.cluster-autoscaler.kubernetes.io/taints": "dedicated=batch:NoSchedule",
}
NAMESPACE = "machines"
_REASONS: dict[InstanceErrorKind, str] = {"out-of-resources": "InsufficientResources", "other": "CreateError"}


@dataclass
class ClusterApiRig:
    """See `Rig`."""

    store: ObjectStore
    api: FlakyApi
    controller: MachineController
    provider: ClusterApiProvider
    group: GroupName
    other: GroupName
    guards_processes: bool = True

    async def noticed(self) -> None:
        await self.controller.step()

    async def settle(self) -> None:
        await self.controller.settle()

    async def nodes(self) -> Sequence[Node]:
        decoder = NodeDecoder()
        return [decoder.decode(json.dumps(node).encode()) for node in self.store.listed(NODES).values()]

    def another(self) -> ClusterApiProvider:
        return a_provider(self.api)

    def lose_answer(self, *, done: bool) -> None:
        self.api.lost.append(done)

    async def machines_fail(self, kind: InstanceErrorKind) -> None:
        await self.controller.fail(_REASONS[kind])

    def silence(self) -> None:
        self.api.silent = True


def a_store() -> ObjectStore:
    plurals = (*PLURALS.values(), "machines")
    return ObjectStore(served={NODES, *(f"{GROUP_PATH}/{plural}" for plural in plurals)})


def a_provider(api: ApiCalls, wanted: GroupSelection | None = None) -> ClusterApiProvider:
    stamps = count()
    return ClusterApiProvider(api, wanted or GroupSelection(namespace=None), stamp=lambda: f"stamp-{next(stamps)}")


@asynccontextmanager
async def clusterapi_rig(kind: str) -> AsyncIterator[Rig]:
    store = a_store()
    controller = MachineController(store, NAMESPACE)
    for name, size, smallest in (("group", FIRST_SIZE, MIN_SIZE), ("other", 1, 0)):
        annotations = CAPACITY | sizes(smallest, MAX_SIZE)
        await controller.create(PLURALS[kind], a_scaled(kind, name, replicas=size, annotations=annotations))
    await controller.settle()
    group, other = (GroupName(f"{kind}/{NAMESPACE}/{name}") for name in ("group", "other"))
    api = FlakyApi(store)
    yield ClusterApiRig(store, api, controller, a_provider(api), group, other)
