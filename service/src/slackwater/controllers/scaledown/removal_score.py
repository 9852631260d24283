"""The removal score: what the removal of a node saves, divided by what it disrupts. Nodes of a higher score are removed first.

    score = saved / (1 + disruption_cost / 10)

`saved` is the node's size relative to the cluster's mean node: the mean of its shares of the mean node's CPU and memory; prices
do not count. `disruption_cost` is a sum over the pods that would move: 1 for the move; 1 if the pod restarts (a
virtual machine that migrates does not); up to 1 for its age (1 for a day or more: a pod that ran for long has warm caches);
1/(1+left), where `left` is the number of disruptions that its tightest budget allows; and up to 1 more or less for its
pod-deletion-cost. The scale of ten is a choice: a disruption cost of ten halves the score.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from slackwater.controllers.scaledown.planning_input import PlanningInput
from slackwater.fit.drainability import DrainabilityOutcome, RuleFacts, judge
from slackwater.model.ids import Row
from slackwater.model.objects import Pod, created_at_of
from slackwater.model.reasons import UnremovableReason
from slackwater.snapshot.node_facts import CPU, MEMORY

_POD_SCALE: Final = 10.0
_DISRUPTION_COST: Final = frozenset({DrainabilityOutcome.MOVE, DrainabilityOutcome.WAIT})
_DAY: Final = 86_400.0
#: A pod-deletion-cost of this amount counts one half.
_COST_SCALE: Final = 100.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovalScore:
    """The parts of one node's score; the module's docstring has the formula. `saved`: in mean nodes. `pods`: the pods that
    would move. `restarts`: those of them that would restart. `tight`: those whose budget allows at most one disruption.
    """

    saved: float
    disruption_cost: float
    pods: int
    restarts: int
    tight: int
    oldest_seconds: float

    @property
    def score(self) -> float:
        return self.saved / (1.0 + self.disruption_cost / _POD_SCALE)

    def words(self) -> str:
        """The score as a text for people."""
        return (
            f"saves {self.saved:.2f} nodes, disruption cost {self.disruption_cost:.1f}: {self.pods} pods move, "
            f"{self.restarts} restart, "
            f"{self.tight} with a tight budget, the oldest {self.oldest_seconds / 3600:.1f} h old; score {self.score:.3f}"
        )


class RemovalScorer:
    """Computes removal scores for the nodes of one planning input."""

    def __init__(self, planning_input: PlanningInput, facts: RuleFacts) -> None:
        nodes = planning_input.snapshot.facts
        live = nodes.live[: nodes.n_rows]
        mean = nodes.allocatable[[CPU, MEMORY], : nodes.n_rows][:, live].mean(axis=1) if live.any() else None
        self._planning_input = planning_input
        self._facts = facts
        self._mean: tuple[float, float] = (1.0, 1.0) if mean is None else (max(mean[0], 1.0), max(mean[1], 1.0))

    def weigh(self, row: Row) -> RemovalScore | tuple[Pod, UnremovableReason]:
        """The node's score; or, if a drainability rule keeps a pod on the node, the first such pod and the reason.

        Pods that would come from nodes that are emptied before do not count here: they count for their own node.
        """
        movers: list[Pod] = []
        facts = self._facts
        for pod, _ in self._planning_input.running_pods.on(row):
            verdict = judge(pod, facts)
            if verdict.unremovable_reason is not None:
                return pod, verdict.unremovable_reason
            if verdict.outcome in _DISRUPTION_COST:
                movers.append(pod)
        return self.score_of(row, movers)

    def score_of(self, row: Row, movers: Sequence[Pod]) -> RemovalScore:
        """The score of a node of which these pods would move."""
        facts = self._facts
        times = (pod.started_at or pod.created_at for pod in movers)
        ages = [max(facts.now - created_at_of(text), 0.0) if text else 0.0 for text in times]
        slacks: list[int] = []
        if (disruptions := facts.disruptions) is not None:
            # For each pod with a budget, the number of disruptions that its tightest budget allows.
            budgets_of = (disruptions.of(pod) for pod in movers)
            slacks = [min(disruptions.left(*budget) for budget in budgets) for budgets in budgets_of if budgets]
        restarts = sum(not pod.migratable for pod in movers)
        disruption_cost = (
            len(movers)
            + restarts
            + sum([min(age / _DAY, 1.0) for age in ages])
            + sum([1.0 / (1.0 + max(slack, 0)) for slack in slacks])
            + sum([_cost(pod) for pod in movers if pod.eviction_facts.deletion_cost])
        )
        cpu, memory = self._planning_input.snapshot.facts.allocatable[[CPU, MEMORY], row].tolist()
        return RemovalScore(
            saved=float((cpu / self._mean[0] + memory / self._mean[1]) / 2),
            disruption_cost=max(disruption_cost, 0.0),
            pods=len(movers),
            restarts=restarts,
            tight=sum(slack <= 1 for slack in slacks),
            oldest_seconds=max(ages, default=0.0),
        )


def _cost(pod: Pod) -> float:
    cost = float(pod.eviction_facts.deletion_cost)
    return cost / (abs(cost) + _COST_SCALE)
