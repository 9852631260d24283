"""Checks of an agent's request that need no state, in the order in which Neon's scheduler makes them.

In: the numbers of a decoded request. Out: the text of the refusal, word for word that of Neon's scheduler, or None.
Deliberately absent: checks that need the scheduler's state (is the pod known, is it a VM).
"""

from slackwater_protocol.agent_versions import (
    NEWEST,
    OLDEST,
    ProtocolVersion,
    has_extended_metrics,
    is_answered,
    version_name,
)

#: CPU in milliCPU and memory, as in `Resources`.
Pair = tuple[int, int]

_EXTENDED = "metrics.{loadAvg5M,memoryUsageBytes}"


def problem_of(version: int, *, compute_unit: Pair | None, resources: Pair, extended: tuple[bool, bool] | None) -> str | None:
    """The text with which a request is refused; None if it is valid. `compute_unit`: None if it is missing. `extended`: whether
    `loadAvg5M` and `memoryUsageBytes` are present; None if `metrics` is null."""
    if not is_answered(version):
        return _wrong_version(version)
    if compute_unit is None and version >= ProtocolVersion.V4_0:
        compute_unit = (0, 0)
    if compute_unit is not None and not all(compute_unit):
        return _zero("computeUnit", compute_unit)
    if extended is not None and (text := _wrong_metrics(version, *extended)):
        return text
    return None if all(resources) else _zero("resources", resources)


def _wrong_version(version: int) -> str:
    if version == 0:
        return f"Invalid protocol version {version_name(0)}"
    wanted = f"Need {version_name(OLDEST)} to {version_name(NEWEST)}"
    return f"Protocol version mismatch: {wanted} but got {version_name(version)}"


def _zero(what: str, pair: Pair) -> str:
    return f"{what} fields must be non-zero: {'mem' if pair[0] else 'vCPUs'} must be non-zero"


def _wrong_metrics(version: int, load_avg_5m: bool, memory_usage: bool) -> str | None:
    if load_avg_5m != memory_usage:
        return "presence of metrics.loadAvg5M must match presence of metrics.memoryUsageBytes"
    if load_avg_5m == has_extended_metrics(version):
        return None
    return f"{'non-nil' if load_avg_5m else 'nil'} {_EXTENDED} not supported for protocol version {version_name(version)}"
