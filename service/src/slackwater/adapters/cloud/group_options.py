"""What annotations (Cluster API) and tags (AWS) of a group say under Cluster Autoscaler's names: its options, and taints.

The functions are pure. A text that cannot be read raises `ValueError`, with its key, the text and what is wanted.
"""

import math
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from slackwater.model.nodegroups import GroupOptions
from slackwater_protocol.durations import SECOND, parse_duration

T = TypeVar("T")

EFFECTS: Final = frozenset({"NoSchedule", "PreferNoSchedule", "NoExecute"})
_TRUTHS: Final = {"true": True, "false": False, "1": True, "0": False}


def read_options(said: Mapping[str, str], prefix: str, *, what: str) -> GroupOptions:
    """The group's own options, under keys with the prefix; options without a key are None. `what`: annotation or tag."""

    def of(name: str, read: Callable[[str], T]) -> T | None:
        text = said.get(prefix + name)
        return None if text is None else read_said(prefix + name, text, read, what=what)

    return GroupOptions(
        utilization_threshold=of("scaledownutilizationthreshold", _threshold),
        gpu_utilization_threshold=of("scaledowngpuutilizationthreshold", _threshold),
        unneeded_time=of("scaledownunneededtime", _seconds),
        unready_time=of("scaledownunreadytime", _seconds),
        provision_seconds=of("maxnodeprovisiontime", _seconds),
        ignore_daemon_sets_utilization=of("ignoredaemonsetsutilization", _truth),
    )


def read_said(key: str, text: str, read: Callable[[str], T], *, what: str) -> T:
    """Reads one text; the error names its key."""
    try:
        return read(text)
    except ValueError as error:
        raise ValueError(f"{what} {key}: got {text!r}: {error}") from error


def taint_effect(text: str) -> tuple[str, str]:
    """Reads `value:Effect`."""
    value, _, effect = text.rpartition(":")
    if effect not in EFFECTS:
        raise ValueError(f"want value:Effect with an effect of {', '.join(sorted(EFFECTS))}")
    return value, effect


def _threshold(text: str) -> float:
    number = float(text)
    if not math.isfinite(number) or number < 0:
        raise ValueError("want a number of at least 0")
    return number


def _seconds(text: str) -> float:
    return parse_duration(text) / SECOND


def _truth(text: str) -> bool:
    if text.lower() not in _TRUTHS:
        raise ValueError("want true or false")
    return _TRUTHS[text.lower()]
