"""What one pod counts for on its node, and how that changes (neondatabase/autoscaling v0.36.1, pkg/plugin/trans.go).

- `PodResources`; `ordinary_resources`, `certain_resources` and so on: what a pod counts for when it begins to count.
- `migration_started`, `bounds_changed` and so on: the pod's resources after an event.
- `settled`: the pod's resources after an agent's `PermitQuestion`, and so its permit; with our own limits (`wanted`).

Each resource is computed alone, in exact integers. This module does not decide whether the pod may ask, and persists no permit.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from slackwater.model.resources import NOTHING, Amounts, amounts_of
from slackwater.model.vertical import Vertical
from slackwater_protocol.units import Bytes, MilliCpu

#: How many distinct requests of ordinary pods have a cached, shared `PodResources`.
_SIZES: Final = 4_096


@dataclass(frozen=True, slots=True, kw_only=True)
class PodResources:
    """What one pod counts for on its node.

    `buffer` is the part of `reserved` that is kept only because the pod's agent has not asked yet. `capacity_pressure` is
    growth that was denied. `accounted_for` is what the pod's running migration will relieve: its Reserved plus CapacityPressure
    when the migration started; nothing without a migration. Ordinary pods have min = max = reserved.
    """

    reserved: Amounts
    buffer: Amounts = NOTHING
    capacity_pressure: Amounts = NOTHING
    accounted_for: Amounts = NOTHING
    min: Amounts = NOTHING
    max: Amounts = NOTHING


@lru_cache(maxsize=_SIZES)
def ordinary_resources(requests: Amounts) -> PodResources:
    """The resources of an ordinary pod: its requests, exactly."""
    return PodResources(reserved=requests, min=requests, max=requests)


def certain_resources(pod: Vertical) -> PodResources:
    """The resources of a vertical pod that certainly uses no more than it shows: no scheduler has permitted it more, or it may
    not grow."""
    return PodResources(reserved=pod.using, min=pod.min, max=pod.max)


def resources_of_unknown_permit(pod: Vertical, *, most: Amounts | None = None) -> PodResources:
    """The resources of a vertical pod whose last permit is unknown: its agent may use up to Max without asking, so all of Max
    counts, but no more than `most`."""
    reserved = (pod.max if most is None else pod.max.at_most(most)).at_least(pod.using)
    return PodResources(reserved=reserved, buffer=reserved.minus(pod.using), min=pod.min, max=pod.max)


def restored_resources(pod: Vertical, *, permit: Amounts, permit_limit: Amounts, most: Amounts | None = None) -> PodResources:
    """The resources of a vertical pod after a restart, computed from its permit annotation. Whoever may change the pod can
    write that, so what is above `most` does not count.

    The agent was permitted `permit` when the annotation was written, and at most `permit_limit` since. Use beyond
    `permit_limit` counts too, as Buffer: the pod may still show an amount that it has given back, and other pods may have that
    room now.
    """
    if most is not None:
        permit, permit_limit = permit.at_most(most), permit_limit.at_most(most)
    reserved = permit_limit.at_least(permit).at_least(pod.using)
    return PodResources(reserved=reserved, buffer=reserved.minus(permit), min=pod.min, max=pod.max)


def migration_started(pod_resources: PodResources) -> PodResources:
    """The pod's resources when its migration starts: the pod loses its Buffer, and Reserved plus CapacityPressure count as
    accounted for.

    Release 0.36.1 differs: it zeroes CapacityPressure first, and so accounts for Reserved alone (ADR 10).
    """
    reserved = pod_resources.reserved.minus(pod_resources.buffer)
    return replace(
        pod_resources, reserved=reserved, buffer=NOTHING, accounted_for=reserved.plus(pod_resources.capacity_pressure)
    )


def migration_found(pod_resources: PodResources) -> PodResources:
    """The pod's resources when we find a migration that had started before we did.

    The pod's agent has not asked yet and may be using the Buffer, so the Buffer stays.
    """
    certain = pod_resources.reserved.minus(pod_resources.buffer)
    return replace(pod_resources, accounted_for=certain.plus(pod_resources.capacity_pressure))


def migration_ended(pod_resources: PodResources) -> PodResources:
    """The pod's resources when its migration has ended and the pod still exists: the pod will not relieve any pressure."""
    return replace(pod_resources, accounted_for=NOTHING)


def scaling_disabled(pod_resources: PodResources) -> PodResources:
    """The pod's resources when its scaling is disabled: Buffer and CapacityPressure become 0. What was permitted stays Reserved
    until the pod's use changes."""
    return replace(
        pod_resources, reserved=pod_resources.reserved.minus(pod_resources.buffer), buffer=NOTHING, capacity_pressure=NOTHING
    )


