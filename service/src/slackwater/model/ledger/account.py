"""`PodResources`, what one pod counts for on its node, and its value when the pod starts to count (neondatabase/autoscaling
v0.36.1, pkg/plugin/trans.go)."""

from dataclasses import dataclass

from slackwater.model.resources import NOTHING, Amounts
from slackwater.model.vertical import Vertical


@dataclass(frozen=True, slots=True, kw_only=True)
class PodResources:
    """What one pod counts for on its node.

    `buffer` is the part of `reserved` that is kept only because the pod's agent has not asked yet. `capacity_pressure` is
    growth that was denied. `accounted_for` is what the pod's running migration will relieve: Reserved and CapacityPressure as
    they were when the migration started; nothing without a migration. Ordinary pods have min = max = reserved.
    """

    reserved: Amounts
    buffer: Amounts = NOTHING
    capacity_pressure: Amounts = NOTHING
    accounted_for: Amounts = NOTHING
    min: Amounts = NOTHING
    max: Amounts = NOTHING


def ordinary_resources(requests: Amounts) -> PodResources:
    """What an ordinary pod counts for: exactly its requests."""
    return PodResources(reserved=requests, min=requests, max=requests)


def certain_resources(pod: Vertical) -> PodResources:
    """What a vertical pod counts for if its use is certain: it was placed by us or by a scheduler without growth, or may not
    grow."""
    return PodResources(reserved=pod.using, min=pod.min, max=pod.max)


def unheard_resources(pod: Vertical) -> PodResources:
    """What a vertical pod counts for if its last permit is unknown: its agent may use anything up to Max without asking."""
    reserved = pod.max.at_least(pod.using)
    return PodResources(reserved=reserved, buffer=reserved.minus(pod.using), min=pod.min, max=pod.max)


def restored_resources(pod: Vertical, *, permit: Amounts, permit_limit: Amounts) -> PodResources:
    """What a vertical pod counts for after a restart, by its permit annotation.

    The agent was permitted `permit` when the annotation was written, and at most `permit_limit` since. Use beyond
    `permit_limit` counts too, as Buffer: the pod may still show an amount that it has given back, and other pods may have that
    room now.
    """
    reserved = permit_limit.at_least(permit).at_least(pod.using)
    return PodResources(reserved=reserved, buffer=reserved.minus(permit), min=pod.min, max=pod.max)
