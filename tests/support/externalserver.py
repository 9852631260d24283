"""A server of Cluster Autoscaler's external provider protocol, written from the protocol: a cloud of a few groups.

Machines stay `instanceCreating` until `settle`. Every call that comes is written down with its deadline. A test can make
any call fail, stay silent, or answer with a lie. Deliberately absent: time.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
import grpc.aio
from google.protobuf.message import Message

from slackwater.adapters.cloud.externalgrpc import client as rpc
from slackwater.adapters.cloud.externalgrpc.client import SERVICE, Rpc
from slackwater.adapters.cloud.externalgrpc.wire import externalgrpc_pb2 as pb
from slackwater.adapters.cloud.externalgrpc.wire import node_pb2

Context = grpc.aio.ServicerContext[Any, Any]

CREATING, RUNNING, DELETING = (
    pb.InstanceStatus.instanceCreating,
    pb.InstanceStatus.instanceRunning,
    pb.InstanceStatus.instanceDeleting,
)
CHANGES = frozenset({rpc.INCREASE_SIZE.name, rpc.DECREASE_SIZE.name, rpc.DELETE_NODES.name})


@dataclass
class Pool:
    """`target` is kept apart from `machines`, as clouds do it."""

    id: str
    min_size: int
    max_size: int
    target: int = 0
    machines: dict[str, pb.Instance] = field(default_factory=dict)
    template: node_pb2.Node | None = None
    options: pb.NodeGroupAutoscalingOptions | None = None
    made: int = 0

    def make(self, count: int, state: "pb.InstanceStatus.InstanceState") -> None:
        for _ in range(count):
            id_ = f"external://{self.id}/{self.made}"
            self.machines[id_] = pb.Instance(id=id_, status=pb.InstanceStatus(instanceState=state))
            self.made += 1


@dataclass(frozen=True, slots=True)
class Call:
    """A call as it came; `seconds` is what was left until its deadline."""

    name: str
    request: Any
    seconds: float


@dataclass
class ExternalServer:
    """`fails`: the next answers to a call, by its name. `lost`: the connection breaks at the next changes, after (True) or
    before they were done. `hangs`: calls that are never answered; `hangs_about`: the group about which none is."""

    pools: dict[str, Pool] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    fails: dict[str, deque[grpc.StatusCode]] = field(default_factory=dict)
    lies: dict[str, Message] = field(default_factory=dict)
    lost: list[bool] = field(default_factory=list)
    hangs: set[str] = field(default_factory=set)
    hangs_about: str = ""
    silent: bool = False
    #: Of every node, for an hour.
    price: float | None = None
    address: str = ""

    def settle(self) -> None:
        for pool in self.pools.values():
            for id_, machine in list(pool.machines.items()):
                if machine.status.errorInfo.errorCode:
                    continue
                if machine.status.instanceState == DELETING:
                    del pool.machines[id_]
                else:
                    machine.status.instanceState = RUNNING

    def fail(self, name: str, *codes: grpc.StatusCode) -> None:
        self.fails.setdefault(name, deque()).extend(codes)

    def asked(self, name: str) -> list[Any]:
        return [call.request for call in self.calls if call.name == name]

    # The protocol.

    def _answers(self) -> dict[str, tuple[Rpc[Any, Any], Callable[[Any], Message | grpc.StatusCode]]]:
        pairs: list[tuple[Rpc[Any, Any], Callable[[Any], Message | grpc.StatusCode]]] = [
            (rpc.REFRESH, lambda _: pb.RefreshResponse()),
            (rpc.NODE_GROUPS, lambda _: pb.NodeGroupsResponse(nodeGroups=map(_reported, self.pools.values()))),
            (rpc.GROUP_FOR_NODE, self._group_for_node),
            (rpc.TARGET_SIZE, lambda q: pb.NodeGroupTargetSizeResponse(targetSize=self.pools[q.id].target)),
            (rpc.INCREASE_SIZE, self._increase),
            (rpc.DECREASE_SIZE, self._decrease),
            (rpc.DELETE_NODES, self._delete),
            (rpc.NODES, lambda q: pb.NodeGroupNodesResponse(instances=self.pools[q.id].machines.values())),
            (rpc.TEMPLATE, self._template),
            (rpc.OPTIONS, self._options),
            (rpc.NODE_PRICE, self._price),
        ]
        return {call.name: (call, answer) for call, answer in pairs}

    def _group_for_node(self, request: pb.NodeGroupForNodeRequest) -> Message:
        for pool in self.pools.values():
            if request.node.providerID in pool.machines:
                return pb.NodeGroupForNodeResponse(nodeGroup=_reported(pool))
        return pb.NodeGroupForNodeResponse()

    def _increase(self, request: pb.NodeGroupIncreaseSizeRequest) -> Message | grpc.StatusCode:
        pool = self.pools[request.id]
        if request.delta <= 0 or pool.target + request.delta > pool.max_size:
            return grpc.StatusCode.INVALID_ARGUMENT
        pool.target += request.delta
        pool.make(request.delta, CREATING)
        return pb.NodeGroupIncreaseSizeResponse()

    def _decrease(self, request: pb.NodeGroupDecreaseTargetSizeRequest) -> Message | grpc.StatusCode:
        pool = self.pools[request.id]
        pending = [id_ for id_, machine in pool.machines.items() if machine.status.instanceState == CREATING]
        if request.delta >= 0 or -request.delta > len(pending):
            return grpc.StatusCode.INVALID_ARGUMENT
        for id_ in pending[request.delta :]:
            del pool.machines[id_]
        pool.target += request.delta
        return pb.NodeGroupDecreaseTargetSizeResponse()

    def _delete(self, request: pb.NodeGroupDeleteNodesRequest) -> Message | grpc.StatusCode:
        pool = self.pools[request.id]
        ids = [node.providerID for node in request.nodes]
        if any(id_ not in pool.machines for id_ in ids):
            return grpc.StatusCode.FAILED_PRECONDITION
        for id_ in ids:
            if pool.machines[id_].status.instanceState == RUNNING:
                pool.machines[id_].status.instanceState = DELETING
            else:
                del pool.machines[id_]
        pool.target -= len(ids)
        return pb.NodeGroupDeleteNodesResponse()

    def _template(self, request: pb.NodeGroupTemplateNodeInfoRequest) -> Message | grpc.StatusCode:
        template = self.pools[request.id].template
        if template is None:
            return grpc.StatusCode.UNIMPLEMENTED
        return pb.NodeGroupTemplateNodeInfoResponse(nodeBytes=template.SerializeToString())

    def _options(self, request: pb.NodeGroupAutoscalingOptionsRequest) -> Message | grpc.StatusCode:
        options = self.pools[request.id].options
        if options is None:
            return grpc.StatusCode.UNIMPLEMENTED
        return pb.NodeGroupAutoscalingOptionsResponse(nodeGroupAutoscalingOptions=options)

    def _price(self, request: pb.PricingNodePriceRequest) -> Message | grpc.StatusCode:
        if self.price is None:
            return grpc.StatusCode.UNIMPLEMENTED
        hours = (request.endTimestamp.seconds - request.startTimestamp.seconds) / 3600
        return pb.PricingNodePriceResponse(price=self.price * hours)

    # Serving.

    def _handler(self, name: str, answer: Callable[[Any], Message | grpc.StatusCode]) -> Callable[[Any, Context], Any]:
        async def handle(request: Any, context: Context) -> Message:
            self.calls.append(Call(name, request, context.time_remaining() or 0.0))
            failing = self.fails.get(name)
            if failing:
                await context.abort(failing.popleft(), "as the test asked")
            lost = self.lost.pop(0) if self.lost and name in CHANGES else None
            about = self.hangs_about and getattr(request, "id", "") == self.hangs_about
            if self.silent or name in self.hangs or about:
                await asyncio.sleep(3600)
            if lost is False:
                await context.abort(grpc.StatusCode.UNAVAILABLE, "the connection broke")
            reported = self.lies.get(name) or answer(request)
            if lost:
                await context.abort(grpc.StatusCode.UNAVAILABLE, "the connection broke")
            if isinstance(reported, grpc.StatusCode):
                await context.abort(reported, f"{name} of {request} refused")
            assert isinstance(reported, Message)
            return reported

        return handle

    @asynccontextmanager
    async def serving(self, credentials: grpc.ServerCredentials | None = None) -> AsyncIterator[str]:
        """Its address while it runs."""
        server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
        handlers = {
            name: grpc.unary_unary_rpc_method_handler(
                self._handler(name, answer),
                request_deserializer=call.request.FromString,
                response_serializer=call.answer.SerializeToString,
            )
            for name, (call, answer) in self._answers().items()
        }
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
        port = (
            server.add_insecure_port("127.0.0.1:0")
            if credentials is None
            else server.add_secure_port("127.0.0.1:0", credentials)
        )
        await server.start()
        try:
            yield f"127.0.0.1:{port}"
        finally:
            await server.stop(None)


def _reported(pool: Pool) -> pb.NodeGroup:
    return pb.NodeGroup(id=pool.id, minSize=pool.min_size, maxSize=pool.max_size)


def a_template(**amounts: str) -> node_pb2.Node:
    """A node of a tier, with a taint."""
    return node_pb2.Node(
        metadata=node_pb2.ObjectMeta(name="template", labels={"tier": "batch"}),
        spec=node_pb2.NodeSpec(taints=[node_pb2.Taint(key="dedicated", value="batch", effect="NoSchedule")]),
        status=node_pb2.NodeStatus(capacity={name: node_pb2.Quantity(string=text) for name, text in amounts.items()}),
    )
