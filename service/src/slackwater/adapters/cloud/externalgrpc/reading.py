"""Converts the server's messages to objects of `model`, and the configured default options to a message.

A template is a serialized v1.Node. An unreadable one raises `ValueError`, which names its group.
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import Final, Literal

from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import DecodeError
from msgspec import structs

from slackwater.adapters.cloud.externalgrpc.wire import externalgrpc_pb2 as pb
from slackwater.adapters.cloud.externalgrpc.wire import node_pb2
from slackwater.adapters.cloud.read_groups import template_node
from slackwater.model.devices import ResourceSlice, read_template_devices
from slackwater.model.ids import NodeName
from slackwater.model.nodegroups import (
    CSI_DRIVERS,
    GroupName,
    GroupOptions,
    Instance,
    InstanceError,
    InstanceId,
    read_attach_limits,
)
from slackwater.model.objects import Node, Taint
from slackwater.model.storage import CsiNode
from slackwater_protocol.money import micros_of
from slackwater_protocol.units import NANO, parse_nanos

_State = Literal["creating", "running", "deleting"]
_STATES: Final[dict[int, _State]] = {
    pb.InstanceStatus.instanceCreating: "creating",
    pb.InstanceStatus.instanceDeleting: "deleting",
}
_OUT_OF_RESOURCES: Final = 1


def instance(grpc_message: pb.Instance) -> Instance:
    """Converts an instance; one without a state is taken as running."""
    error = grpc_message.status.errorInfo
    return Instance(
        id=InstanceId(grpc_message.id),
        state=_STATES.get(grpc_message.status.instanceState, "running"),
        error=_error(error) if error.errorCode else None,
    )


def _error(grpc_message: pb.InstanceErrorInfo) -> InstanceError:
    kind: Literal["out-of-resources", "other"] = (
        "out-of-resources" if grpc_message.instanceErrorClass == _OUT_OF_RESOURCES else "other"
    )
    return InstanceError(kind=kind, code=grpc_message.errorCode, message=grpc_message.errorMessage)


def template(raw: bytes, group: GroupName) -> Node | None:
    """Converts the template of a group's new nodes from a serialized v1.Node; None if `raw` is empty.

    :raises ValueError: `raw` is not a v1.Node, or a quantity or annotation of it cannot be read.
    """
    if not raw:
        return None
    try:
        grpc_message = node_pb2.Node.FromString(raw)
    except DecodeError as error:
        raise ValueError(f"template of {group}: no v1.Node: {error}") from error
    status = grpc_message.status
    name = f"template-of-{group}"
    found = template_node(
        name,
        {resource: parse_nanos(quantity.string) for resource, quantity in (status.allocatable or status.capacity).items()},
        labels=dict(grpc_message.metadata.labels),
        taints=tuple(Taint(taint.key, taint.value, taint.effect) for taint in grpc_message.spec.taints),
        csi=_csi(grpc_message.metadata.annotations.get(CSI_DRIVERS, ""), group),
        slices=_slices(grpc_message.metadata.annotations, group),
    )
    return structs.replace(
        found,
        name=NodeName(grpc_message.metadata.name or name),
        unschedulable=grpc_message.spec.unschedulable,
        provider_id=grpc_message.spec.providerID,
    )


def price_micros(answer: pb.PricingNodePriceResponse) -> int:
    """Converts the price of an hour to micros. The protocol has only a float.

    :raises ValueError: it is no price.
    """
    return micros_of(f"{Decimal(repr(answer.price)):f}")


def _slices(annotations: Mapping[str, str], group: GroupName) -> tuple[ResourceSlice, ...]:
    try:
        return read_template_devices(annotations)
    except ValueError as error:
        raise ValueError(f"template of {group}: {error}") from error


def _csi(text: str, group: GroupName) -> CsiNode | None:
    try:
        return read_attach_limits(text)
    except ValueError as error:
        raise ValueError(f"template of {group}: annotation {CSI_DRIVERS}: {error}") from error


def defaults(options: GroupOptions) -> pb.NodeGroupAutoscalingOptions:
    """Converts the configured options to the protocol's message of default options. A server may override some of them."""
    return pb.NodeGroupAutoscalingOptions(
        scaleDownUtilizationThreshold=options.utilization_threshold or 0.0,
        scaleDownGpuUtilizationThreshold=options.gpu_utilization_threshold or 0.0,
        zeroOrMaxNodeScaling=bool(options.all_or_nothing),
        ignoreDaemonSetsUtilization=bool(options.ignore_daemon_sets_utilization),
        scaleDownUnneededDuration=_duration(options.unneeded_time),
        scaleDownUnreadyDuration=_duration(options.unready_time),
        MaxNodeProvisionDuration=_duration(options.provision_seconds),
    )


def options(grpc_message: pb.NodeGroupAutoscalingOptions) -> GroupOptions:
    """Converts a group's options. Every number and flag is set, since the protocol cannot leave them out.

    Servers get the defaults with the request and return them for what they do not change. A missing duration is None.
    """
    return GroupOptions(
        utilization_threshold=grpc_message.scaleDownUtilizationThreshold,
        gpu_utilization_threshold=grpc_message.scaleDownGpuUtilizationThreshold,
        all_or_nothing=grpc_message.zeroOrMaxNodeScaling,
        ignore_daemon_sets_utilization=grpc_message.ignoreDaemonSetsUtilization,
        unneeded_time=_seconds(grpc_message, "scaleDownUnneededDuration", grpc_message.scaleDownUnneededDuration),
        unready_time=_seconds(grpc_message, "scaleDownUnreadyDuration", grpc_message.scaleDownUnreadyDuration),
        provision_seconds=_seconds(grpc_message, "MaxNodeProvisionDuration", grpc_message.MaxNodeProvisionDuration),
    )


_Field = Literal["scaleDownUnneededDuration", "scaleDownUnreadyDuration", "MaxNodeProvisionDuration"]


def _seconds(grpc_message: pb.NodeGroupAutoscalingOptions, field: _Field, duration: Duration) -> float | None:
    return duration.seconds + duration.nanos / NANO if grpc_message.HasField(field) else None


def _duration(seconds: float | None) -> Duration | None:
    if seconds is None:
        return None
    nanos = round(seconds * NANO)
    return Duration(seconds=nanos // NANO, nanos=nanos % NANO)
