"""A `NodeProvider` over Cluster Autoscaler's external gRPC protocol.

The protocol changes sizes by a difference and has no precondition. So each change reads the target first, under a lock for the
group: two calls of this process never grow a group twice. Two processes could, so only the leader makes changes. Prices of
pods, GPU types and debugging calls of the protocol are not used.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import anyio
import grpc
import structlog
from google.protobuf.timestamp_pb2 import Timestamp

from slackwater.adapters.cloud.apiserver import bounded, check_growth, check_lowering, each
from slackwater.adapters.cloud.externalgrpc import client as rpc
from slackwater.adapters.cloud.externalgrpc import reading
from slackwater.adapters.cloud.externalgrpc.client import Client
from slackwater.adapters.cloud.externalgrpc.wire import externalgrpc_pb2 as pb
from slackwater.adapters.cloud.read_groups import ProblemLog, unreadable_group
from slackwater.model.nodegroups import NO_OPTIONS, GroupName, GroupOptions, Instance, NodeGroup, choice_of_provider
from slackwater.model.objects import Node
from slackwater.ports.protocols import ProviderError

_log = structlog.get_logger(__name__)

#: Groups that are read at the same time.
_WIDTH: Final = 8
_HOUR: Final = 3600
#: The share of a loop's timeout in which each group has to answer, or counts as unreadable.
_SHARE_OF_GROUPS: Final = 0.75
#: All prices together may hold up the loop for so long.
_PRICES_SECONDS: Final = 2.0
_UNIMPLEMENTED: Final = (grpc.StatusCode.UNIMPLEMENTED,)
#: Statuses with which servers answer for a node that they do not know.
_NOT_KNOWN: Final = (
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.UNKNOWN,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.UNIMPLEMENTED,
)


class ExternalGrpcGroups:
    """Implements `ports.protocols.GroupReader`. `defaults` are the configured options, for groups without their own. `now`: if
    given, prices are asked for, of an hour from that Unix time."""

    name: Final = "externalgrpc"

    def __init__(self, client: Client, *, defaults: GroupOptions = NO_OPTIONS, now: Callable[[], float] | None = None) -> None:
        self._client = client
        self._now = now
        self._prices: dict[GroupName, int] = {}
        self._defaults = reading.defaults(defaults)
        self._problems = ProblemLog()

    async def groups(self, *, timeout_seconds: float) -> Sequence[NodeGroup]:
        with bounded(None, timeout_seconds):
            await self._client.ask(rpc.REFRESH, pb.RefreshRequest())
            found = await self._read(await self._listed(), timeout_seconds * _SHARE_OF_GROUPS)
            if self._now is not None:
                await self._ask_prices([group for group in found if not group.unreadable], int(self._now()))
        found = [replace(group, price_micros=self._prices.get(group.name)) for group in found]
        return sorted(found, key=lambda group: group.name)

    async def _read(self, listed: Mapping[GroupName, Sequence[pb.NodeGroup]], timeout_seconds: float) -> list[NodeGroup]:
        """Reads the groups. One about which the server does not answer well, or not in time, is unreadable; raises the first
        problem if that is so of all."""
        found, problems = dict[GroupName, NodeGroup](), dict[GroupName, ProviderError]()

        async def look(name: GroupName) -> None:
            try:
                found[name] = await self._group(_only(name, listed[name]))
            except ProviderError as error:
                problems[name] = error

        with anyio.move_on_after(timeout_seconds):
            await each(None, listed, look, width=_WIDTH)
        for name in listed.keys() - found.keys() - problems.keys():
            problems[name] = ProviderError("unknown", name, f"no answer within {timeout_seconds:g} s")
        if problems and not found:
            raise problems[min(problems)]
        unread = (unreadable_group(self.name, name, f"{name}: {error.detail}") for name, error in problems.items())
        return [*found.values(), *unread]

    async def _group(self, grpc_message: pb.NodeGroup) -> NodeGroup:
        group = GroupName(grpc_message.id)
        return NodeGroup(
            name=group,
            provider=self.name,
            min_size=grpc_message.minSize,
            max_size=grpc_message.maxSize,
            target=await self._target(group),
            instances=await self._instances(group),
            template=await self._template(group),
            options=await self._options(group),
            choice=choice_of_provider(self.name, group),
        )

    async def _listed(self) -> dict[GroupName, list[pb.NodeGroup]]:
        """The groups by id. A server may answer nonsense, such as an id twice."""
        answer = await self._client.ask(rpc.NODE_GROUPS, pb.NodeGroupsRequest())
        found = defaultdict[GroupName, list[pb.NodeGroup]](list)
        for group in answer.nodeGroups:
            found[GroupName(group.id)].append(group)
        if found.pop(GroupName(""), ()):
            self._problems.note("", "NodeGroups: got a group without an id, which is left out")
        return found

    async def _limits(self, group: GroupName) -> pb.NodeGroup:
        listed = await self._listed()
        if group not in listed:
            raise ProviderError("gone", group, "the server knows no such group")
        return _only(group, listed[group])

    async def _target(self, group: GroupName) -> int:
        answer = await self._client.ask(rpc.TARGET_SIZE, pb.NodeGroupTargetSizeRequest(id=group), group=group)
        if answer.targetSize < 0:
            raise ProviderError("other", group, f"NodeGroupTargetSize: got {answer.targetSize}, want >= 0")
        return answer.targetSize

    async def _instances(self, group: GroupName) -> tuple[Instance, ...]:
        answer = await self._client.ask(rpc.NODES, pb.NodeGroupNodesRequest(id=group), group=group)
        found = {grpc_message.id: reading.instance(grpc_message) for grpc_message in answer.instances if grpc_message.id}
        if len(found) != len(answer.instances):
            self._problems.note(group, "NodeGroupNodes: instances without an id of their own are left out")
        return tuple(found.values())

    async def _template(self, group: GroupName) -> Node | None:
        request = pb.NodeGroupTemplateNodeInfoRequest(id=group)
        answer = await self._client.ask_unless(rpc.TEMPLATE, request, _UNIMPLEMENTED, group=group)
        raw = b"" if answer is None else answer.nodeBytes
        return self._problems.read(group, lambda: reading.template(raw, group), None)

    async def _options(self, group: GroupName) -> GroupOptions:
        request = pb.NodeGroupAutoscalingOptionsRequest(id=group, defaults=self._defaults)
        answer = await self._client.ask_unless(rpc.OPTIONS, request, _UNIMPLEMENTED, group=group)
        if answer is None or not answer.HasField("nodeGroupAutoscalingOptions"):
            return NO_OPTIONS
        return reading.options(answer.nodeGroupAutoscalingOptions)

    async def _ask_prices(self, groups: Iterable[NodeGroup], start: int) -> None:
        """Asks for the price of each group's template, each once. A price that does not come in time stays as it was; a server
        that has no prices is not asked again. Older servers read other fields of the request, and no period would be free."""
        begin, end = Timestamp(seconds=start), Timestamp(seconds=start + _HOUR)
        period = {"startTime": begin, "endTime": end, "startTimestamp": begin, "endTimestamp": end}

        async def ask(group: NodeGroup) -> None:
            if group.template is None or self._now is None:
                return
            node = pb.ExternalGrpcNode(
                providerID=group.template.provider_id, name=group.template.name, labels=group.template.labels
            )
            request = pb.PricingNodePriceRequest(node=node, **period)
            try:
                answer = await self._client.ask_unless(rpc.NODE_PRICE, request, _UNIMPLEMENTED, group=group.name)
                if answer is None:
                    self._now = None
                else:
                    self._prices[group.name] = reading.price_micros(answer)
            except (ProviderError, ValueError) as error:
                if self._problems.is_new(group.name, str(error)):
                    _log.warning("price left as it was", group=group.name, problem=str(error))

        with anyio.move_on_after(_PRICES_SECONDS):
            await each(None, groups, ask, width=_WIDTH)


class ExternalGrpcProvider(ExternalGrpcGroups):
    """Implements `ports.protocols.NodeProvider`."""

    def __init__(self, client: Client, *, defaults: GroupOptions = NO_OPTIONS, now: Callable[[], float] | None = None) -> None:
        super().__init__(client, defaults=defaults, now=now)
        self._locks: defaultdict[GroupName, anyio.Lock] = defaultdict(anyio.Lock)

    async def grow(self, group: GroupName, *, seen: int, to: int, timeout_seconds: float) -> None:
        with bounded(group, timeout_seconds):
            async with self._locks[group]:
                limits = await self._limits(group)
                check_growth(group, target=await self._target(group), seen=seen, to=to, most=limits.maxSize)
                request = pb.NodeGroupIncreaseSizeRequest(id=group, delta=to - seen)
                await self._client.ask(rpc.INCREASE_SIZE, request, group=group)

    async def lower(self, group: GroupName, *, seen: int, to: int, timeout_seconds: float) -> None:
        with bounded(group, timeout_seconds):
            async with self._locks[group]:
                limits = await self._limits(group)
                check_lowering(group, target=await self._target(group), seen=seen, to=to, least=limits.minSize)
                # Servers should check this themselves; one that does not would delete nodes.
                exist = sum(instance.state == "running" for instance in await self._instances(group))
                if to < exist:
                    raise ProviderError("conflict", group, f"{exist} machines run, want at most {to}")
                request = pb.NodeGroupDecreaseTargetSizeRequest(id=group, delta=to - seen)
                await self._client.ask(rpc.DECREASE_SIZE, request, group=group)

    async def delete(
        self, group: GroupName, instances: Sequence[Instance], *, timeout_seconds: float, replace: bool = False
    ) -> None:
        with bounded(group, timeout_seconds):
            async with self._locks[group]:
                limits = await self._limits(group)
                known = {instance.id: instance.state for instance in await self._instances(group)}
                await self._check_ours(group, [instance for instance in instances if instance.id not in known])
                to_delete = [instance for instance in instances if known.get(instance.id, "deleting") != "deleting"]
                if not to_delete:
                    return
                if replace:
                    raise ProviderError("limit", group, "the protocol deletes no machine without lowering the size")
                left = await self._target(group) - len(to_delete)
                if left < limits.minSize:
                    raise ProviderError("limit", group, f"{left} nodes would be left, want at least {limits.minSize}")
                request = pb.NodeGroupDeleteNodesRequest(id=group, nodes=map(_node, to_delete))
                await self._client.ask(rpc.DELETE_NODES, request, group=group)

    async def _check_ours(self, group: GroupName, unknown: Iterable[Instance]) -> None:
        """Raises a `conflict` if one of the instances is in another group.

        An instance that the server does not know is gone, which is no error.
        """
        for instance in unknown:
            request = pb.NodeGroupForNodeRequest(node=_node(instance))
            answer = await self._client.ask_unless(rpc.GROUP_FOR_NODE, request, _NOT_KNOWN, group=group)
            found = "" if answer is None else answer.nodeGroup.id
            if found not in ("", group):
                raise ProviderError("conflict", group, f"{instance.id} is of group {found}")


def _only(name: GroupName, listed: Sequence[pb.NodeGroup]) -> pb.NodeGroup:
    """The group's message. Raises `ProviderError` if it is none."""
    if len(listed) > 1:
        raise ProviderError("other", name, f"NodeGroups: got its id {len(listed)} times, want it once")
    (only,) = listed
    if not 0 <= only.minSize <= only.maxSize:
        raise ProviderError("other", name, f"NodeGroups: got sizes {only.minSize} to {only.maxSize}, want 0 <= min <= max")
    return only


def _node(instance: Instance) -> pb.ExternalGrpcNode:
    """Converts an instance to the protocol's node. If no Node has registered, the id is the name, as in Cluster Autoscaler."""
    return pb.ExternalGrpcNode(providerID=instance.id, name=instance.node or instance.id)
