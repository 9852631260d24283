"""What else changes a pod's account (neondatabase/autoscaling v0.36.1, pkg/plugin/trans.go): one function for each event."""

from dataclasses import replace

from slackwater.model.ledger.account import PodResources
from slackwater.model.resources import NOTHING, Amounts, amounts_of


def migration_started(pod_resources: PodResources) -> PodResources:
    """The pod will leave: what is only kept for uncertainty goes, and Reserved and CapacityPressure count as accounted for.

    The formula of the seed: release 0.36.1 zeroes CapacityPressure first and so accounts for Reserved alone.
    """
    reserved = pod_resources.reserved.minus(pod_resources.buffer)
    return replace(
        pod_resources, reserved=reserved, buffer=NOTHING, accounted_for=reserved.plus(pod_resources.capacity_pressure)
    )


def migration_found(pod_resources: PodResources) -> PodResources:
    """The pod was leaving already when we came. Its agent has not been heard: it may be using its Buffer, which so stays."""
    certain = pod_resources.reserved.minus(pod_resources.buffer)
    return replace(pod_resources, accounted_for=certain.plus(pod_resources.capacity_pressure))


def migration_ended(pod_resources: PodResources) -> PodResources:
    """The migration is over and the pod still there: it relieves nothing any more."""
    return replace(pod_resources, accounted_for=NOTHING)


def scaling_disabled(pod_resources: PodResources) -> PodResources:
    """Nobody grows the pod any more: what was kept or wanted for growth goes. What was permitted stays until use changes."""
    return replace(
        pod_resources, reserved=pod_resources.reserved.minus(pod_resources.buffer), buffer=NOTHING, capacity_pressure=NOTHING
    )


def bounds_changed(pod_resources: PodResources, *, minimum: Amounts, maximum: Amounts) -> PodResources:
    """New bounds. Where Max differs, the pod may grow to it unheard again: Buffer grows with it, until its agent asks next.

    An unchanged Max moves nothing but Min, resource by resource.
    """
    reserved, buffer = list(pod_resources.reserved), list(pod_resources.buffer)
    for r, new in enumerate(maximum):
        if new != pod_resources.max[r]:
            using = reserved[r] - buffer[r]
            reserved[r] = max(new, using)
            buffer[r] = reserved[r] - using
    return replace(pod_resources, reserved=amounts_of(reserved), buffer=amounts_of(buffer), min=minimum, max=maximum)


def use_changed(pod_resources: PodResources, using: Amounts) -> PodResources:
    """The use of a pod that does not scale changed: Reserved follows it, and nothing is uncertain."""
    return replace(pod_resources, reserved=using, buffer=NOTHING)
