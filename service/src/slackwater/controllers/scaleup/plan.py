"""Plans a scale-up. In: a snapshot, the demand and the node groups. Out: which groups grow by how many nodes, for which pods.

    demand = pending_demand(pods, rules=policy.pending, now=now)
    with snapshot.fork():
        plan = plan_scale_up(snapshot, demand, groups, policy=policy, clock=clock)

1. Groups below their minimum get their missing nodes. Pods that fit on existing or upcoming nodes are placed there.
2. For every bundle of similar groups an estimate finds how many new nodes the other pods need, and which pods these nodes take
   (`estimate`). The result is an option.
3. The expanders choose one option for the plan. Steps 2 and 3 are repeated for the remaining pods, until no option takes any.
   So the whole demand is planned at once, and no pod counts twice.
4. For the pods that are left, the plan says why no group helps, as far as a bound allows (`RefusalSearch`). For pods that no
   new node can ever take, this is found before step 2, whatever the limits.

The limits count steps (`fit.steps`). Step 1 takes at most half of them. Pods that they cut off come first in the next plan.

Pods and upcoming nodes that were added to the snapshot stay in it after step 1, so the caller should have forked the snapshot.
What steps 2 to 4 add is removed. Deliberately absent: the clock (an argument), nodes in creation, any call to the outside.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from slackwater.controllers.scaleup.estimate import Option, Run, estimate
from slackwater.controllers.scaleup.expanders import Merit, Priorities, chain_of, largest_of, packs, weights_of
from slackwater.controllers.scaleup.groups import (
    Budget,
    GrowableGroup,
    SkipReason,
    add_nodes,
    counted,
    similar_groups,
    upcoming_name,
)
from slackwater.controllers.scaleup.inter_pod_constraints import representatives
from slackwater.controllers.scaleup.option_effects import OptionEffects
from slackwater.controllers.scaleup.option_queue import OptionQueue, SparedEstimates
from slackwater.controllers.scaleup.outcome import (
    GroupRefusal,
    PackedNodes,
    ScaleUp,
    ScaleUpPlan,
    Unhelpable,
)
from slackwater.controllers.scaleup.pending import UNREACHED, Demand, place_existing, place_nominated
from slackwater.controllers.scaleup.policy import ScaleUpPolicy
from slackwater.controllers.scaleup.remaining import Remaining
from slackwater.controllers.scaleup.template_nodes import Refusals, RefusalSearch, TemplateNodes
from slackwater.fit.binpacking import begins_together, place_planned, runs
from slackwater.fit.failure import PlanningFailed, concerning
from slackwater.fit.feasible_nodes import feasible
from slackwater.fit.steps import CutBy, PlanSteps
from slackwater.model.columns import Rows
from slackwater.model.ids import NodeName, PodUid
from slackwater.model.nodegroups import Membership, NodeGroup
from slackwater.model.objects import Pod
from slackwater.model.prices import FORMULA
from slackwater.model.resources import Amounts
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.equivalence_groups import KindId

if TYPE_CHECKING:  # plans without the expander `price` need nothing of it
    from slackwater.controllers.scaleup.packing.option import PackedOption


@dataclass(slots=True, kw_only=True)
class NewPlan:
    """The plan while it is being made: the nodes to add, and the pods of each.

    Pods are given by their position in the demand, groups by their position in `groups`, new nodes by the number of their
    opening."""

    snapshot: ClusterSnapshot
    groups: Sequence[GrowableGroup]
    pods: Sequence[Pod]
    group_of: list[int] = field(default_factory=list)
    node_at: dict[int, int] = field(default_factory=dict)  # by row
    row_of: dict[int, int] = field(default_factory=dict)  # by node
    on: dict[int, int] = field(default_factory=dict)  # the node of a pod
    #: The node of a pod that needs no new one, in the order of placement.
    elsewhere: dict[int, NodeName] = field(default_factory=dict)

    def open(self, groups: Sequence[int], *, system: Amounts, shown: bool) -> int:
        """Adds a new node for each entry of `groups`. Returns the number of the first. `shown`: adds the nodes to the snapshot
        too."""
        first = len(self.group_of)
        self.group_of += groups
        numbers_of: dict[int, list[int]] = {}
        for number, group in enumerate(groups, first):
            numbers_of.setdefault(group, []).append(number)
        for group, numbers in numbers_of.items() if shown else ():
            template = self.groups[group].template
            assert template is not None
            names = [NodeName(f"new:{self.groups[group].name}:{number}") for number in numbers]
            with concerning(self.groups[group].name):
                rows = add_nodes(self.snapshot, template, names, system=system)
            self.node_at.update(zip(rows, numbers, strict=True))
            self.row_of.update(zip(numbers, rows, strict=True))
        return first

    def assign(self, pods: Rows, at: Rows, first: int = 0) -> None:
        """Assigns each of `pods` to the new node of number `first + at`; if `at` is negative, to row `~at` of the snapshot,
        which may be that of a new node."""
        for pod, where in zip(pods.tolist(), at.tolist(), strict=True):
            node = first + where if where >= 0 else self.node_at.get(~where)
            if node is not None:
                self.on[pod] = node
            else:
                self.elsewhere[pod] = self.snapshot.facts.nodes[~where].name

    def show(self, pods: Rows, kinds: Rows) -> None:
        """Places these pods, which have been assigned to a node, in the snapshot. `pods`: in the order in which they were
        planned, since the devices and volumes that a pod gets depend on the pods before it. `kinds`: the equivalence group of
        each pod of the demand."""
        known = self.snapshot.facts.row_of
        for kind, run in runs(kinds, pods):
            rows = [self.row_of[self.on[pod]] if pod in self.on else known[self.elsewhere[pod]] for pod in run.tolist()]
            with concerning(kind):
                place_planned(self.snapshot, kind, np.array(rows, np.intp))

    def scale_ups(self) -> tuple[ScaleUp, ...]:
        """The scale-ups in the order of the groups; each group's most important nodes first."""
        pods_on: list[list[int]] = [[] for _ in self.group_of]
        for pod in sorted(self.on):
            pods_on[self.on[pod]].append(pod)
        by_group: dict[int, list[list[int]]] = {}
        for number, group in enumerate(self.group_of):
            by_group.setdefault(group, []).append(pods_on[number])
        for nodes in by_group.values():  # pods are in the order of importance, so a node is as important as its first one
            nodes.sort(key=lambda pods: pods[0] if pods else len(self.pods))
        return tuple(
            ScaleUp(group=self.groups[group].name, nodes=tuple(tuple(self.pods[pod] for pod in pods) for pods in nodes))
            for group, nodes in sorted(by_group.items())
        )


