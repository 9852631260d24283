"""The messages between the service and the counterfactual's process.

service -> process    a `Start`, then an `Observation` every few seconds, as frames (`runtime.planner.value_frames`)
process -> service    a `Progress` after each observation, as a line of JSON
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from slackwater.app.counterfactual.lines import SIDES, Sample, Side, Sides
from slackwater.app.settings import Settings
from slackwater.app.whatif.question import GroupRegistryView
from slackwater.model.changes import Changes
from slackwater.model.ids import Instant, UnixTime
from slackwater.runtime.planner.messages import FRAMED_TYPES


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """What the process needs to begin. `path`: of the log; `max_bytes`: its bound. `version`: of Slackwater. `sides`: those
    that are written."""

    settings: Settings
    version: str
    path: str
    max_bytes: int
    sides: Sides = SIDES


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One look at the real cluster: the changes since the last one. `rebuild`: they are the whole cluster, and both sides
    begin again. `registry`: the node groups as the autoscaler knows them; None without one. `now`: the service's monotonic
    time. `came`: times since the last observation, each with how many pods had come by then; empty if nobody counted."""

    at: UnixTime
    changes: Changes
    rebuild: bool
    registry: GroupRegistryView | None
    now: Instant
    came: tuple[tuple[UnixTime, int], ...] = ()


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """`at`: the observation that was taken. `sides`: the newest sample of each side."""

    at: float
    lines: int
    cpu_seconds: float
    sides: Mapping[Side, Sample]


#: The types within which long collections are sent in pieces.
FRAMED: Final = FRAMED_TYPES | {Start, Observation, GroupRegistryView}
