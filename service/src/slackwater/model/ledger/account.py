"""What one pod counts for on its node, and how it starts to count (neondatabase/autoscaling v0.36.1, pkg/plugin/trans.go)."""

from dataclasses import dataclass

from slackwater.model.resources import NOTHING, Amounts
from slackwater.model.vertical import Vertical


@dataclass(frozen=True, slots=True, kw_only=True)
class PodResources:
    """What one pod counts for on its node.

    `buffer` is the part of `reserved` that is kept only because the pod's agent has not been heard. `capacity_pressure` is
    growth that was denied. `accounted_for` is what the pod's running migration will relieve: Reserved and CapacityPressure as
    they were when it started; nothing otherwise. Ordinary pods have min = max = reserved.
    """

    reserved: Amounts
    buffer: Amounts = NOTHING
    capacity_pressure: Amounts = NOTHING
    accounted_for: Amounts = NOTHING
    min: Amounts = NOTHING
    max: Amounts = NOTHING


def ordinary_resources(requests: Amounts) -> PodResources:
    """An ordinary pod counts by its requests, no more and no less."""
    return PodResources(reserved=requests, min=requests, max=requests)


def certain_resources(pod: Vertical) -> PodResources:
    """A vertical pod counts by what it uses: it was placed by us, by a scheduler without growth, or may not grow."""
    return PodResources(reserved=pod.using, min=pod.min, max=pod.max)


def unheard_resources(pod: Vertical) -> PodResources:
    """Nobody knows what the pod's agent was last permitted: it may be using anything up to its Max without telling us."""
    reserved = pod.max.at_least(pod.using)
    return PodResources(reserved=reserved, buffer=reserved.minus(pod.using), min=pod.min, max=pod.max)


def restored_resources(pod: Vertical, *, permit: Amounts, permit_limit: Amounts) -> PodResources:
    """The annotation tells: the agent was permitted `permit` when it was written, and at most `permit limit` since.

    What the pod uses beyond that counts too, and as Buffer: it may be what its pod still shows of before it gave back, and
    then others have it.
    """
    reserved = permit_limit.at_least(permit).at_least(pod.using)
    return PodResources(reserved=reserved, buffer=reserved.minus(permit), min=pod.min, max=pod.max)