_NO_HINTS: Final[Mapping[PodUid, NodeName]] = {}
_NO_TEMPLATE: Final = SkipReason(kind="no-template", text="nobody knows what a node of the group looks like")
_REFUSED: Final = SkipReason(kind="not-ready", text="kube-scheduler refuses the pods on the group's nodes")
_CUT: Final[Mapping[CutBy | None, SkipReason]] = {
    "time": SkipReason(kind="time", text="planning took too long: the next one goes on"),
    "steps": SkipReason(kind="time", text="planning reached its limit on steps: the next one goes on"),
}
#: Placing pods on present nodes takes at most this part of the steps, so that some are left for those that fit nowhere.
_HALF: Final = 2
#: By price, once this part of the steps is used, an option is estimated again only when its turn comes: pods that spread beside
#: packed nodes may need so many rounds that the limit would cut the plan (docs/adr/0270).
_TENTH: Final = 10
_NOT_JUDGED: Final = SkipReason(kind="time", text="not judged: too many different pods fit nowhere; explain judges each alone")
_NOT_FOUND: Final = SkipReason(kind="limit", text="the group is all or nothing, and all of it is more than a limit allows")


def plan_scale_up(
    snapshot: ClusterSnapshot,
    demand: Demand,
    groups: Sequence[GrowableGroup],
    *,
    policy: ScaleUpPolicy,
    clock: Callable[[], float],
    hints: Mapping[PodUid, NodeName] = _NO_HINTS,
) -> ScaleUpPlan:
    """Plans a scale-up: which groups grow, by how many nodes, and for which pods.

    `clock` returns seconds, for the limits on time. `hints`: the nodes where an earlier plan saw pods fit.

    An error stops nothing but the plan for the pods, or for the group, that it concerns (`failures`): the plan is made again
    without them.
    """
    ends = clock() + policy.plan_seconds if policy.plan_seconds else None

    def is_late() -> bool:
        now = clock()
        return ends is not None and now >= ends

    steps = PlanSteps(snapshot, most=policy.plan_steps, is_late=is_late)
    remaining = Remaining(snapshot=snapshot, demand=demand, groups=list(groups))
    while True:
        try:
            with snapshot.fork() as trial:
                planning = _ScaleUpPlanning(remaining, policy, clock, steps)
                planning.add_upcoming()
                planning.choose(hints)
                plan = planning.result()
                trial.commit()
        except PlanningFailed as failed:
            remaining.leave_out(failed)
        else:
            return replace(plan, unhelpable=(*plan.unhelpable, *remaining.unhelpable), failures=tuple(remaining.failures))


