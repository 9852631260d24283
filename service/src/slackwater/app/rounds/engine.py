"""Plays the autoscaler's loops with a cluster until nothing changes any more: places, grows, removes, replaces.

Each loop is as the service's: first the scale-up plan, then the scale-down plan beside it, then the batch of removals that may
begin by unneeded times, cool-downs, budgets and parallelism. Where nothing else is done, consolidation plans, if it is on. The
service plans every `scanInterval`; a candidate keeps its place from one plan to the next, so here a plan is used until it has
led to some removals, to nothing more, or until new nodes came. Time goes from event to event. The rounds are over when a plan
finds nothing to do, and another one, made after the longest pause after which a plan may find something, does not either.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Final

from msgspec import structs

from slackwater.app.offline.cluster import Cluster
from slackwater.app.offline.growth import Grown, planned_growth, removal_groups
from slackwater.app.offline.scaledown import planned_removals
from slackwater.app.policies import policy_of, scale_down_policy_of
from slackwater.app.rounds.replacements import Replacements, status_of
from slackwater.app.rounds.scheduler_model import SchedulerModel
from slackwater.app.rounds.timeline import Timeline
from slackwater.app.rounds.virtual_cluster import VirtualCluster
from slackwater.app.rounds.virtual_drains import DEFAULT_PACE, Pace, VirtualDrains
from slackwater.app.settings import Settings
from slackwater.cluster.nodegroups.status import NodeGroupStatus
from slackwater.controllers.scaledown.batch import RunningRemovals, choose_batch
from slackwater.controllers.scaledown.disruption_budgets import GroupDisruptions, disruptions_of
from slackwater.controllers.scaledown.state import (
    NOTHING_REPLACED,
    KeptNode,
    Removable,
    ScaleDownPlan,
    ScaleDownState,
    soft_taints,
)
from slackwater.fit.steps import MOST_STEPS, PlanSteps
from slackwater.model.effects import MarkNode, UnmarkNode
from slackwater.model.ids import NodeName, UnixTime
from slackwater.model.nodegroups import GroupName, NodeGroup
from slackwater.model.objects import Node, Taint
from slackwater.model.reasons import UnremovableReason
from slackwater_protocol.durations import seconds

#: A plan is used until the removals of so many nodes have begun, as a part of all nodes; or of a whole batch, if that is more.
PART: Final = 32
_UNRIPE: Final = frozenset({UnremovableReason.NOT_UNNEEDED_LONG_ENOUGH, UnremovableReason.NOT_UNREADY_LONG_ENOUGH})


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """What the rounds came to. `began`: the cluster at the start, once pods that fit somewhere have nodes. `kept`: why each
    node stays. `growth`: those of `added` that scale-up bought, not for moves. `grown`: the last scale-up plan. `seconds`:
    until the last change. `plans`: how many plans were made. `over`: nothing changes any more; False if the horizon ended the
    rounds before."""

    began: Cluster
    end: Cluster
    removed: tuple[NodeName, ...]
    added: tuple[NodeName, ...]
    growth: frozenset[NodeName]
    evictions: int
    failed_removals: int
    kept: tuple[KeptNode, ...]
    grown: Grown
    seconds: float
    plans: int
    over: bool


def play(cluster: Cluster, settings: Settings, *, start: UnixTime, horizon_seconds: float, pace: Pace = DEFAULT_PACE) -> Played:
    """Plays the rounds from `start` on, for `horizon_seconds` at most. Raises `SettingsError` if a file that the settings name
    cannot be read."""
    return _Rounds(cluster, settings, start, pace).run(horizon_seconds)


@dataclass(slots=True)
class _Plan:
    """The last plan. `begun`: how many of its removals have begun. `stale`: nodes came since. `held`: why others did not begin
    in the last loop. `budgets_end`: when budgets of groups that are active now end."""

    grown: Grown
    removals: ScaleDownPlan
    groups: Mapping[GroupName, NodeGroup]
    members: Mapping[NodeName, GroupName]
    made_at: UnixTime
    begun: int = 0
    stale: bool = False
    held: Mapping[NodeName, KeptNode] = field(default_factory=dict)
    budgets_end: Sequence[float] = ()


@dataclass(slots=True)
class _Counts:
    removed: list[NodeName] = field(default_factory=list)
    added: list[NodeName] = field(default_factory=list)
    growth: set[NodeName] = field(default_factory=set)
    failed: int = 0
    plans: int = 0
    changed_after: float = 0.0


class _Rounds:
    def __init__(self, cluster: Cluster, settings: Settings, start: UnixTime, pace: Pace) -> None:
        self._settings, self._pace = settings, pace
        self._policy = scale_down_policy_of(settings)
        self._interval = seconds(settings.autoscaler.scan_interval)
        self._cluster = VirtualCluster(cluster)
        self._scheduler = SchedulerModel(settings, cluster.kubernetes.version)
        self._quota = max(self._policy.max_scale_down_parallelism, len(cluster.nodes) // PART)
        self._timeline = Timeline(start)
        self._drains = VirtualDrains(
            self._cluster,
            self._scheduler,
            self._timeline,
            limits=policy_of(settings).drain,
            rules=self._policy.blocked_by,
            pace=pace,
        )
        self._replacements = Replacements(self._cluster, cluster, settings, self._timeline)
        self._state = ScaleDownState()
        self._plan: _Plan | None = None
        self._booting = 0
        self._marked_at = start
        #: Until when each group may not shrink, and why.
        self._cooling: dict[GroupName, tuple[UnixTime, str]] = {}
        self._counts = _Counts()
        #: The pauses after which a plan may find something that the one before did not, and how many of them have passed
        #: without a change.
        recheck = self._policy.unremovable_recheck_time
        self._pauses = [recheck, max(recheck, self._policy.blocked_by.system_pod_time)]
        self._pauses += [self._replacements.rest_seconds] if self._replacements.enabled else []
        self._pause, self._changes_before_pause = 0, 0

    def run(self, horizon_seconds: float) -> Played:
        self._scheduler.place_pending(self._cluster)
        began, over = self._cluster.cluster(), False
        while not over and self._timeline.passed <= horizon_seconds:
            plan = self._loop()
            at = self._next(plan)
            over = at is None
            if at is not None:
                self._timeline.run_until(self._timeline.tick_after(at, self._interval))
        return Played(
            began=began,
            end=self._cluster.cluster(),
            removed=tuple(self._counts.removed),
            added=tuple(self._counts.added),
            growth=frozenset(self._counts.growth),
            evictions=self._drains.evictions,
            failed_removals=self._counts.failed,
            kept=self._kept(plan),
            grown=plan.grown,
            seconds=self._counts.changed_after,
            plans=self._counts.plans,
            over=over,
        )

    def _kept(self, plan: _Plan) -> tuple[KeptNode, ...]:
        """Why each node stays, by the last word on it."""
        consolidation = self._replacements.plan
        found = {each.node: each for each in (*plan.removals.kept, *plan.held.values())}
        found |= {} if consolidation is None else {each.node: each for each in consolidation.kept if each.node in found}
        return tuple(found.values())

    # --- a loop -----------------------------------------------------------------------------------------------------------

    def _loop(self) -> _Plan:
        """Plans if the last plan is used up, and begins what may begin now."""
        self._take_outcomes()
        plan = self._plan
        if plan is not None and self._replacements.enabled:
            replacing = self._replacements.sense(self._status(plan), self._state)
            plan.stale = plan.stale or replacing != self._state.replacing
            self._state = replace(self._state, replacing=replacing)
        if plan is None or plan.stale or plan.begun >= self._quota:
            plan = self._planned()
        if not self._begin(plan) and self._is_idle and plan.made_at != self._timeline.now:
            plan = self._planned()
            if not self._begin(plan) and self._replacements.enabled:
                self._replace(plan)
        return plan

    def _replace(self, plan: _Plan) -> None:
        """Begins the moves of a consolidation, if one is due, and orders their machines."""
        status, disruptions = self._status(plan), self._disruptions(plan)
        wanted = self._replacements.begin(plan.grown, status, self._state, disruptions, self._drains.moved)
        if wanted is None:
            return
        for group, count in wanted.items():
            self._order(group, count, plan.grown)
        if not wanted:
            self._timeline.after(0.0, lambda: None)  # the next loop removes the nodes

    @property
    def _is_idle(self) -> bool:
        return not (self._drains.active or self._booting)

    def _take_outcomes(self) -> None:
        now, policy = self._timeline.now, self._policy
        for outcome in self._drains.outcomes:
            self._state = self._state.ended(outcome.node)
            if not outcome.problem:
                self._counts.removed.append(outcome.node)
                self._cool(outcome.group, policy.delay_after_delete, "nodes of it were removed")
                self._counts.changed_after = self._timeline.passed
                continue
            self._counts.failed += 1
            self._cool(outcome.group, policy.delay_after_failure, "a removal failed")
            if outcome.disturbed:
                self._state = self._state.drain_failed(outcome.node, outcome.problem, now)
        self._drains.outcomes.clear()

    def _cool(self, group: GroupName, seconds: float, why: str) -> None:
        until = UnixTime(self._timeline.now + seconds)
        if seconds and until > self._cooling.get(group, (UnixTime(0.0), ""))[0]:
            self._cooling[group] = until, why

    def _planned(self) -> _Plan:
        cluster, replica, now = self._cluster.cluster(), self._cluster.replica, self._timeline.now
        self._counts.plans += 1
        with replica.snapshot.fork():
            grown = planned_growth(
                cluster, self._settings, accounting=False, plan_steps=MOST_STEPS, replica=replica, clock=lambda: 0.0
            )
            steps = PlanSteps(replica.snapshot, most=MOST_STEPS, is_late=lambda: False)
            removals = planned_removals(
                cluster, grown, self._state, self._policy, budgets=cluster.budgets, now=now, stop=steps.over
            )
        self._state = removals.state
        self._mark()
        groups, members = removal_groups(grown.groups, grown.group_of, cluster)
        self._plan = _Plan(grown, removals, groups, members, now)
        return self._plan

    def _mark(self) -> None:
        """Writes and removes the soft taints of candidates, as many as the loops since the last plan do."""
        now = self._timeline.now
        loops = int((now - self._marked_at) // self._interval) + 1
        self._marked_at, nodes = now, self._cluster.replica.nodes
        changed: dict[NodeName, Node] = {}
        for effect in soft_taints(nodes.values(), self._state, most=loops * self._policy.max_soft_taints):
            match effect:
                case MarkNode(name=name, taint=taint):
                    changed[name] = _tainted(nodes[name], taint.key, (taint,))
                case UnmarkNode(name=name, taint_key=key):
                    changed[name] = _tainted(nodes[name], key, ())
                case _:
                    pass  # there are no other effects on soft taints
        if changed:
            self._cluster.put_nodes(changed.values())

    def _order(self, name: GroupName, count: int, grown: Grown) -> None:
        """Orders machines of a growable group; their nodes come together."""
        group = next(each for each in grown.groups if each.name == name)
        assert group.template is not None, "a group without a template does not grow"
        first, template = len(self._counts.added), group.template
        names = [NodeName(f"{group.owner}-new-{number}") for number in range(first, first + count)]
        self._counts.added += names
        self._booting += 1

        def come() -> None:
            self._booting -= 1
            self._cluster.add_nodes(template, names, self._timeline.now)
            self._scheduler.place_pending(self._cluster)
            self._cool(group.owner, self._policy.delay_after_add, "it has grown")
            self._counts.changed_after = self._timeline.passed
            if self._plan is not None:
                self._plan.stale = True

        self._timeline.after(self._pace.node_boot, come)

    def _begin(self, plan: _Plan) -> bool:
        """Orders the machines of the plan, and begins removals. Returns whether anything was begun."""
        ordered = () if self._booting else plan.grown.found.plan.scale_ups
        for scale_up in ordered:
            before = len(self._counts.added)
            self._order(scale_up.group, scale_up.count, plan.grown)
            self._counts.growth.update(self._counts.added[before:])
        now, active = self._timeline.now, self._drains.active
        under_way = RunningRemovals(removals=len(active), drains=sum(not drain.empty for drain in active.values()))
        disruptions = self._disruptions(plan)
        batch = choose_batch(
            replace(plan.removals, removable=tuple(self._left(plan))),
            plan.groups,
            self._policy,
            under_way,
            now=now,
            cooling={name: why for name, (until, why) in self._cooling.items() if now < until},
            disruptions=disruptions,
        )
        plan.held = {each.node: each for each in batch.held}
        plan.budgets_end = [end for group in disruptions.values() for _, end in group.active if end < inf]
        for found in (*batch.empty, *batch.drains):
            self._drains.begin(found)
            plan.begun += 1
        self._state = self._state.begun(batch.nodes, now)
        return bool(ordered or batch.nodes)

    def _disruptions(self, plan: _Plan) -> dict[GroupName, GroupDisruptions]:
        """The disrupted nodes of the groups with budgets."""
        budgets, nodes = self._policy.budgets_of(plan.groups), self._cluster.replica.nodes.values()
        return disruptions_of(budgets, self._status(plan), nodes, self._drains.active, now=self._timeline.now)

    def _status(self, plan: _Plan) -> dict[GroupName, NodeGroupStatus]:
        return status_of(plan.groups, plan.members, self._cluster)

    def _left(self, plan: _Plan) -> Iterator[Removable]:
        """The nodes that the plan removes and whose removal has not begun."""
        candidates = self._state.candidate_set
        return (found for found in plan.removals.removable if found.node in candidates)

    # --- which loop comes next --------------------------------------------------------------------------------------------

    def _next(self, plan: _Plan) -> UnixTime | None:
        """When the next loop may do something; None if nothing will change any more."""
        now, changes = self._timeline.now, len(self._counts.removed) + len(self._counts.added)
        if (event := self._timeline.next_at) is not None:
            return event
        if changes != self._changes_before_pause:
            self._changes_before_pause, self._pause = changes, 0
        if self._state.replacing != NOTHING_REPLACED:
            return UnixTime(now + self._pauses[0])  # what cannot be emptied is given up after a while
        if waits := self._waits(plan):
            return UnixTime(max(min(waits), now) + self._interval)
        if self._pause == len(self._pauses):
            return None
        self._pause += 1
        return UnixTime(now + self._pauses[self._pause - 1])

    def _waits(self, plan: _Plan) -> list[float]:
        """Until when the removals wait that are held back now, as far as that has an end."""
        found: list[float] = []
        for each in self._left(plan):
            held = plan.held.get(each.node)
            if held is None or held.unremovable_reason in _UNRIPE:
                found.append(each.since + (each.ripe_after_seconds or 0.0))
            elif held.unremovable_reason is UnremovableReason.IN_COOLDOWN:
                found.append(self._cooling[each.group][0])
            elif held.unremovable_reason is UnremovableReason.DISRUPTION_BUDGET_REACHED:
                found += plan.budgets_end
        return [at for at in found if at >= self._timeline.now]  # what could begin now, and did not, waits for something else


def _tainted(node: Node, key: str, taints: tuple[Taint, ...]) -> Node:
    """The node with these taints in place of that with the key."""
    return structs.replace(node, taints=(*(taint for taint in node.taints if taint.key != key), *taints))
