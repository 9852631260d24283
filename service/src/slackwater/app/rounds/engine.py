"""Plays the autoscaler's loops with a cluster: places, grows, removes, replaces, until nothing changes any more (`play`), or up
to a time, between changes that come from outside (`Rounds.advance`).

Each loop is as the service's: first the scale-up plan, then the scale-down plan beside it, then the batch of removals that may
begin by unneeded times, cool-downs, budgets and parallelism. Where nothing else is done, consolidation plans, if it is on. The
service plans every `scanInterval`; a candidate keeps its place from one plan to the next, so here a plan is used until it has
led to some removals, to nothing more, or until new nodes came. Time goes from event to event. The rounds are over when a plan
finds nothing to do, and another one, made after the longest pause after which a plan may find something, does not either.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Final

from msgspec import structs

from slackwater.app.offline.cluster import Cluster
from slackwater.app.offline.growth import Grown, planned_growth, removal_groups
from slackwater.app.offline.scaledown import planned_removals
from slackwater.app.policies import batch_seconds_of, policy_of, scale_down_policy_of, settling_of
from slackwater.app.rounds.happened import Came, Observer, Ordered, RemovalBegan, RemovalEnded, nobody
from slackwater.app.rounds.replacements import Replacements, status_of
from slackwater.app.rounds.scheduler_model import SchedulerModel
from slackwater.app.rounds.timeline import Timeline
from slackwater.app.rounds.virtual_cluster import VirtualCluster
from slackwater.app.rounds.virtual_drains import DEFAULT_PACE, Pace, VirtualDrains
from slackwater.app.rounds.virtual_machines import Order, VirtualMachines
from slackwater.app.settings import Settings
from slackwater.cluster.nodegroups.status import NodeGroupStatus
from slackwater.controllers.scaledown.batch import RunningRemovals, choose_batch
from slackwater.controllers.scaledown.disruption_budgets import GroupDisruptions, disruptions_of
from slackwater.controllers.scaledown.state import (
    NOTHING_REPLACED,
    KeptNode,
    Removable,
    Replacing,
    ScaleDownPlan,
    ScaleDownState,
    soft_taints,
)
from slackwater.fit.steps import MOST_STEPS, PlanSteps
from slackwater.model.effects import MarkNode, UnmarkNode
from slackwater.model.ids import NodeName, PodUid, UnixTime
from slackwater.model.nodegroups import GroupName, NodeGroup
from slackwater.model.objects import Node, Pod, Taint
from slackwater.model.reasons import UnremovableReason
from slackwater_protocol.durations import seconds

#: A plan is used until the removals of so many nodes have begun, as a part of all nodes; or of a whole batch, if that is more.
PART: Final = 32
#: The next tick is behind this one by more than so many seconds.
_BEHIND: Final = 1e-3
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


def play(
    cluster: Cluster,
    settings: Settings,
    *,
    start: UnixTime,
    horizon_seconds: float,
    pace: Pace = DEFAULT_PACE,
    report: Callable[[int], None] = lambda seconds: None,
) -> Played:
    """Plays the rounds from `start` on, for `horizon_seconds` at most. `report` is called after each round with how many
    seconds have been played. Raises `SettingsError` if a file that the settings name cannot be read."""
    return Rounds(cluster, settings, start, pace).until_rest(horizon_seconds, report)


@dataclass(slots=True)
class _Plan:
    """The last plan. `begun`: how many of its removals have begun. `ordered`: its machines have been ordered. `stale`:
    something changed since. `held`: why others did not begin in the last loop. `budgets_end`: when budgets of groups that are
    active now end."""

    made_from: Cluster
    grown: Grown
    removals: ScaleDownPlan
    groups: Mapping[GroupName, NodeGroup]
    members: Mapping[NodeName, GroupName]
    made_at: UnixTime
    begun: int = 0
    ordered: bool = False
    stale: bool = False
    held: Mapping[NodeName, KeptNode] = field(default_factory=dict)
    budgets_end: Sequence[float] = ()


@dataclass(slots=True)
class _Counts:
    """`ordered`: how many machines ever were; `gone`: how many nodes are. The others are as in `Played`; `advance` drops the
    names."""

    ordered: int = 0
    gone: int = 0
    removed: list[NodeName] = field(default_factory=list)
    added: list[NodeName] = field(default_factory=list)
    growth: set[NodeName] = field(default_factory=set)
    failed: int = 0
    plans: int = 0
    changed_after: float = 0.0


class Rounds:
    """The loops of one cluster, and what is around them. `observer` gets what happens."""

    def __init__(
        self, cluster: Cluster, settings: Settings, start: UnixTime, pace: Pace = DEFAULT_PACE, observer: Observer = nobody
    ) -> None:
        self._settings, self._observer = settings, observer
        self._policy = scale_down_policy_of(settings)
        self._places_as_planned = policy_of(settings).place_as_planned
        self._interval = seconds(settings.autoscaler.scan_interval)
        self.cluster = VirtualCluster(cluster)
        self.scheduler = SchedulerModel(settings, cluster.kubernetes.version, observer)
        self._quota = max(self._policy.max_scale_down_parallelism, len(cluster.nodes) // PART)
        self.timeline = Timeline(start)
        self.drains = VirtualDrains(
            self.cluster,
            self.scheduler,
            self.timeline,
            limits=policy_of(settings).drain,
            places_as_planned=self._places_as_planned,
            rules=self._policy.blocked_by,
            pace=pace,
            observer=observer,
        )
        self._replacements = Replacements(self.cluster, cluster, settings, self.timeline, quota=self._quota)
        self._state = ScaleDownState()
        self._plan: _Plan | None = None
        #: When the next loop may do something; None: not before something changes.
        self._next_at: UnixTime | None = start
        #: One loop is played at each tick.
        self._not_before = start
        #: When a loop begins early, and since when something waits for it. `_waiting`: the pods without a node as of the last
        #: change.
        self._early_at: UnixTime | None = None
        self._waits_since: UnixTime | None = None
        self._waiting = frozenset[PodUid]()
        self._settling = settling_of(settings.autoscaler)
        self._whole_bursts = batch_seconds_of(settings.autoscaler) > 0
        self._machines = VirtualMachines(self.timeline, pace, self._come)
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

    def until_rest(self, horizon_seconds: float, report: Callable[[int], None] = lambda seconds: None) -> Played:
        """Plays until nothing changes any more, for the horizon at most. `report` is as in `play`."""
        self.place()
        began, over = self.cluster.cluster(), False
        while not over and self.timeline.passed <= horizon_seconds:
            plan = self._loop()
            report(int(self.timeline.passed))
            at = self._next(plan)
            over = at is None
            if at is not None:
                self.timeline.run_until(self.timeline.tick_after(at, self._interval))
        return Played(
            began=began,
            end=self.cluster.cluster(),
            removed=tuple(self._counts.removed),
            added=tuple(self._counts.added),
            growth=frozenset(self._counts.growth),
            evictions=self.drains.evictions,
            failed_removals=self._counts.failed,
            kept=self._kept(plan),
            grown=plan.grown,
            seconds=self._counts.changed_after,
            plans=self._counts.plans,
            over=over,
        )

    def advance(self, to: UnixTime) -> None:
        """Plays up to a time. Changes from outside may be made between two calls; `changed` has to be called after them."""
        while True:
            at, event = self._loop_at(), self.timeline.next_at
            if event is not None and event <= to and (at is None or event < at):
                self.timeline.run_until(event)
                continue
            if at is None or at > to:
                break
            self.timeline.run_until(at)
            self._waits_since = self._early_at = None
            self._next_at, self._not_before = self._next(self._loop()), UnixTime(at + _BEHIND)
        self.timeline.run_until(to)
        for found in (self._counts.removed, self._counts.added, self._counts.growth):
            found.clear()
        self.drains.forget_moved(UnixTime(self.timeline.now - self._replacements.rest_seconds))

    def _loop_at(self) -> UnixTime | None:
        """When the next loop begins: at a tick, or early; None if nothing needs one. Where bursts are planned whole, a tick
        waits for them, too."""
        found = [] if self._early_at is None else [self._early_at]
        if self._next_at is not None and not (found and self._whole_bursts):
            found.append(self.timeline.tick_after(max(self._next_at, self._not_before), self._interval))
        return max(min(found), self.timeline.now) if found else None

    def _hurry(self) -> None:
        """A loop begins early, once nothing new has come for a while: new pods wait, or nodes came. What comes at the very end
        of that while comes before the loop."""
        now, (settle, longest) = self.timeline.now, self._settling
        self._waits_since = now if self._waits_since is None else self._waits_since
        self._early_at = UnixTime(max(min(now + settle, self._waits_since + longest), now) + _BEHIND)

    def changed(self) -> None:
        """Something changed from outside: pods that wait are placed, and the next loop plans again."""
        self.place()
        self._stale()
        self._replacements.forget()
        waiting = self.cluster.replica.pending.keys()
        if waiting - self._waiting:
            self._hurry()
        self._waiting = frozenset(waiting)

    def place(self) -> None:
        """Puts the pods that wait on nodes where they fit, as the scheduler would."""
        self.scheduler.place_pending(self.cluster, self.timeline.now)

    def _stale(self) -> None:
        self._next_at = self.timeline.now
        if self._plan is not None:
            self._plan.stale = True

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
            plan.stale = plan.stale or self._changes_plans(replacing)
            self._state = replace(self._state, replacing=replacing)
        if plan is None or plan.stale or plan.begun >= self._quota:
            plan = self._planned()
        if self._begin(plan) or not self._is_idle or self._replace(plan, go_on=True):
            return plan
        if plan.made_at != self.timeline.now:
            plan = self._planned()
            if self._begin(plan):
                return plan
        self._replace(plan, go_on=False)
        return plan

    def _changes_plans(self, replacing: Replacing) -> bool:
        """Would a plan of removals be another one by what consolidation replaces now? A move that ended changes nothing, since
        its nodes are gone, unless some of them stayed."""
        before, nodes = self._state.replacing, self.cluster.replica.nodes.keys()
        stayed = any(node in nodes for node in before.replaced.keys() - replacing.replaced.keys())
        more = replacing.replaced.keys() - before.replaced.keys() or replacing.replacements - before.replacements
        return bool(stayed or more or replacing.shunned != before.shunned)

    def _replace(self, plan: _Plan, *, go_on: bool) -> bool:
        """Begins moves, if a plan of consolidation is due, and orders their machines: more of the last plan (`go_on`), or those
        of a new one. Returns whether any began. Between moves of one plan no other removals are planned: nodes in use are left
        to consolidation, and no node became empty."""
        if not self._replacements.enabled:
            return False
        status, disruptions, moved = self._status(plan), self._disruptions(plan), self.drains.moved
        if go_on:
            wanted = self._replacements.go_on(status, self._state, disruptions, moved)
        else:
            wanted = self._replacements.begin(plan.grown, status, self._state, disruptions, moved)
        for group, count in () if wanted is None else wanted.items():
            self._order(group, count, plan.grown, replacing=True)
        if wanted is not None and not wanted:
            self.timeline.after(self._interval, lambda: None)  # the next loop removes the nodes
        return wanted is not None

    @property
    def _is_idle(self) -> bool:
        return not (self.drains.active or self._machines.coming)

    def _take_outcomes(self) -> None:
        now, policy = self.timeline.now, self._policy
        for outcome in self.drains.outcomes:
            self._observer(RemovalEnded(outcome.at, outcome.node, outcome.problem))
            self._state = self._state.ended(outcome.node)
            if not outcome.problem:
                self._counts.removed.append(outcome.node)
                self._counts.gone += 1
                self._cool(outcome.group, policy.delay_after_delete, "nodes of it were removed")
                self._counts.changed_after = self.timeline.passed
                continue
            self._counts.failed += 1
            self._cool(outcome.group, policy.delay_after_failure, "a removal failed")
            if outcome.disturbed:
                self._state = self._state.drain_failed(outcome.node, outcome.problem, now)
        self.drains.outcomes.clear()

    def _cool(self, group: GroupName, seconds: float, why: str) -> None:
        until = UnixTime(self.timeline.now + seconds)
        if seconds and until > self._cooling.get(group, (UnixTime(0.0), ""))[0]:
            self._cooling[group] = until, why

    def _planned(self) -> _Plan:
        cluster, replica, now = self._machines.counted_in(self.cluster.for_plans()), self.cluster.replica, self.timeline.now
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
        self._plan = _Plan(cluster, grown, removals, groups, members, now)
        return self._plan

    def _mark(self) -> None:
        """Writes and removes the soft taints of candidates, as many as the loops since the last plan do."""
        now = self.timeline.now
        loops = int((now - self._marked_at) // self._interval) + 1
        self._marked_at, nodes = now, self.cluster.replica.nodes
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
            self.cluster.put_nodes(changed.values())

    def _order(
        self,
        name: GroupName,
        count: int,
        grown: Grown,
        *,
        planned: Sequence[tuple[Pod, ...]] = (),
        replacing: bool = False,
    ) -> None:
        """Orders machines of a growable group; their nodes come together. `planned`: the pods that each of them is for."""
        group = next(each for each in grown.groups if each.name == name)
        assert group.template is not None, "a group without a template does not grow"
        first = self._counts.ordered
        names = [NodeName(f"{group.owner}-new-{number}") for number in range(first, first + count)]
        self._counts.ordered += count
        self._counts.added += names
        pods = tuple(pod for some in planned for pod in some)
        self._observer(Ordered(self.timeline.now, group.owner, tuple(names), pods, replacing))
        planned = planned if self._places_as_planned else ()
        self._machines.order(group.owner, group.template, names, [[pod.uid for pod in some] for some in planned])

    def expect(self, pace: Pace) -> None:
        """From now on others take so long."""
        self._machines.expect(pace)
        self.drains.expect(pace)

    def _come(self, order: Order) -> None:
        self.cluster.add_nodes(order.template, order.nodes, self.timeline.now, order.group)
        self._observer(Came(self.timeline.now, order.nodes))
        for name, uids in zip(order.nodes, order.planned, strict=False):
            self.scheduler.place_on(self.cluster, name, uids, self.timeline.now)
        self.place()
        self._cool(order.group, self._policy.delay_after_add, "it has grown")
        self._counts.changed_after = self.timeline.passed
        self._stale()
        self._hurry()

    def _begin(self, plan: _Plan) -> bool:
        """Orders the machines of the plan, and begins removals. Returns whether anything was begun."""
        # Without groups that are known by name, a plan cannot count the machines that are on their way.
        blind = self._machines.coming and plan.made_from.groups is None
        ordered = () if blind or plan.ordered else plan.grown.found.plan.scale_ups
        plan.ordered = plan.ordered or bool(ordered)
        for scale_up in ordered:
            before = len(self._counts.added)
            self._order(scale_up.group, scale_up.count, plan.grown, planned=scale_up.nodes)
            self._counts.growth.update(self._counts.added[before:])
        now, active = self.timeline.now, self.drains.active
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
            self._observer(RemovalBegan(now, found, found.node in self._state.replacing.replaced))
            self.drains.begin(found)
            plan.begun += 1
        self._state = self._state.begun(batch.nodes, now)
        return bool(ordered or batch.nodes)

    def _disruptions(self, plan: _Plan) -> dict[GroupName, GroupDisruptions]:
        """The disrupted nodes of the groups with budgets."""
        budgets, nodes = self._policy.budgets_of(plan.groups.values()), self.cluster.replica.nodes.values()
        return disruptions_of(budgets, self._status(plan), nodes, self.drains.active, now=self.timeline.now)

    def _status(self, plan: _Plan) -> dict[GroupName, NodeGroupStatus]:
        return status_of(plan.groups, plan.members, self.cluster)

    def _left(self, plan: _Plan) -> Iterator[Removable]:
        """The nodes that the plan removes and whose removal has not begun."""
        candidates = self._state.candidate_set
        return (found for found in plan.removals.removable if found.node in candidates)

    # --- which loop comes next --------------------------------------------------------------------------------------------

    def _next(self, plan: _Plan) -> UnixTime | None:
        """When the next loop may do something; None if nothing will change any more."""
        now, changes = self.timeline.now, self._counts.gone + self._counts.ordered
        if (event := self.timeline.next_at) is not None:
            return event
        if changes != self._changes_before_pause:
            self._changes_before_pause, self._pause = changes, 0
        if self._state.replacing != NOTHING_REPLACED:
            return UnixTime(now + self._pauses[0])  # what cannot be emptied is given up after a while
        found = [max(min(waits), now) + self._interval] if (waits := self._waits(plan)) else []
        if (planned := self._replacements.next_at) is not None:
            found.append(max(planned, now + _BEHIND))  # a tick later, since nothing began at this one
        if found:
            return UnixTime(min(found))
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
        return [at for at in found if at >= self.timeline.now]  # what could begin now, and did not, waits for something else


def _tainted(node: Node, key: str, taints: tuple[Taint, ...]) -> Node:
    """The node with these taints in place of that with the key."""
    return structs.replace(node, taints=(*(taint for taint in node.taints if taint.key != key), *taints))