class _ScaleUpPlanning:
    """One planning. `_left`: whether a pod has no node yet, by position in the demand, shape (pods,)."""

    def __init__(self, remaining: Remaining, policy: ScaleUpPolicy, clock: Callable[[], float], steps: PlanSteps) -> None:
        self._snapshot, self._demand, self._groups = remaining.snapshot, remaining.demand, remaining.groups
        self._policy, self._clock, self._steps = policy, clock, steps
        snapshot, demand = self._snapshot, self._demand
        #: Was a part of the search for new nodes cut off?
        self._cut = False
        self._unreached: list[Run] = []
        self._refused: dict[KindId, Refusals] = {}
        self._together = True
        #: Seconds spent on estimates of each bundle so far.
        self._spent: dict[tuple[int, ...], float] = {}
        self._kinds = representatives(snapshot, snapshot.number(demand.counted))
        self._priorities = np.fromiter((pod.priority for pod in demand.counted), np.int64, len(demand.counted))
        self._left = np.ones(len(demand.counted), np.bool_)
        self._skip_reasons = [group.skip_reason or (_NO_TEMPLATE if group.template is None else None) for group in self._groups]
        self._prices = [0 if group.price is None else group.price.micros for group in self._groups]
        self._packings: list[PackedOption] = []
        ranked, self._by_price = "priority" in policy.expanders, "price" in policy.expanders
        self._ranks = [_rank_of(group.provided, policy.priorities) if ranked else None for group in self._groups]
        self._new = NewPlan(snapshot=snapshot, groups=self._groups, pods=demand.counted)
        self._nominated = place_nominated(snapshot, demand.nominated)

    def add_upcoming(self) -> None:
        """Adds upcoming nodes to the snapshot. Then adds the nodes that groups lack to their minimum, to plan and snapshot."""
        snapshot, system = self._snapshot, self._policy.system
        for group in self._groups:
            if group.template is not None:
                names = [upcoming_name(group.name, number) for number in range(group.upcoming)]
                with concerning(group.name):
                    add_nodes(snapshot, group.template, names, system=system)
        self._budget = Budget.of(
            self._groups,
            nodes=[node for row, node in enumerate(snapshot.facts.nodes) if snapshot.facts.live[row]],
            quotas=self._policy.quotas,
            max_nodes=self._policy.max_nodes_per_scale_up,
        )
        for at, group in enumerate(self._groups):
            lacking = min(max(group.group.min_size - group.group.target + group.dead, 0), self._budget.room(at))
            if lacking and self._skip_reasons[at] is None:
                self._budget.take(at, lacking)
                self._new.open([at] * lacking, system=system, shown=True)

    def choose(self, hints: Mapping[PodUid, NodeName]) -> None:
        """Places pods on existing and upcoming nodes. For the others takes the best option repeatedly, until no option helps
        any pod; then finds the reasons for the remaining pods."""
        counted = self._demand.counted
        asking = self._undisputed(np.arange(len(counted)))
        pods = counted if len(asking) == len(counted) else [counted[pod] for pod in asking.tolist()]
        rows = place_existing(
            self._snapshot,
            pods,
            self._kinds[asking],
            hints=hints,
            cut_off=self._demand.cut_off,
            stop=lambda: self._steps.over(_HALF),
        )
        placed = rows >= 0
        self._left[asking[placed]] = False
        self._new.assign(asking[placed], ~rows[placed])
        if not self._left.any():
            return
        self._unreached = self._runs_of(asking[rows == UNREACHED])
        tried = self._left.copy()
        tried[asking[rows == UNREACHED]] = False
        self._runs = {run.kind: run for run in self._runs_of(np.flatnonzero(tried))}
        with self._snapshot.fork():
            left = sorted((*self._runs.values(), *self._unreached), key=lambda run: int(run.pods[0]))
            kinds = list(dict.fromkeys(run.kind for run in left))
            self._template_nodes = TemplateNodes(self._snapshot, self._groups, kinds, system=self._policy.system)
            self._search = RefusalSearch(self._template_nodes)
            self._refused = self._search.of(filter(self._template_nodes.refused_for_good, kinds))
            self._spared = SparedEstimates(self._template_nodes)
            self._disputed_first()
            self._cut_first()
            if packs(self._policy.expanders) and self._runs:
                self._pack()
            self._rounds()
            if self._place_apart():
                self._rounds()
            self._unhelpable = self._why_not()

    def _is_over(self) -> bool:
        over = self._steps.over()
        self._cut = self._cut or over
        return over

    def _runs_of(self, pods: Rows) -> list[Run]:
        by_kind = runs(self._kinds, pods[np.argsort(self._kinds[pods], kind="stable")])  # within a group they stay in order
        return [Run(kind=kind, pods=some) for kind, some in by_kind]

    def _undisputed(self, pods: Rows) -> Rows:
        """Those of the pods that are placed on a present node if they fit there."""
        disputed, counted = self._demand.disputed, self._demand.counted
        return pods if not disputed else pods[[counted[pod].uid not in disputed for pod in pods.tolist()]]

    def _disputed_first(self) -> None:
        """Takes options for disputed pods without the groups that have a node on which these pods fit, since kube-scheduler
        refuses such a node. Where no other group helps, pods are left, and all groups are tried for them."""
        snapshot, disputed = self._snapshot, self._demand.disputed
        known = self._skip_reasons
        left = np.flatnonzero(self._left).tolist() if disputed else []
        asking = [pod for pod in left if self._demand.counted[pod].uid in disputed]
        if not asking:
            return
        kinds = {KindId(kind) for kind in self._kinds[asking].tolist()}
        rows = {row for kind in kinds for row in feasible(snapshot, kind).rows.tolist()}
        membership = Membership(group.provided for group in self._groups)
        having = {membership.group_of(snapshot.facts.nodes[row]) for row in rows}
        self._skip_reasons = [
            reason or (_REFUSED if group.owner in having else None) for reason, group in zip(known, self._groups, strict=True)
        ]
        self._rounds_for(kinds)
        self._skip_reasons = known

    def _cut_first(self) -> None:
        """Takes options for the pods that a limit cut off the last plans, those of the most plans first."""
        by_plans: dict[int, set[KindId]] = {}
        for pod in np.flatnonzero(self._left).tolist() if self._demand.cut_off else ():
            plans = self._demand.cut_off.get(self._demand.counted[pod].uid, 0)
            by_plans.setdefault(plans, set()).add(KindId(int(self._kinds[pod])))
        for plans in sorted(by_plans.keys() - {0}, reverse=True):
            self._rounds_for(by_plans[plans])

    def _rounds_for(self, kinds: Set[KindId]) -> None:
        every = self._runs
        self._runs = {kind: run for kind, run in every.items() if kind in kinds}
        self._rounds()
        self._runs = {**{kind: run for kind, run in every.items() if kind not in kinds}, **self._runs}

    def _pack(self) -> None:
        """Packs the whole demand at the lowest price, the groups of the highest priority first; then places pods that this
        cannot express in what is left of the nodes. Where limits leave out pods of several priorities, nothing is packed: the
        estimates serve the more important ones first."""
        from slackwater.controllers.scaleup.packing.option import packed_option

        for groups in self._by_rank():
            found = packed_option(
                self._template_nodes,
                self._spared,
                self._budget,
                among=groups,
                runs=sorted(self._runs.values(), key=lambda run: int(run.pods[0])),
                prices=self._prices,
                stop=self._is_over,
            )
            if found is None or (found.left_out and len(np.unique(self._priorities)) > 1):
                continue
            self._packings.append(found)
            self._take(found.option, shown=True)
        if self._packings and self._runs:
            self._place_present(list(self._runs))

    def _by_rank(self) -> list[list[int]]:
        """The groups that may grow, those of one priority together, the highest first."""
        ranks: dict[int | None, list[int]] = {}
        for at, rank in enumerate(self._ranks):
            if self._skip_reasons[at] is None:
                ranks.setdefault(rank, []).append(at)
        return [ranks[rank] for rank in sorted(ranks, key=lambda rank: (rank is None, -(rank or 0)))]

    def _place_apart(self) -> bool:
        """If pods are left that need one another on one node, and no node takes all of them: places as many as possible on
        present nodes. Returns whether there are such pods. From now on options have as many of them as possible too."""
        snapshot = self._snapshot
        kinds = [kind for kind in self._runs if begins_together(snapshot, snapshot.of(kind))]
        if not kinds or self._is_over():
            return False
        self._together = False
        self._place_present(kinds)
        return True

    def _place_present(self, kinds: Sequence[KindId]) -> None:
        """Places pods of these equivalence groups that are left on present nodes, and on those that the plan has added."""
        pods = self._undisputed(np.sort(np.concatenate([self._runs[kind].pods for kind in kinds])))
        some = [self._demand.counted[pod] for pod in pods.tolist()]
        rows = place_existing(self._snapshot, some, self._kinds[pods], hints={}, stop=self._is_over, together=self._together)
        placed = rows >= 0
        self._new.assign(pods[placed], ~rows[placed])
        self._take_off(kinds, pods[placed])

    def _take_off(self, kinds: Iterable[KindId], pods: Rows) -> None:
        """Takes placed pods of these equivalence groups off the pods that are left."""
        self._spared.forget()
        self._left[pods] = False
        for kind in kinds:
            run = self._runs.pop(kind).pods
            left = run[self._left[run]]
            if len(left):
                self._runs[kind] = Run(kind=kind, pods=left)

    def _rounds(self) -> None:
        if self._is_over():
            return
        policy = self._policy
        nodes = [group.template.node for group in self._groups if group.template is not None]
        merit = chain_of(
            policy.expanders,
            seed=policy.seed,
            priority_of={group.name: rank for group, rank in zip(self._groups, self._ranks, strict=True)}.get,
            weights=weights_of(nodes),
            largest=largest_of(nodes),
            prices=self._prices,
            formula=self._policy.prices.formula if self._policy.prices is not None else FORMULA,
        )
        bundles = similar_groups(
            self._groups,
            self._template_nodes.empty,
            [at for at, skip_reason in enumerate(self._skip_reasons) if skip_reason is None],
            ranks=self._ranks,
            balance=policy.balance_similar_groups,
            ignored_labels=policy.balancing_ignored_labels,
        )
        moving = self._template_nodes.inter_pod_constraints.moving
        queue = OptionQueue(
            bundles,
            self._budget,
            estimate=self._estimated,
            merit=merit,
            bound=partial(self._bound, merit),
            affected=OptionEffects(self._template_nodes, bundles).of if moving else None,
            hurried=lambda: self._by_price and self._steps.past(_TENTH),
        )
        while (option := queue.best_known() if self._is_over() else queue.best()) is not None:
            shown = self._take(option)
            if not self._runs or self._is_over():
                return
            queue.took(option, shown=shown)

    def _runs_for(self, bundle: tuple[int, ...]) -> list[Run]:
        return [self._runs[kind] for kind in self._template_nodes.kinds_that_fit(bundle) if kind in self._runs]

    def _bound(self, merit: Callable[[Option], Merit], bundle: tuple[int, ...]) -> Merit | None:
        if not self._template_nodes.inter_pod_constraints.moving:
            return None
        runs = self._runs_for(bundle)
        option = self._spared.cheapest(bundle, runs, self._prices) if self._by_price else self._spared.optimistic(bundle, runs)
        return None if option is None else merit(option)

    def _estimated(self, bundle: tuple[int, ...]) -> Option:
        known = self._spared.known(bundle[0], self._budget) if len(bundle) == 1 else None
        if known is not None:
            return known
        began = self._clock()
        limited = bool(self._policy.max_planning_time)
        left = self._policy.max_planning_time - self._spent.get(bundle, 0.0)
        option = estimate(
            self._template_nodes,
            self._budget,
            bundle,
            self._runs_for(bundle),
            priorities=self._priorities,
            together=self._together,
            stop=lambda: self._is_over() or (limited and self._clock() - began >= left and self._steps.late(True)),
        )
        self._spent[bundle] = self._spent.get(bundle, 0.0) + self._clock() - began
        self._cut = self._cut or option.cut
        if len(bundle) == 1:
            self._spared.note(bundle[0], self._budget, option)
        return option

    def _take(self, option: Option, *, shown: bool = False) -> bool:
        """Adds the option to the plan. True if its pods were placed in the snapshot, because verdicts on other pods depend on
        them, or with `shown`."""
        for group, count in counted(option.groups):
            self._budget.take(group, count)
        self._take_off(option.kinds, option.pods)
        shown = bool(self._runs) and (shown or bool(self._template_nodes.inter_pod_constraints.moving))
        first = self._new.open(option.groups.tolist(), system=self._policy.system, shown=shown)
        self._new.assign(option.pods, option.at, first)
        if shown:
            self._new.show(option.pods, self._kinds)
        return shown

    def _why_not(self) -> list[Unhelpable]:
        """The pods that are left, with the reasons. Pods with the same reasons are together, in the order of importance."""
        unreached = {id(run) for run in self._unreached}
        every = sorted((*self._runs.values(), *self._unreached), key=lambda run: int(run.pods[0]))
        left = dict.fromkeys(run.kind for run in every if run.kind not in self._refused)
        refused = {**self._refused, **self._search.of(left, self._steps.late)}
        by_reason: dict[object, tuple[Refusals | None, bool, list[Rows]]] = {}
        for run in every:
            why, cut = refused.get(run.kind), self._cut or id(run) in unreached
            by_reason.setdefault((id(why), cut), (why, cut, []))[2].append(run.pods)
        pods = self._demand.counted
        found = []
        for why, cut, some in by_reason.values():
            reasons = {group.name: self._why(at, why, cut) for at, group in enumerate(self._groups)}
            found.append(
                Unhelpable(
                    pods=tuple(pods[pod] for pod in np.sort(np.concatenate(some)).tolist()),
                    groups=reasons,
                    tried=why is not None,
                    cut=any(reason in _CUT.values() for reason in reasons.values()),
                )
            )
        return found

    def _why(self, at: int, refused: Refusals | None, cut: bool) -> GroupRefusal | SkipReason:
        skip_reason, refusal = self._skip_reasons[at], None if refused is None else refused.get(at)
        # A higher limit does not help a pod that no node of the group takes.
        if skip_reason is not None and (skip_reason.kind != "limit" or refusal is None):
            return skip_reason
        found = refusal or self._budget.skip_reason(at)
        if found is not None:
            return found
        if cut and self._steps.cut is not None:
            return _CUT[self._steps.cut]
        return _NOT_JUDGED if refused is None else _NOT_FOUND

    def result(self) -> ScaleUpPlan:
        return ScaleUpPlan(
            scale_ups=self._new.scale_ups(),
            schedulable=(*self._nominated, *((self._new.pods[pod], name) for pod, name in self._new.elsewhere.items())),
            unhelpable=tuple(self._unhelpable),
            passed_over=self._demand.passed_over,
            not_looked_at=self._demand.not_looked_at,
            again_at=self._demand.again_at,
            packed=self._packed(),
            steps=self._steps.used,
            cut_by=self._steps.cut,
        )

    def _packed(self) -> PackedNodes | None:
        found = [each.packing for each in self._packings]
        if not found:
            return None
        from slackwater.controllers.scaleup.packing.master import has_solver

        return PackedNodes(
            cost=sum(self._prices[group] for each in self._packings for group in each.option.groups.tolist()),
            bound=sum(each.bound for each in found) if all(each.bound for each in found) else 0,
            steps=sum(each.steps for each in found),
            cut=any(each.cut for each in found),
            solver=has_solver(),
        )

    _runs: dict[KindId, Run]  #: the pods that are left, by equivalence group
    _search: RefusalSearch
    _template_nodes: TemplateNodes
    _spared: SparedEstimates
    _budget: Budget
    _unhelpable: Sequence[Unhelpable] = ()


def _rank_of(group: NodeGroup, priorities: Priorities) -> int | None:
    """The group's priority: that of the ConfigMap, else its provider's."""
    rank = priorities.of(group.name)
    return group.options.priority if rank is None else rank
