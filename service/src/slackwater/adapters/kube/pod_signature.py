"""The signature of a plain pod: one hashable value from which its kind follows. Pods with equal signatures have the same kind.

A pod is plain if its kind depends on a few texts only, so that it is decoded once for all its replicas. Pods are not plain, and
are decoded in full, if their kind depends on their labels, on claims, on host ports, on pod-level requests, or on the status of
a resize. Every part of a pod that its kind depends on has to be in the signature, or has to make the pod one that is not plain.
"""

from collections.abc import Iterable
from typing import Final

from slackwater.adapters.kube.structs import ContainerStatusWire, ContainerWire, PodStatusWire, PodWire, VolumeWire

_NOTHING: Final = b"null"


def plain_signature(wire: PodWire) -> tuple[object, ...] | None:
    """The signature; None for pods that are not plain. Pods of one namespace with equal signatures have equal kinds."""
    spec = wire.spec
    affinity, spread = bytes(spec.affinity), bytes(spec.topology_spread_constraints)
    if (
        spec.resources is not None
        or spec.resource_claims
        or (spec.host_network and spec.host_users is False)
        or not _volumes_are_plain(spec.volumes)
        or _reads_labels(affinity)
        or _reads_labels(spread)
    ):
        return None
    apps, inits = _containers(spec.containers or ()), _containers(spec.init_containers or ())
    if apps is None or inits is None or (spec.node_name and not _at_rest(wire)):
        return None
    selector = spec.node_selector
    return (
        apps,
        inits,
        affinity,
        spread,
        bytes(spec.tolerations),
        bytes(spec.overhead),
        None if not selector else tuple(sorted(selector.items())),
        spec.scheduler_name,
        spec.preemption_policy,
    )


def _reads_labels(rules: bytes) -> bool:
    """True if the rules (JSON) may depend on the pod's own labels, as matchLabelKeys and mismatchLabelKeys do."""
    return rules != _NOTHING and (b"abelKeys" in rules or b"\\" in rules)


def _containers(containers: Iterable[ContainerWire]) -> tuple[object, ...] | None:
    """Name, image, requests and restart policy of each container; None if one has a host port or a restart rule."""
    found: list[object] = []
    for container in containers:
        if container.restart_policy_rules:
            return None
        for port in container.ports or ():
            if port.host_port > 0:
                return None
        resources = container.resources
        requests = _NOTHING if resources is None else bytes(resources.requests)
        found += (container.name, container.image, requests, container.restart_policy)
    return tuple(found)


def _volumes_are_plain(volumes: Iterable[VolumeWire] | None) -> bool:
    """True if no volume matters for scheduling: the pod has only Secrets, projections, scratch space and the like."""
    return volumes is None or all(volume.is_plain() for volume in volumes)


def _at_rest(wire: PodWire) -> bool:
    """True if, as far as the status says, all containers have what they request. Then the status need not be read."""
    found = _reported(wire.status)
    if not found:
        return True
    spec = wire.spec
    asked = {c.name: c.resources for c in (*(spec.containers or ()), *(spec.init_containers or ()))}
    for status in found:
        allocated = bytes(status.allocated_resources)
        if status.resources is None and allocated == _NOTHING:
            continue
        wanted = asked.get(status.name)
        want = _NOTHING if wanted is None else bytes(wanted.requests)
        if allocated != want or (status.resources is not None and bytes(status.resources.requests) != want):
            return False
    return True


def _reported(status: PodStatusWire) -> list[ContainerStatusWire]:
    return [*(status.container_statuses or ()), *(status.init_container_statuses or ())]
