"""Takes the best option, again and again, until no option helps any pod that is left.

For every bundle of similar groups an estimate finds how many new nodes the pods need, and which pods these nodes take. The
result is an option; the expanders choose one (`option_queue`), and the rest of the pods is estimated again.
"""

from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import numpy as np

from slackwater.controllers.scaleup.added_nodes import AddedNodes
from slackwater.controllers.scaleup.estimate import Option, Run, estimate
from slackwater.controllers.scaleup.expanders import Merit, Priorities, chain_of, largest_of, weights_of
from slackwater.controllers.scaleup.groups import Budget, GrowableGroup, SkipReason, counted, similar_groups
from slackwater.controllers.scaleup.option_effects import OptionEffects
from slackwater.controllers.scaleup.option_queue import OptionQueue, SparedEstimates
from slackwater.controllers.scaleup.pending import Demand, place_existing
from slackwater.controllers.scaleup.policy import ScaleUpPolicy
from slackwater.controllers.scaleup.template_nodes import TemplateNodes
from slackwater.fit.steps import PlanSteps
from slackwater.model.columns import Int64, Mask, Rows
from slackwater.model.nodegroups import NodeGroup
from slackwater.model.prices import FORMULA
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.equivalence_groups import KindId

#: By price, once this part of the steps is used, an option is estimated again only when its turn comes: pods that spread beside
#: packed nodes may need so many rounds that the limit would cut the plan (docs/adr/0270).
_TENTH: Final = 10


