"""The signature of a plain pod: one hashable value from which its kind follows. Pods with equal signatures have the same kind.

A pod is plain if its kind depends on a few texts only, so that it is decoded once for all its replicas. Pods are not plain, and
are decoded in full, if their kind depends on their labels, on claims, on host ports or on pod-level requests. Every part of a
pod that its kind depends on, by the rules of any version, has to be in the signature, or has to make the pod one that is not
plain.
"""

from collections.abc import Iterable
from typing import Final

from slackwater.adapters.kube.pod_requests import resize_pending
from slackwater.adapters.kube.structs import ContainerStatusWire, ContainerWire, PodSpecWire, PodWire, ResourcesWire

_NOTHING: Final = b"null"


def plain_signature(wire: PodWire) -> tuple[object, ...] | None:
    """The signature; None for pods that are not plain. Pods of one namespace with equal signatures have equal kinds."""
    spec = wire.spec
    affinity, spread = bytes(spec.affinity), bytes(spec.topology_spread_constraints)
    if (
        spec.resources is not None
        or spec.resource_claims
        or (spec.host_network and spec.host_users is False)
        or (spec.volumes and not all(volume.is_plain() for volume in spec.volumes))
        or _reads_labels(affinity)
        or _reads_labels(spread)
    ):
        return None
    apps, inits = _containers(spec.containers or ()), _containers(spec.init_containers or ())
    if apps is None or inits is None:
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
        _reported(wire) if spec.node_name else None,
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
        found += (container.name, container.image, _requests(container.resources) or _NOTHING, container.restart_policy)
    return tuple(found)


def _reported(wire: PodWire) -> tuple[object, ...] | None:
    """What the status of a pod with a node says about its requests; None if no version would count other requests than the
    spec's."""
    status = wire.status
    containers = [*(status.container_statuses or ()), *(status.init_container_statuses or ())]
    allocated = bytes(status.allocated_resources)
    pending = resize_pending(status)
    if status.resources is None and allocated == _NOTHING and pending is None and _at_rest(containers, wire.spec):
        return None
    each = ((found.name, bytes(found.allocated_resources), _requests(found.resources)) for found in containers)
    return (pending, allocated, _requests(status.resources), *each)


def _at_rest(containers: Iterable[ContainerStatusWire], spec: PodSpecWire) -> bool:
    """True if all containers have what they request, as far as their statuses say."""
    asked = {c.name: c.resources for c in (*(spec.containers or ()), *(spec.init_containers or ()))}
    for status in containers:
        allocated, actual = bytes(status.allocated_resources), _requests(status.resources)
        if actual is None and allocated == _NOTHING:
            continue
        want = _requests(asked.get(status.name)) or _NOTHING
        if allocated != want or actual not in (None, want):
            return False
    return True


def _requests(resources: ResourcesWire | None) -> bytes | None:
    return None if resources is None else bytes(resources.requests)
