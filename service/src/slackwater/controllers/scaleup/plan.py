"""Plans a scale-up. In: a snapshot, the demand and the node groups. Out: which groups grow by how many nodes, for which pods.

    demand = pending_demand(pods, rules=policy.pending, now=now)
    with snapshot.fork():
        plan = plan_scale_up(snapshot, demand, groups, policy=policy, clock=clock)

1. Groups below their minimum get their missing nodes. Pods that fit on existing or upcoming nodes are placed there.
2. For every bundle of similar groups an estimate finds how many new nodes the other pods need, and which pods these nodes take
   (`estimate`). The result is an option.
3. The expanders choose one option for the plan. Steps 2 and 3 are repeated for the remaining pods, until no option takes any
   (`option_choice`). So the whole demand is planned at once, and no pod counts twice.
4. For the pods that are left, the plan says why no group helps (`unhelpable`), as far as a bound allows (`RefusalSearch`). For
   pods that no new node can ever take, this is found before step 2, whatever the limits.

The limits count steps (`fit.steps`). Step 1 takes at most half of them. Pods that they cut off come first in the next plan.

Pods and upcoming nodes that were added to the snapshot stay in it after step 1, so the caller should have forked the snapshot.
What steps 2 to 4 add is removed. Deliberately absent: the clock (an argument), nodes in creation, any call to the outside.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from slackwater.controllers.scaleup.added_nodes import AddedNodes
from slackwater.controllers.scaleup.estimate import Run
from slackwater.controllers.scaleup.expanders import packs
from slackwater.controllers.scaleup.groups import Budget, GrowableGroup, SkipReason, add_nodes, upcoming_name
from slackwater.controllers.scaleup.inter_pod_constraints import representatives
from slackwater.controllers.scaleup.option_choice import OptionChoice
from slackwater.controllers.scaleup.outcome import PackedNodes, ScaleUpPlan, Unhelpable
from slackwater.controllers.scaleup.pending import UNREACHED, Demand, place_existing, place_nominated
from slackwater.controllers.scaleup.policy import ScaleUpPolicy
from slackwater.controllers.scaleup.remaining import Remaining
from slackwater.controllers.scaleup.template_nodes import RefusalSearch, TemplateNodes
from slackwater.controllers.scaleup.unhelpable import by_importance, unhelpable
from slackwater.fit.binpacking import begins_together, runs
from slackwater.fit.failure import PlanningFailed, concerning
from slackwater.fit.feasible_nodes import feasible
from slackwater.fit.steps import PlanSteps
from slackwater.model.columns import Rows
from slackwater.model.ids import NodeName, PodUid
from slackwater.model.nodegroups import Membership
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.equivalence_groups import KindId

if TYPE_CHECKING:  # plans without the expander `price` need nothing of it
    from slackwater.controllers.scaleup.packing.option import PackedOption


_NO_HINTS: Final[Mapping[PodUid, NodeName]] = {}
_NO_TEMPLATE: Final = SkipReason(kind="no-template", text="nobody knows what a node of the group looks like")
_REFUSED: Final = SkipReason(kind="not-ready", text="kube-scheduler refuses the pods on the group's nodes")
#: Placing pods on present nodes takes at most this part of the steps, so that some are left for those that fit nowhere.
_HALF: Final = 2


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
        self._kinds = representatives(snapshot, snapshot.number(demand.counted))
        self._left = np.ones(len(demand.counted), np.bool_)
        self._skip_reasons = [group.skip_reason or (_NO_TEMPLATE if group.template is None else None) for group in self._groups]
        self._prices = [group.price_micros for group in self._groups]
        self._packings: list[PackedOption] = []
        self._new = AddedNodes(snapshot=snapshot, groups=self._groups, pods=demand.counted)
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
        asking = self._demand.undisputed(np.arange(len(counted)))
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
        unreached = self._runs_of(asking[rows == UNREACHED])
        tried = self._left.copy()
        tried[asking[rows == UNREACHED]] = False
        tried_runs = {run.kind: run for run in self._runs_of(np.flatnonzero(tried))}
        with self._snapshot.fork():
            kinds = list(dict.fromkeys(run.kind for run in by_importance(tried_runs.values(), unreached)))
            template_nodes = TemplateNodes(self._snapshot, self._groups, kinds, system=self._policy.system)
            search = RefusalSearch(template_nodes)
            refused = search.of(filter(template_nodes.refused_for_good, kinds))
            options = OptionChoice(
                snapshot=self._snapshot,
                demand=self._demand,
                groups=self._groups,
                policy=self._policy,
                clock=self._clock,
                steps=self._steps,
                budget=self._budget,
                new=self._new,
                kinds=self._kinds,
                left=self._left,
                runs=tried_runs,
                template_nodes=template_nodes,
                skip_reasons=self._skip_reasons,
                prices=self._prices,
            )
            self._disputed_first(options)
            self._cut_first(options)
            if packs(self._policy.expanders) and options.runs:
                self._pack(options)
            options.choose()
            if self._place_apart(options):
                options.choose()
            left = (run.kind for run in by_importance(options.runs.values(), unreached) if run.kind not in refused)
            refused = {**refused, **search.of(dict.fromkeys(left), self._steps.late)}
            self._unhelpable = unhelpable(options, unreached, refused)

    def _runs_of(self, pods: Rows) -> list[Run]:
        by_kind = runs(self._kinds, pods[np.argsort(self._kinds[pods], kind="stable")])  # within a group they stay in order
        return [Run(kind=kind, pods=some) for kind, some in by_kind]

    def _disputed_first(self, options: OptionChoice) -> None:
        """Takes options for disputed pods without the groups that have a node on which these pods fit, since kube-scheduler
        refuses such a node. Where no other group helps, pods are left, and all groups are tried for them."""
        snapshot, disputed = self._snapshot, self._demand.disputed
        known = options.skip_reasons
        left = np.flatnonzero(options.left).tolist() if disputed else []
        asking = [pod for pod in left if self._demand.counted[pod].uid in disputed]
        if not asking:
            return
        kinds = {KindId(kind) for kind in self._kinds[asking].tolist()}
        rows = {row for kind in kinds for row in feasible(snapshot, kind).rows.tolist()}
        membership = Membership(group.provided for group in self._groups)
        having = {membership.group_of(snapshot.facts.nodes[row]) for row in rows}
        options.skip_reasons = [
            reason or (_REFUSED if group.owner in having else None) for reason, group in zip(known, self._groups, strict=True)
        ]
        options.choose_for(kinds)
        options.skip_reasons = known

    def _cut_first(self, options: OptionChoice) -> None:
        """Takes options for the pods that a limit cut off the last plans, those of the most plans first."""
        by_plans: dict[int, set[KindId]] = {}
        for pod in np.flatnonzero(options.left).tolist() if self._demand.cut_off else ():
            plans = self._demand.cut_off.get(self._demand.counted[pod].uid, 0)
            by_plans.setdefault(plans, set()).add(KindId(int(self._kinds[pod])))
        for plans in sorted(by_plans.keys() - {0}, reverse=True):
            options.choose_for(by_plans[plans])

    def _pack(self, options: OptionChoice) -> None:
        """Packs the whole demand at the lowest price, the groups of the highest priority first; then places pods that this
        cannot express in what is left of the nodes. Where limits leave out pods of several priorities, nothing is packed: the
        estimates serve the more important ones first."""
        from slackwater.controllers.scaleup.packing.option import packed_option

        for groups in self._by_rank(options):
            found = packed_option(
                options.template_nodes,
                options.spared,
                self._budget,
                among=groups,
                runs=by_importance(options.runs.values()),
                prices=self._prices,
                stop=options.is_over,
            )
            if found is None or (found.left_out and len(np.unique(options.priorities)) > 1):
                continue
            self._packings.append(found)
            options.take(found.option, shown=True)
        if self._packings and options.runs:
            options.place_present(list(options.runs))

    def _by_rank(self, options: OptionChoice) -> list[list[int]]:
        """The groups that may grow, those of one priority together, the highest first."""
        ranks: dict[int | None, list[int]] = {}
        for at, rank in enumerate(options.ranks):
            if options.skip_reasons[at] is None:
                ranks.setdefault(rank, []).append(at)
        return [ranks[rank] for rank in sorted(ranks, key=lambda rank: (rank is None, -(rank or 0)))]

    def _place_apart(self, options: OptionChoice) -> bool:
        """If pods are left that need one another on one node, and no node takes all of them: places as many as possible on
        present nodes. Returns whether there are such pods. From now on options have as many of them as possible too."""
        snapshot = self._snapshot
        kinds = [kind for kind in options.runs if begins_together(snapshot, snapshot.of(kind))]
        if not kinds or options.is_over():
            return False
        options.together = False
        options.place_present(kinds)
        return True

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

    _budget: Budget
    _unhelpable: Sequence[Unhelpable] = ()
