"""Disruption budgets: how many nodes of a group may be disrupted at the same time, and when. The rules are those of Karpenter's
NodePools; docs/adr/0277 has the differences.

- `NodeDisruptionBudget`: one entry of the configuration, and when it is active.
- `disruptions_of`: for each group with budgets, its disrupted nodes and the budgets that are active now.
- `GroupDisruptions`: says whether a budget allows that the removal of nodes begins, and counts those that do.

A node is disrupted while its removal is under way, whoever began it, and while it is not ready. The least of all active
budgets counts. Time is an argument: that of the clock that people read, since schedules are theirs.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from math import inf
from typing import Final, Literal
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from slackwater.cluster.nodegroups.status import NodeGroupStatus
from slackwater.model.ids import NodeName, Seconds, UnixTime
from slackwater.model.nodegroups import GroupName, Membership
from slackwater.model.objects import Node
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
    if len(text.split()) != _FIELDS:
        return f"{len(text.split())} fields"
    try:
        next(CronSim(text, datetime(2000, 1, 1, tzinfo=ZoneInfo("UTC"))))
    except CronSimError as error:
        return str(error).lower()
    except StopIteration:
        return "it never fires"
    return None


@dataclass(slots=True, kw_only=True)
class GroupDisruptions:
    """The disrupted nodes of one group, and its active budgets with their ends. `nodes`: the number of its nodes that have
    started or are being removed. `unready` nodes had started, and are not ready. `removing`: those whose removal is under
    way."""

    group: GroupName
    nodes: int
    unready: Collection[NodeName]
    removing: set[NodeName]
    active: tuple[tuple[NodeDisruptionBudget, float], ...]

    def refusal(self, removed: Mapping[NodeName, DisruptionReason]) -> str | None:
        """Why the removal of all these nodes may not begin now, as a text; None if it may.

        Nodes that are not ready are disrupted already: if all are, only the removals count, so that a broken node cannot block
        its own removal."""
        removing = self.removing | removed.keys()
        counted = removing if all(node in self.unready for node in removed) else removing.union(self.unready)
        reasons = set(removed.values())
        limits = [
            (budget.limit(self.nodes), at)
            for at, (budget, _) in enumerate(self.active)
            if not budget.reasons or reasons & set(budget.reasons)
        ]
        least, at = min(limits, default=(len(counted), 0))
        if len(counted) <= least:
            return None
        budget, end = self.active[at]
        disrupted = len(self.removing.union(self.unready))
        at_once = f", {len(removed)} go at once" if len(removed) > 1 else ""
        local = "" if end == inf else datetime.fromtimestamp(end, ZoneInfo(budget.time_zone)).isoformat(timespec="minutes")
        return (
            f"{self.group}: {disrupted} of {self.nodes} nodes are being removed or not ready{at_once}, "
            f"at most {least} may be{local and f' until {local}'} (budget {budget.words()})"
        )

    def begin(self, node: NodeName) -> None:
        """Counts a node whose removal begins."""
        self.removing.add(node)


def disruptions_of(
    budgets: Mapping[GroupName, tuple[NodeDisruptionBudget, ...]],
    group_status: Mapping[GroupName, NodeGroupStatus],
    nodes: Iterable[Node],
    removing: Collection[NodeName],
    *,
    now: UnixTime,
) -> dict[GroupName, GroupDisruptions]:
    """The disruptions of each group that has budgets. `nodes`: all nodes of the cluster. `removing`: those whose removal we
    began; nodes whose machine the provider deletes count too."""
    if not budgets:
        return {}
    membership = Membership(each.group for each in group_status.values())
    going: dict[GroupName, set[NodeName]] = defaultdict(set)
    deleted = {
        name: {str(each.node or each.id) for each in group_status[name].group.instances if each.state == "deleting"}
        for name in budgets
    }
    for node in nodes:
        group = membership.group_of(node)
        if group is None or group not in budgets:
            continue
        if node.name in removing or not deleted[group].isdisjoint((node.name, node.provider_id)):
            going[group].add(node.name)
    ends = {budget: budget.active_until(now) for budget in dict.fromkeys(chain.from_iterable(budgets.values()))}
    return {
        name: GroupDisruptions(
            group=name,
            nodes=len(going[name].union(group_status[name].ready, group_status[name].unready)),
            unready=frozenset(group_status[name].unready),
            removing=going[name],
            active=tuple((budget, end) for budget in of_group if (end := ends[budget]) is not None),
        )
        for name, of_group in budgets.items()
    }
