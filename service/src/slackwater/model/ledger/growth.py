"""An agent asks: what may its pod use, and what does that change? (neondatabase/autoscaling v0.36.1, pkg/plugin/trans.go, with
our clamp)

One resource at a time, in exact integers. Deliberately absent: whether the pod may ask at all, and writing the permit down.
"""

from dataclasses import dataclass

from slackwater.model.ledger.account import PodResources
from slackwater.model.resources import NOTHING, Amounts
from slackwater_protocol.units import Bytes, MilliCpu


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What an agent asks for: totals, in milliCPU and bytes.

    `unit` is one compute unit, both fields > 0. `last_permit` is NOTHING before the agent's first answer. `withhold`: the pod
    is about to be migrated, so it grows no more here. `max_step_units` > 0 caps the growth of one answer.
    """

    asked: Amounts
    unit: Amounts
    last_permit: Amounts = NOTHING
    withhold: bool = False
    max_step_units: int = 0


def settled(pod_resources: PodResources, free: Amounts, question: Question, *, over: Amounts = NOTHING) -> PodResources:
    """The pod's account once the question is answered; the permit is its `reserved`.

    `free` is what is left of the node's Total beside all that is Reserved and held there, >= 0; `over` is what these are above
    it, >= 0. The first question ends the uncertainty: no buffer is left.
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
    """What the pod has, before it is answered.

    Of its Buffer no more than Total has room for: where the buffers of several pods overlap, the first to ask for what it has
    not used would take the others over. What it uses, or was permitted by whomever, it keeps.
    """
    held = pod_resources.reserved[r]
    if not pod_resources.buffer[r] or not over:
        return held
    certain = max(held - pod_resources.buffer[r], min(question.last_permit[r], held))
    return certain + max(held - over - certain, 0) // question.unit[r] * question.unit[r]


def wanted(*, asked: int, reserved: int, maximum: int, last_permit: int, max_step: int) -> int:
    """What of the question counts. Above the bounds: max(Max, held, lastPermit); what is cut is no CapacityPressure, since room
    would not help. Never raised to Min. `max_step` > 0 cuts growth in the same way, but never below lastPermit."""
    within_bounds = min(asked, max(maximum, reserved, last_permit))
    return min(within_bounds, max(reserved + max_step, last_permit)) if max_step else within_bounds


def _settled(*, reserved: int, wanted: int, free: int, unit: int, last_permit: int, withhold: bool) -> tuple[int, int]:
    """(reserved, capacity pressure) of one resource.

    Only the room is rounded down to units: growth that is granted whole is granted as asked. lastPermit was promised before, by
    whomever, and is honoured even above Total.
    """
    if wanted <= reserved:
        return wanted, 0
    growth = wanted - reserved
    if withhold:
        return reserved, growth
    most = max(free // unit * unit, last_permit - reserved)
    granted = min(growth, most)
    return reserved + granted, growth - granted
