"""Whatever the budgets: never are more nodes of a group disrupted than the active ones allow, and none waits without need.

Whether a schedule is active is found here by looking at each minute before now, without cronsim.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from zoneinfo import ZoneInfo

from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.controllers.scaledown.batch import RunningRemovals, choose_batch
from slackwater.controllers.scaledown.disruption_budgets import disruptions_of
from slackwater.controllers.scaledown.removal_score import RemovalScore
from slackwater.controllers.scaledown.state import Removable, ScaleDownPlan, ScaleDownState
from slackwater.model.disruption_budgets import DisruptionReason, NodeDisruptionBudget
from slackwater.model.ids import NodeName, UnixTime
from slackwater.model.nodegroups import GroupName
from slackwater.model.reasons import UnremovableReason
from tests.support import installed
from tests.support.builders import a_node
from tests.support.removing import a_group, a_group_status, replica

LAW = settings(max_examples=25, deadline=None)
SCORE = RemovalScore(saved=1.0, disruption_cost=0.0, pods=0, restarts=0, tight=0, oldest_seconds=0.0)
POLICY = replace(installed.SCALE_DOWN, max_scale_down_parallelism=50, max_drain_parallelism=50)
BEGAN = 1_800_000_000 // 60 * 60
REASONS: tuple[DisruptionReason, ...] = ("Empty", "Underutilized", "Drifted")


@dataclass(frozen=True)
class Window:
    """A schedule of which the test knows what it means: at these minutes of these hours, on these weekdays (0: Monday)."""

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: tuple[int, ...]
    duration: int  # minutes
    zone: str

    @property
    def schedule(self) -> str:
        days = ",".join(str((day + 1) % 7) for day in self.days)
        return f"{','.join(map(str, self.minutes))} {','.join(map(str, self.hours))} * * {days}"

    def is_active(self, now: int) -> bool:
        last = now // 60 * 60
        moments = range(last, now - self.duration * 60, -60)
        return any(self._fires(datetime.fromtimestamp(moment, ZoneInfo(self.zone))) for moment in moments)

    def _fires(self, local: datetime) -> bool:
        return local.minute in self.minutes and local.hour in self.hours and local.weekday() in self.days


def some(*values: int, most: int) -> st.SearchStrategy[tuple[int, ...]]:
    return st.sets(st.sampled_from(values), min_size=1, max_size=most).map(lambda found: tuple(sorted(found)))


# Zones without summer time in these days; the changes of clocks are in the unit tests.
windows = st.builds(
    Window,
    minutes=some(0, 13, 30, most=2),
    hours=some(*range(24), most=4),
    days=some(*range(7), most=7),
    duration=st.sampled_from((1, 30, 90, 600)),
    zone=st.sampled_from(("UTC", "Asia/Kolkata", "America/Sao_Paulo")),
)
budgets = st.builds(
    lambda nodes, reasons, window: (
        window,
        NodeDisruptionBudget(nodes=nodes, reasons=tuple(sorted(reasons)))
        if window is None
        else NodeDisruptionBudget(
            nodes=nodes,
            reasons=tuple(sorted(reasons)),
            schedule=window.schedule,
            duration=window.duration * 60.0,
            time_zone=window.zone,
        ),
    ),
    st.integers(0, 6) | st.integers(0, 100).map(lambda share: f"{share}%"),
    st.sets(st.sampled_from(REASONS)),
    st.none() | windows,
)


def removable(name: NodeName, group: GroupName, *, ready: bool, empty: bool) -> Removable:
    moves = () if empty else ((replica(f"on-{name}", name), NodeName("elsewhere")),)
    return Removable(
        node=name,
        group=group,
        since=UnixTime(0.0),
        ready=ready,
        moves=moves,
        awaited=(),
        risky=False,
        ripe_after_seconds=60.0,
        removal_score=SCORE,
    )


def most_allowed(of_group: Sequence[tuple[Window | None, NodeDisruptionBudget]], reason: str, nodes: int, now: int) -> int:
    """The least of what the active budgets for the reason allow."""
    allowed = 1000
    for window, budget in of_group:
        if (window is None or window.is_active(now)) and (not budget.reasons or reason in budget.reasons):
            text = str(budget.nodes)
            share = -(-nodes * int(text[:-1]) // 100) if text.endswith("%") else int(text)
            allowed = min(allowed, share)
    return allowed


def disrupted(name: NodeName, members: Mapping[NodeName, GroupName], going: set[NodeName], unready: set[NodeName]) -> int:
    """How many nodes of its group are disrupted once it goes too; if it is broken itself, only removals count."""
    counted = going | {name} if name in unready else going | unready | {name}
    return sum(members[node] == members[name] for node in counted)


@LAW
@given(st.data())
def test_never_are_more_nodes_of_a_group_disrupted_than_budgets_allow(data: st.DataObject) -> None:
    draw = data.draw
    configured = {GroupName(name): draw(st.lists(budgets, max_size=3), label=name) for name in "ab"}
    sizes = {group: draw(st.integers(1, 12)) for group in configured}
    members = {NodeName(f"{group}{number}"): group for group, size in sizes.items() for number in range(size)}
    of_group = {group: [name for name in members if members[name] == group] for group in sizes}
    nodes = [a_node(name, labels={"slackwater.dev/node-group": group}) for name, group in members.items()]
    groups = {group: a_group([], name=group, missing=size) for group, size in sizes.items()}
    going = set[NodeName]()
    now = BEGAN + draw(st.integers(0, 7 * 86_400))
    for _ in range(3):
        now += draw(st.sampled_from((1, 59, 600, 7200)))
        unready = draw(st.sets(st.sampled_from(sorted(members)), max_size=3))
        empty = draw(st.sets(st.sampled_from(sorted(members))))
        going -= draw(st.sets(st.sampled_from(sorted(members))))  # rolled back
        status = {
            group: a_group_status(
                groups[group],
                ready=[name for name in of_group[group] if name not in unready],
                unready=[name for name in of_group[group] if name in unready],
            )
            for group in groups
        }
        own = {group: tuple(budget for _, budget in each) for group, each in configured.items() if each}
        candidates = [name for name in members if name not in going]
        found = disruptions_of(own, status, nodes, going, now=UnixTime(float(now)))
        offered = tuple(removable(name, members[name], ready=name not in unready, empty=name in empty) for name in candidates)
        plan = ScaleDownPlan(state=ScaleDownState(), removable=offered)
        batch = choose_batch(plan, groups, POLICY, RunningRemovals(), now=UnixTime(float(now)), disruptions=found)
        most = {
            name: most_allowed(configured[group], "Empty" if name in empty else "Underutilized", len(of_group[group]), now)
            for group in groups
            for name in of_group[group]
        }

        for one in (*batch.empty, *batch.drains):
            assert disrupted(one.node, members, going, unready) <= most[one.node], one.node
            going.add(one.node)
        for kept in batch.held:
            assert kept.unremovable_reason is UnremovableReason.DISRUPTION_BUDGET_REACHED
            assert disrupted(kept.node, members, going, unready) > most[kept.node], kept.node
