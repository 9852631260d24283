"""The external gRPC provider over a real socket, with the server double behind it."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from slackwater.adapters.cloud.externalgrpc.client import open_client
from slackwater.adapters.cloud.externalgrpc.provider import ExternalGrpcProvider
from slackwater.adapters.cloud.externalgrpc.wire import externalgrpc_pb2 as pb
from slackwater.model.nodegroups import GroupName, InstanceErrorKind
from slackwater.model.objects import Node
from tests.providers.rig import FIRST_SIZE, MAX_SIZE, MIN_SIZE, Rig
from tests.support.builders import a_node
from tests.support.externalserver import CREATING, DELETING, RUNNING, ExternalServer, Pool, a_template

GROUP, OTHER = GroupName("zone-a/pool"), GroupName("zone-b/pool")


@dataclass
class ExternalGrpcRig:
    """See `Rig`."""

    server: ExternalServer
    provider: ExternalGrpcProvider
    group: GroupName = GROUP
    other: GroupName = OTHER
    guards_processes: bool = False

    async def noticed(self) -> None:
        """At once."""

    async def settle(self) -> None:
        self.server.settle()

    async def nodes(self) -> Sequence[Node]:
        machines = [machine for pool in self.server.pools.values() for machine in pool.machines.values()]
        up = [m for m in machines if m.status.instanceState in (RUNNING, DELETING)]
        return [a_node(f"node-{number}", provider_id=machine.id) for number, machine in enumerate(up)]

    def another(self) -> ExternalGrpcProvider:
        return ExternalGrpcProvider(self.provider._client)

    def lose_answer(self, *, done: bool) -> None:
        self.server.lost.append(done)

    async def machines_fail(self, kind: InstanceErrorKind) -> None:
        for machine in self.server.pools[self.group].machines.values():
            if machine.status.instanceState == CREATING:
                code = {"out-of-resources": 1, "other": 99, "quota": 99}[kind]
                error = pb.InstanceErrorInfo(errorCode="NO_LUCK", errorMessage="it did not start", instanceErrorClass=code)
                machine.status.errorInfo.CopyFrom(error)

    def silence(self) -> None:
        self.server.silent = True


def a_server() -> ExternalServer:
    server = ExternalServer()
    for name, size, minimum in ((GROUP, FIRST_SIZE, MIN_SIZE), (OTHER, 1, 0)):
        template = a_template(cpu="4", memory="16Gi", pods="110")
        pool = Pool(name, min_size=minimum, max_size=MAX_SIZE, target=size, template=template)
        pool.make(size, RUNNING)
        server.pools[name] = pool
    return server


@asynccontextmanager
async def externalgrpc_rig() -> AsyncIterator[Rig]:
    server = a_server()
    async with server.serving() as address, open_client(address, timeout_seconds=60) as client:
        yield ExternalGrpcRig(server, ExternalGrpcProvider(client))
