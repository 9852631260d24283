"""Budgets for the disruption of a node group's nodes. The rules are those of Karpenter's NodePools; docs/adr/0277 has the
differences.

Configuration and providers say them; `controllers.scaledown.disruption_budgets` counts. Time is an argument: that of the clock
that people read, since schedules are theirs.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from math import inf
from typing import Final, Literal
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from slackwater.model.ids import Seconds, UnixTime
from slackwater_protocol.durations import SECOND, Duration, format_duration

#: Why a node is removed, in Karpenter's words. Drifted, Expired: it is replaced for that. Of the others, Empty: no pod has to
#: leave it, Underutilized: any other node.
DisruptionReason = Literal["Empty", "Underutilized", "Drifted", "Expired"]

#: Short forms of schedules, as in Karpenter.
_MACROS: Final = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_FIELDS: Final = 5
#: An end after more firings in a row than this is not looked for.
_MOST_FIRINGS: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDisruptionBudget:
    """At most `nodes` nodes of a group, a number or a percentage such as "10%", are disrupted at the same time. `reasons`: the
    removals that it limits; () limits all. With a cron `schedule`, in local times of `time_zone`, it is active for `duration`
    seconds from each firing; without one it always is."""

    nodes: int | str
    reasons: tuple[DisruptionReason, ...] = ()
    schedule: str | None = None
    duration: Seconds | None = None
    time_zone: str = "UTC"

    def limit(self, nodes: int) -> int:
        """How many of a group's `nodes` nodes may be disrupted. Percentages are rounded up, so that small groups are not
        blocked."""
        return self.nodes if isinstance(self.nodes, int) else -(-nodes * int(self.nodes.removesuffix("%")) // 100)

    def active_until(self, now: UnixTime) -> float | None:
        """The time at which the budget stops being active; None if it is not active now, inf if no end is known."""
        if self.schedule is None or self.duration is None:
            return inf
        end: float | None = None
        for count, fired in enumerate(_firings(self.schedule, ZoneInfo(self.time_zone), after=now - self.duration)):
            if fired > (now if end is None else end):
                break
            end = fired + self.duration
            if count == _MOST_FIRINGS:
                return inf
        return end

    def words(self) -> str:
        said = {
            "nodes": self.nodes,
            "reasons": ",".join(self.reasons),
            "schedule": self.schedule and f'"{self.schedule}"',
            "duration": self.duration and format_duration(Duration(round(self.duration * SECOND))),
            "timeZone": self.schedule and self.time_zone,
        }
        return " ".join(f"{key}={value}" for key, value in said.items() if value not in (None, ""))


def _firings(schedule: str, zone: ZoneInfo, *, after: float) -> Iterator[float]:
    """Yields the times after `after` at which the schedule fires.

    cronsim takes both passes of an hour that a clock repeats for the first one, so what it yields may be before `after`."""
    for fired in CronSim(_MACROS.get(schedule, schedule), datetime.fromtimestamp(after, zone)):
        if fired.timestamp() > after:
            yield fired.timestamp()


def schedule_problem(schedule: str) -> str | None:
    """What is wrong with a schedule, as a text; None if nothing is."""
    text = _MACROS.get(schedule, schedule)
    if text.startswith("@"):
        return f"known short forms are {', '.join(_MACROS)}"
    if len(text.split()) != _FIELDS:
        return f"{len(text.split())} fields"
    try:
        next(CronSim(text, datetime(2000, 1, 1, tzinfo=ZoneInfo("UTC"))))
    except CronSimError as error:
        return str(error).lower()
    except StopIteration:
        return "it never fires"
    return None
