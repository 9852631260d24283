"""What a plain pod's kind is read from, as one hashable value: pods that are alike have the same kind.

A pod is plain where no rare part of it has a say: then its kind follows from a few texts, and need not be worked out again
for each of its replicas. Deliberately absent: pods whose kind depends on their labels, on claims, on the status of a
resize, or on several lists at once; these are read in full.
"""

from collections.abc import Iterable
from typing import Final

from slackwater.edge.kube.wire import ContainerWire, PodWire, VolumeWire

_NOTHING: Final = b"null"


def plain_likeness(wire: PodWire) -> tuple[object, ...] | None:
    """Equal for pods of one namespace and one kind, as far as this looks; None for pods that are not plain."""
    spec = wire.spec
    if (
        spec.init_containers
        or spec.topology_spread_constraints
        or spec.resource_claims
        or spec.resources is not None
        or spec.host_network
        or not _volumes_are_plain(spec.volumes)
    ):
        return None
    affinity = bytes(spec.affinity)
    if affinity != _NOTHING and b"abelKeys" in affinity:  # matchLabelKeys, mismatchLabelKeys: the pod's labels count
        return None
    containers = _containers(spec.containers or ())
    if containers is None or not _at_rest(wire):
        return None
    selector = spec.node_selector
    return (
        containers,
        affinity,
        bytes(spec.tolerations),
        bytes(spec.overhead),
        None if not selector else tuple(sorted(selector.items())),
        spec.scheduler_name,
        spec.preemption_policy,
    )


def _containers(containers: Iterable[ContainerWire]) -> tuple[object, ...] | None:
    """Name, image and requests of each; None where one has a host port or a rule of restarts."""
    found: list[object] = []
    for container in containers:
        if container.restart_policy_rules or container.restart_policy is not None:
            return None
        for port in container.ports or ():
            if port.host_port > 0:
                return None
        resources = container.resources
        found += (container.name, container.image, _NOTHING if resources is None else bytes(resources.requests))
    return tuple(found)


def _volumes_are_plain(volumes: Iterable[VolumeWire] | None) -> bool:
    """Secrets, projections, scratch space: nothing that binds the pod to a place."""
    return volumes is None or all(volume.is_plain() for volume in volumes)


def _at_rest(wire: PodWire) -> bool:
    """A pod without a node, or one whose containers have just what they ask."""
    status = wire.status
    if not wire.spec.node_name:
        return True
    if status.init_container_statuses or status.resources is not None:
        return False
    asked = {c.name: c.resources for c in wire.spec.containers or ()}
    for found in status.container_statuses or ():
        if found.resources is None:
            continue
        wanted = asked.get(found.name)
        want = _NOTHING if wanted is None else bytes(wanted.requests)
        if bytes(found.resources.requests) != want or bytes(found.allocated_resources) != want:
            return False
    return True
