"""Removes fields from device objects (DRA) that an API server would not have stored because a feature gate is off.

Before Kubernetes 1.36 most gates of dynamic resource allocation are off by default. An API server then drops their fields when
an object is created (pkg/registry/resource). If a file from a newer cluster is judged by the rules of an older version, its
fields are dropped here. One field stays: `distinctAttribute`, at which kube-scheduler without the gate fails (`fit.devices`).
"""

from dataclasses import replace

from slackwater.model.devices import (
    AllocatedDevice,
    ClaimSpec,
    Device,
    DeviceClass,
    DeviceRequest,
    ResourceClaim,
    ResourceSlice,
)
from slackwater.model.kubernetes_rules import KubernetesVersion, Rule


def stored_slice(found: ResourceSlice, kubernetes: KubernetesVersion) -> ResourceSlice:
    """The slice as an API server of this version stores it.

    Without the gate for partitionable devices, a slice whose devices name their own nodes can be used by no node.
    """
    if all(map(kubernetes.follows, _OF_SLICES)):
        return found
    if not kubernetes.follows(Rule.PARTITIONABLE_DEVICES):
        found = replace(found, per_device=False, counters=())
    return replace(found, devices=tuple(_device(each, kubernetes) for each in found.devices))


_OF_SLICES = (Rule.PARTITIONABLE_DEVICES, Rule.DEVICE_TAINTS, Rule.BINDING_CONDITIONS, Rule.CONSUMABLE_CAPACITY)


def _device(device: Device, kubernetes: KubernetesVersion) -> Device:
    if not kubernetes.follows(Rule.PARTITIONABLE_DEVICES):
        device = replace(device, consumes=(), nodes=None)
    if not kubernetes.follows(Rule.DEVICE_TAINTS):
        device = replace(device, taints=())
    if not kubernetes.follows(Rule.BINDING_CONDITIONS):
        device = replace(device, binding=None, binds_to_node=False, failures=())
    if not kubernetes.follows(Rule.CONSUMABLE_CAPACITY):
        plain = tuple(replace(each, policy=None) for each in device.capacity)
        device = replace(device, shareable=False, capacity=plain)
    return device


def stored_class(found: DeviceClass, kubernetes: KubernetesVersion) -> DeviceClass:
    """The device class as an API server of this version stores it."""
    return found if kubernetes.follows(Rule.DEVICE_CLASS_RESOURCES) else replace(found, extended_resource=None)


def stored_spec(found: ClaimSpec, kubernetes: KubernetesVersion) -> ClaimSpec:
    """The spec of a claim as an API server of this version stores it."""
    if kubernetes.follows(Rule.CONSUMABLE_CAPACITY):
        return found
    return replace(found, requests=tuple(map(_request, found.requests)))


def _request(request: DeviceRequest) -> DeviceRequest:
    return replace(request, asks=tuple(replace(ask, consumes=()) for ask in request.asks))


def stored_claim(found: ResourceClaim, kubernetes: KubernetesVersion) -> ResourceClaim:
    """The claim as an API server of this version stores it. Without binding conditions the binding cannot have failed."""
    found = replace(found, spec=stored_spec(found.spec, kubernetes))
    if not kubernetes.follows(Rule.BINDING_CONDITIONS):
        found = replace(found, failed=False)
    if found.allocation is None:
        return found
    devices = tuple(_allocated(each, kubernetes) for each in found.allocation.devices)
    return replace(found, allocation=replace(found.allocation, devices=devices))


def _allocated(each: AllocatedDevice, kubernetes: KubernetesVersion) -> AllocatedDevice:
    if not kubernetes.follows(Rule.BINDING_CONDITIONS):
        each = replace(each, binding=(), failures=())
    if not kubernetes.follows(Rule.CONSUMABLE_CAPACITY):
        each = replace(each, share=None, consumed=())
    return each
