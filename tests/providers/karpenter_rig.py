"""The Karpenter provider over an API server in memory, with a controller that behaves as Karpenter's."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from slackwater.adapters.cloud.karpenter.instance_types import Offering
from slackwater.adapters.cloud.karpenter.provider import KarpenterProvider
from slackwater.model.nodegroups import GroupName, InstanceErrorKind
from slackwater.model.objects import Node
from tests.providers.rig import FIRST_SIZE, MAX_SIZE, Rig
from tests.support.flakyapi import FlakyApi
from tests.support.nodeclaims import NODES, NodeClaimController, a_pool, a_store
from tests.support.objectstore import ObjectStore, nodes_of

GROUP, OTHER = GroupName("group/m.4/a/on-demand"), GroupName("other/m.4/a/on-demand")
_AMOUNTS: Final = {"cpu": "4", "memory": "16Gi", "pods": "110"}
_NANOS: Final = {"cpu": 4 * 10**9, "memory": (16 << 30) * 10**9, "pods": 110 * 10**9}
OFFERING: Final = Offering(type="m.4", zone="a", capacity_type="on-demand", labels={}, capacity=_NANOS, allocatable=_NANOS)
_TAINTS: Final = {"taints": [{"key": "dedicated", "value": "batch", "effect": "NoSchedule"}]}


@dataclass
class KarpenterRig:
    """See `Rig`."""

    store: ObjectStore
    api: FlakyApi
    controller: NodeClaimController
    provider: KarpenterProvider
    group: GroupName = GROUP
    other: GroupName = OTHER
    guards_processes: bool = True

    async def noticed(self) -> None:
        self.controller.step()

    async def settle(self) -> None:
        self.controller.settle()

    async def nodes(self) -> Sequence[Node]:
        return await nodes_of(self.store, NODES)

    def another(self) -> KarpenterProvider:
        return KarpenterProvider(self.api, [OFFERING])

    def lose_answer(self, *, done: bool) -> None:
        self.api.lost.append(done)

    async def machines_fail(self, kind: InstanceErrorKind) -> None:
        if kind == "out-of-resources":
            self.controller.give_up()
        else:
            self.controller.refuse()

    def silence(self) -> None:
        self.api.silent = True


@asynccontextmanager
async def karpenter_rig() -> AsyncIterator[Rig]:
    store = a_store()
    a_pool(store, "group", template=_TAINTS, labels={"tier": "batch"}, limits={"nodes": "0", "cpu": 4 * MAX_SIZE})
    a_pool(store, "other")
    api = FlakyApi(store)
    rig = KarpenterRig(store, api, NodeClaimController(store, _AMOUNTS), KarpenterProvider(api, [OFFERING]))
    await rig.provider.grow(rig.group, seen=0, to=FIRST_SIZE, timeout_seconds=60)
    await rig.provider.grow(rig.other, seen=0, to=1, timeout_seconds=60)
    await rig.settle()
    yield rig
