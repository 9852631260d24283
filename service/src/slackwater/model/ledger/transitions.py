"""Transitions of a pod's resources, one function for each event (neondatabase/autoscaling v0.36.1, pkg/plugin/trans.go).

- `migration_started`, `bounds_changed` and so on: the resources after an event.
- `settled`: what an agent's `Question` permits, and how it changes the pod's amounts, with our clamp.

Each resource is computed alone, in exact integers. This module does not decide whether the pod may ask, and persists no permit.
"""

from dataclasses import dataclass, replace

from slackwater.model.ledger.ledger import PodResources
from slackwater.model.resources import NOTHING, Amounts, amounts_of
from slackwater_protocol.units import Bytes, MilliCpu


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """An agent's request: the totals that it asks for, in milliCPU and bytes.

    `unit` is one compute unit, both fields > 0. `last_permit` is NOTHING before the agent's first answer. `withhold`: the pod
    is about to be migrated, so it does not grow on this node. `max_step_units` > 0 caps the growth of one answer.
    """

    asked: Amounts
    unit: Amounts
    last_permit: Amounts = NOTHING
    withhold: bool = False
    max_step_units: int = 0


def settled(pod_resources: PodResources, free: Amounts, question: Question, *, over: Amounts = NOTHING) -> PodResources:
    """The pod's resources after the question is answered; the permit is its `reserved`.

    `free` is the node's Total minus all that is Reserved and held there, >= 0; `over` is by how much that sum exceeds Total, >=
    0. The first question ends the uncertainty: no Buffer is left.
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


def _kept(pod_resources: PodResources, r: int, over: int, question: Question) -> int:
    """What the pod keeps before it is answered.

    It keeps of its Buffer only what Total has room for: where the Buffers of several pods overlap, the first agent that asks
    for unused Buffer would otherwise take it from the others. It keeps all that it uses or that any scheduler permitted.
    """
    held = pod_resources.reserved[r]
    if not pod_resources.buffer[r] or not over:
        return held
    certain = max(held - pod_resources.buffer[r], min(question.last_permit[r], held))
    return certain + max(held - over - certain, 0) // question.unit[r] * question.unit[r]


def wanted(*, asked: int, reserved: int, maximum: int, last_permit: int, max_step: int) -> int:
    """The part of `asked` that counts.

    It is cut at max(Max, held, lastPermit). What is cut adds no CapacityPressure, since more room would not help. It is never
    raised to Min. `max_step` > 0 cuts growth in the same way, but never below lastPermit.
    """
    within_bounds = min(asked, max(maximum, reserved, last_permit))
    return min(within_bounds, max(reserved + max_step, last_permit)) if max_step else within_bounds


def _settled(*, reserved: int, wanted: int, free: int, unit: int, last_permit: int, withhold: bool) -> tuple[int, int]:
    """(reserved, capacity pressure) of one resource.

    Only the free room is rounded down to units: growth that fits whole is granted as asked. lastPermit was permitted before, by
    whichever scheduler, and is honoured even above Total.
    """
    if wanted <= reserved:
        return wanted, 0
    growth = wanted - reserved
    if withhold:
        return reserved, growth
    most = max(free // unit * unit, last_permit - reserved)
    granted = min(growth, most)
    return reserved + granted, growth - granted