@dataclass(slots=True, kw_only=True)
class OptionChoice:
    """What is left of the demand, and what takes it. `kinds`: the equivalence group of each pod of the demand. `left`: whether
    it has no node yet, shape (pods,). `runs`: the pods that are left, by equivalence group. `skip_reasons`: why a group does
    not grow; None: it may. `together`: an option has all pods that need one another on one node, or none. `cut`: a part of
    the search was cut off."""

    snapshot: ClusterSnapshot
    demand: Demand
    groups: Sequence[GrowableGroup]
    policy: ScaleUpPolicy
    clock: Callable[[], float]
    steps: PlanSteps
    budget: Budget
    new: AddedNodes
    kinds: Rows
    left: Mask
    runs: dict[KindId, Run]
    template_nodes: TemplateNodes
    skip_reasons: list[SkipReason | None]
    prices: Sequence[int]
    spared: SparedEstimates = field(init=False)
    by_price: bool = field(init=False)
    ranks: list[int | None] = field(init=False)
    priorities: Int64 = field(init=False)
    together: bool = True
    cut: bool = False
    #: Seconds spent on estimates of each bundle so far.
    spent: dict[tuple[int, ...], float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.spared = SparedEstimates(self.template_nodes)
        self.priorities = np.fromiter((pod.priority for pod in self.demand.counted), np.int64, len(self.demand.counted))
        ranked, self.by_price = "priority" in self.policy.expanders, "price" in self.policy.expanders
        self.ranks = [_rank_of(group.provided, self.policy.priorities) if ranked else None for group in self.groups]

    def is_over(self) -> bool:
        """Has a limit ended the plan?"""
        over = self.steps.over()
        self.cut = self.cut or over
        return over

    def choose(self) -> None:
        """Takes options for all pods that are left."""
        if self.is_over():
            return
        policy = self.policy
        nodes = [group.template.node for group in self.groups if group.template is not None]
        merit = chain_of(
            policy.expanders,
            seed=policy.seed,
            priority_of={group.name: rank for group, rank in zip(self.groups, self.ranks, strict=True)}.get,
            weights=weights_of(nodes),
            largest=largest_of(nodes),
            prices=self.prices,
            formula=self.policy.prices.formula if self.policy.prices is not None else FORMULA,
        )
        bundles = similar_groups(
            self.groups,
            self.template_nodes.empty,
            [at for at, skip_reason in enumerate(self.skip_reasons) if skip_reason is None],
            ranks=self.ranks,
            balance=policy.balance_similar_groups,
            ignored_labels=policy.balancing_ignored_labels,
        )
        moving = self.template_nodes.inter_pod_constraints.moving
        queue = OptionQueue(
            bundles,
            self.budget,
            estimate=self._estimated,
            merit=merit,
            bound=partial(self._bound, merit),
            affected=OptionEffects(self.template_nodes, bundles).of if moving else None,
            hurried=lambda: self.by_price and self.steps.past(_TENTH),
        )
        while (option := queue.best_known() if self.is_over() else queue.best()) is not None:
            shown = self.take(option)
            if not self.runs or self.is_over():
                return
            queue.took(option, shown=shown)

    def choose_for(self, kinds: Set[KindId]) -> None:
        """Takes options for the pods of these equivalence groups alone."""
        every = self.runs
        self.runs = {kind: run for kind, run in every.items() if kind in kinds}
        self.choose()
        self.runs = {**{kind: run for kind, run in every.items() if kind not in kinds}, **self.runs}

    def _runs_for(self, bundle: tuple[int, ...]) -> list[Run]:
        return [self.runs[kind] for kind in self.template_nodes.kinds_that_fit(bundle) if kind in self.runs]

    def _bound(self, merit: Callable[[Option], Merit], bundle: tuple[int, ...]) -> Merit | None:
        if not self.template_nodes.inter_pod_constraints.moving:
            return None
        runs = self._runs_for(bundle)
        option = self.spared.cheapest(bundle, runs, self.prices) if self.by_price else self.spared.optimistic(bundle, runs)
        return None if option is None else merit(option)

    def _estimated(self, bundle: tuple[int, ...]) -> Option:
        known = self.spared.known(bundle[0], self.budget) if len(bundle) == 1 else None
        if known is not None:
            return known
        began = self.clock()
        limited = bool(self.policy.max_planning_time)
        left = self.policy.max_planning_time - self.spent.get(bundle, 0.0)
        option = estimate(
            self.template_nodes,
            self.budget,
            bundle,
            self._runs_for(bundle),
            priorities=self.priorities,
            together=self.together,
            stop=lambda: self.is_over() or (limited and self.clock() - began >= left and self.steps.late(True)),
        )
        self.spent[bundle] = self.spent.get(bundle, 0.0) + self.clock() - began
        self.cut = self.cut or option.cut
        if len(bundle) == 1:
            self.spared.note(bundle[0], self.budget, option)
        return option

    def take(self, option: Option, *, shown: bool = False) -> bool:
        """Adds the option to the plan. True if its pods were placed in the snapshot, because verdicts on other pods depend on
        them, or with `shown`."""
        for group, count in counted(option.groups):
            self.budget.take(group, count)
        self._take_off(option.kinds, option.pods)
        shown = bool(self.runs) and (shown or bool(self.template_nodes.inter_pod_constraints.moving))
        first = self.new.open(option.groups.tolist(), system=self.policy.system, shown=shown)
        self.new.assign(option.pods, option.at, first)
        if shown:
            self.new.show(option.pods, self.kinds)
        return shown

    def place_present(self, kinds: Sequence[KindId]) -> None:
        """Places pods of these equivalence groups that are left on present nodes, and on those that the plan has added."""
        pods = self.demand.undisputed(np.sort(np.concatenate([self.runs[kind].pods for kind in kinds])))
        some = [self.demand.counted[pod] for pod in pods.tolist()]
        rows = place_existing(self.snapshot, some, self.kinds[pods], hints={}, stop=self.is_over, together=self.together)
        placed = rows >= 0
        self.new.assign(pods[placed], ~rows[placed])
        self._take_off(kinds, pods[placed])

    def _take_off(self, kinds: Iterable[KindId], pods: Rows) -> None:
        """Takes placed pods of these equivalence groups off the pods that are left."""
        self.spared.forget()
        self.left[pods] = False
        for kind in kinds:
            run = self.runs.pop(kind).pods
            left = run[self.left[run]]
            if len(left):
                self.runs[kind] = Run(kind=kind, pods=left)


def _rank_of(group: NodeGroup, priorities: Priorities) -> int | None:
    """The group's priority: that of the ConfigMap, else its provider's."""
    rank = priorities.of(group.name)
    return group.options.priority if rank is None else rank