def bounds_changed(pod_resources: PodResources, *, minimum: Amounts, maximum: Amounts) -> PodResources:
    """The pod's resources with new bounds. If Max of a resource changes, the pod may grow to the new Max before its agent asks
    again, so Buffer covers that growth until the agent asks.

    If Max of a resource is unchanged, only Min changes.
    """
    reserved, buffer = list(pod_resources.reserved), list(pod_resources.buffer)
    for r, new in enumerate(maximum):
        if new != pod_resources.max[r]:
            using = reserved[r] - buffer[r]
            reserved[r] = max(new, using)
            buffer[r] = reserved[r] - using
    return replace(pod_resources, reserved=amounts_of(reserved), buffer=amounts_of(buffer), min=minimum, max=maximum)


def use_changed(pod_resources: PodResources, using: Amounts) -> PodResources:
    """The resources of a pod that does not scale, after its use changed: Reserved equals the use, and there is no Buffer."""
    return replace(pod_resources, reserved=using, buffer=NOTHING)


@dataclass(frozen=True, slots=True, kw_only=True)
class PermitQuestion:
    """An agent's request: the totals that it asks for, in milliCPU and bytes.

    `unit` is one compute unit, both fields > 0. `last_permit` is NOTHING before the agent's first answer. `withhold`: the pod
    is about to be migrated, so it does not grow on this node. `max_step_units` > 0 caps the growth of one answer.
    """

    asked: Amounts
    unit: Amounts
    last_permit: Amounts = NOTHING
    withhold: bool = False
    max_step_units: int = 0


def settled(pod_resources: PodResources, free: Amounts, question: PermitQuestion, *, over: Amounts = NOTHING) -> PodResources:
    """The pod's resources after the question is answered; the permit is their `reserved`.

    `free` is the node's Total minus all that is Reserved and held there, >= 0; `over` is by how much that sum exceeds Total, >=
    0. After the agent's first question the pod has no Buffer.
    """
    cpu, memory = (
        _settled(
            reserved=_kept(pod_resources, r, over[r], question),
            wanted=wanted(
                asked=question.asked[r],
                reserved=pod_resources.reserved[r],
                maximum=pod_resources.max[r],
                last_permit=question.last_permit[r],
                max_step=question.max_step_units * question.unit[r],
            ),
            free=free[r],
            unit=question.unit[r],
            last_permit=question.last_permit[r],
            withhold=question.withhold,
        )
        for r in (0, 1)
    )
    return PodResources(
        reserved=Amounts(MilliCpu(cpu[0]), Bytes(memory[0])),
        capacity_pressure=Amounts(MilliCpu(cpu[1]), Bytes(memory[1])),
        accounted_for=pod_resources.accounted_for,
        min=pod_resources.min,
        max=pod_resources.max,
    )


def _kept(pod_resources: PodResources, r: int, over: int, question: PermitQuestion) -> int:
    """The amount that stays reserved for the pod before its question is answered.

    All that the pod uses, or that a scheduler permitted, stays. Of the pod's Buffer only the part that fits into Total stays:
    where the Buffers of several pods overlap, the first agent that asks would otherwise take unused Buffer from the others.
    """
    held = pod_resources.reserved[r]
    if not pod_resources.buffer[r] or not over:
        return held
    certain = max(held - pod_resources.buffer[r], min(question.last_permit[r], held))
    return certain + max(held - over - certain, 0) // question.unit[r] * question.unit[r]


def wanted(*, asked: int, reserved: int, maximum: int, last_permit: int, max_step: int) -> int:
    """The part of `asked` that the answer considers: at most max(Max, Reserved, lastPermit), and never raised to Min.

    What is cut off adds no CapacityPressure, since more room would not help. `max_step` > 0 limits growth in the same way, but
    never below lastPermit.
    """
    within_bounds = min(asked, max(maximum, reserved, last_permit))
    return min(within_bounds, max(reserved + max_step, last_permit)) if max_step else within_bounds


def _settled(*, reserved: int, wanted: int, free: int, unit: int, last_permit: int, withhold: bool) -> tuple[int, int]:
    """Reserved and CapacityPressure of one resource after the answer.

    The free room is rounded down to whole units, but growth that fits into it is granted exactly as asked. lastPermit was
    permitted before, by whichever scheduler, and is honoured even above Total.
    """
    if wanted <= reserved:
        return wanted, 0
    growth = wanted - reserved
    if withhold:
        return reserved, growth
    most = max(free // unit * unit, last_permit - reserved)
    granted = min(growth, most)
    return reserved + granted, growth - granted
