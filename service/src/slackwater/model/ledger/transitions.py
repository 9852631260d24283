"""The other transitions of a pod's resources, one function for each event (neondatabase/autoscaling v0.36.1,
pkg/plugin/trans.go)."""

from dataclasses import replace

from slackwater.model.ledger.account import PodResources
from slackwater.model.resources import NOTHING, Amounts, amounts_of


def migration_started(pod_resources: PodResources) -> PodResources:
    """The pod's resources when its migration starts: its Buffer goes, and Reserved and CapacityPressure count as accounted for.

    This is the seed's formula: release 0.36.1 zeroes CapacityPressure first and so accounts for Reserved alone.
    """
    reserved = pod_resources.reserved.minus(pod_resources.buffer)
    return replace(
        pod_resources, reserved=reserved, buffer=NOTHING, accounted_for=reserved.plus(pod_resources.capacity_pressure)
    )


def migration_found(pod_resources: PodResources) -> PodResources:
    """The pod's resources when we find a migration that had started before us.

    Its agent has not asked yet and may be using the Buffer, so the Buffer stays.
    """
    certain = pod_resources.reserved.minus(pod_resources.buffer)
    return replace(pod_resources, accounted_for=certain.plus(pod_resources.capacity_pressure))


def migration_ended(pod_resources: PodResources) -> PodResources:
    """The pod's resources when its migration is over and the pod is still there: it relieves no pressure any more."""
    return replace(pod_resources, accounted_for=NOTHING)


def scaling_disabled(pod_resources: PodResources) -> PodResources:
    """The pod's resources when its scaling is disabled: Buffer and CapacityPressure go. What was permitted stays until use
    changes."""
    return replace(
        pod_resources, reserved=pod_resources.reserved.minus(pod_resources.buffer), buffer=NOTHING, capacity_pressure=NOTHING
    )


def bounds_changed(pod_resources: PodResources, *, minimum: Amounts, maximum: Amounts) -> PodResources:
    """The pod's resources with new bounds. Where Max differs, the pod may grow to it unheard: Buffer grows with it, until its
    agent asks next.

    Where Max of a resource is unchanged, only Min changes.
    """
    reserved, buffer = list(pod_resources.reserved), list(pod_resources.buffer)
    for r, new in enumerate(maximum):
        if new != pod_resources.max[r]:
            using = reserved[r] - buffer[r]
            reserved[r] = max(new, using)
            buffer[r] = reserved[r] - using
    return replace(pod_resources, reserved=amounts_of(reserved), buffer=amounts_of(buffer), min=minimum, max=maximum)


def use_changed(pod_resources: PodResources, using: Amounts) -> PodResources:
    """The resources of a pod that does not scale, after its use changed: Reserved follows use, and nothing is uncertain."""
    return replace(pod_resources, reserved=using, buffer=NOTHING)
