"""The Cluster API provider over an API server in memory, with a controller that behaves as Cluster API's."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count

from slackwater.adapters.api_calls import ApiCalls
from slackwater.adapters.cloud.clusterapi.provider import ClusterApiProvider, GroupSelection
from slackwater.model.nodegroups import GroupName, InstanceErrorKind
from slackwater.model.objects import Node
from tests.providers.kwok_rig import Read
from tests.providers.rig import FIRST_SIZE, MAX_SIZE, MIN_SIZE, Rig
from tests.support.flakyapi import FlakyApi
from tests.support.machines import GROUP_PATH, NODES, PLURALS, MachineController, a_scaled, sizes
from tests.support.objectstore import ObjectStore, nodes_of

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
    """See `Rig`. `make`: a provider of these groups; `read`: the Nodes of the cluster."""

    api: FlakyApi
    controller: MachineController
    make: Callable[[], ClusterApiProvider]
    read: Read
    kind: str
    guards_processes: bool = True

    def __post_init__(self) -> None:
        self.provider = self.make()
        self.group, self.other = (GroupName(f"{self.kind}/{self.controller.namespace}/{name}") for name in ("group", "other"))

    async def start(self) -> None:
        """The groups with the nodes that run at first."""
        for name, size, smallest in (("group", FIRST_SIZE, MIN_SIZE), ("other", 1, 0)):
            annotations = CAPACITY | sizes(smallest, MAX_SIZE)
            scaled = a_scaled(self.kind, name, replicas=size, annotations=annotations)
            await self.controller.create(PLURALS[self.kind], scaled)
        await self.settle()

    async def noticed(self) -> None:
        await self.controller.step()

    async def settle(self) -> None:
        await self.controller.settle()

    async def nodes(self) -> Sequence[Node]:
        return await self.read()

    def another(self) -> ClusterApiProvider:
        return self.make()

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
    api = FlakyApi(store)
    controller = MachineController(store, NAMESPACE)
    rig = ClusterApiRig(api, controller, lambda: a_provider(api), lambda: nodes_of(store, NODES), kind)
    await rig.start()
    yield rig
