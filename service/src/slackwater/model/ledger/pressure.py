"""Whether a node has more pressure than its running migrations will relieve (neondatabase/autoscaling v0.36.1,
pkg/plugin/trans.go)."""

from typing import Final, NamedTuple

from slackwater.model.resources import RESOURCES, Amounts

_PPM: Final = 1_000_000


class NodeNumbers(NamedTuple):
    """The six numbers of one node, and what is held there; milliCPU and bytes."""

    total: Amounts
    watermark: Amounts
    reserved: Amounts
    buffer: Amounts
    capacity_pressure: Amounts
    pressure_accounted_for: Amounts
    held: Amounts

    @property
    def free(self) -> Amounts:
        """What is left of Total after all reservations and holds; never below 0."""
        return self.total.minus(self.reserved).minus(self.held).not_below_zero()

    @property
    def over(self) -> Amounts:
        """By how much all reservations and holds exceed Total; never below 0."""
        return self.reserved.plus(self.held).minus(self.total).not_below_zero()


def too_much_pressure(node: NodeNumbers, *, weight_ppm: int = _PPM) -> bool:
    """Whether some resource has too much: logical pressure + weighted CapacityPressure > PressureAccountedFor + slack.

    False while neither resource is above its Watermark. (0.36.1 uses `<=` for CPU and `<` for memory; we use `<=` for both.)
    """
    if node.reserved.within(node.watermark):
        return False
    return any(_too_much(node, r, weight_ppm) for r in range(len(RESOURCES)))


def _too_much(node: NodeNumbers, r: int, weight_ppm: int) -> bool:
    above = node.reserved[r] - node.watermark[r]
    slack = node.buffer[r] + max(-above, 0)
    denied = weighted(node.capacity_pressure[r], weight_ppm)
    return max(above, 0) + denied > node.pressure_accounted_for[r] + slack


def weighted(capacity_pressure: int, weight_ppm: int) -> int:
    """CapacityPressure times a weight in millionths, rounded up, so that pressure above 0 never becomes 0."""
    return max(-(-capacity_pressure * weight_ppm // _PPM), min(capacity_pressure, 1))
