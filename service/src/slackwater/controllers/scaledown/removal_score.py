"""The removal score: what the removal of a node saves, divided by what it disrupts. Nodes of a higher score are removed first.

    score = saved / (1 + disruption_cost / 10)

`saved` is the node's size relative to the cluster's mean node: the mean of its shares of the mean node's CPU and memory; prices
do not count. `disruption_cost` is a sum over the pods that would move: 1 for the move; 1 if the pod restarts (a
virtual machine that migrates does not); up to 1 for its age (1 for a day or more: a pod that ran for long has warm caches);
1/(1+left), where `left` is the number of disruptions that its tightest budget allows; and up to 1 more or less for its
pod-deletion-cost. The scale of ten is a choice: a disruption cost of ten halves the score.
"""

from dataclasses import dataclass
from math import inf
from typing import Final

from slackwater.controllers.scaledown.planning_input import PlanningInput
from slackwater.controllers.scaledown.row_movers import Movers, RowMovers
from slackwater.fit.drainability import DrainabilityOutcome, RuleFacts, judge
from slackwater.model.ids import DAY_SECONDS, Row
from slackwater.model.objects import Pod
from slackwater.model.reasons import UnremovableReason
from slackwater.snapshot.node_facts import CPU, MEMORY
from slackwater.snapshot.running_pods import RunningPod

_POD_SCALE: Final = 10.0
_DISRUPTION_COST: Final = frozenset({DrainabilityOutcome.MOVE, DrainabilityOutcome.WAIT})


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
        self.movers = RowMovers(planning_input.running_pods, nodes.nodes, facts)
        self._mean: tuple[float, float] = (1.0, 1.0) if mean is None else (max(mean[0], 1.0), max(mean[1], 1.0))

    def weigh(self, row: Row) -> RemovalScore | tuple[Pod, UnremovableReason]:
        """The node's score; or, if a drainability rule keeps a pod on the node, the first such pod and the reason.

        Pods that would come from nodes that are emptied before do not count here: they count for their own node.
        """
        free = self.movers.free(row)
        if free is not None:
            return self.score(row, free)
        movers: list[RunningPod] = []
        for running_pod in self._planning_input.running_pods.on(row):
            verdict = judge(running_pod.pod, self._facts)
            if verdict.unremovable_reason is not None:
                return running_pod.pod, verdict.unremovable_reason
            if verdict.outcome in _DISRUPTION_COST:
                movers.append(running_pod)
        return self.score(row, Movers.of(movers))

    def score(self, row: Row, movers: Movers) -> RemovalScore:
        """The score of a node of which these pods would move."""
        now, started, day = self._facts.now, movers.started, DAY_SECONDS
        oldest, youngest = min(started, default=inf), max(started, default=-inf)
        slacks = self._slacks(movers)
        disruption_cost = (
            len(started)
            + movers.restarts
            + (float(len(started)) if now - youngest >= day else sum([min(max(now - at, 0.0) / day, 1.0) for at in started]))
            + sum([1.0 / (1.0 + max(slack, 0)) for slack in slacks])
            + movers.costs
        )
        cpu, memory = self._planning_input.snapshot.facts.allocatable[[CPU, MEMORY], row].tolist()
        return RemovalScore(
            saved=float((cpu / self._mean[0] + memory / self._mean[1]) / 2),
            disruption_cost=max(disruption_cost, 0.0),
            pods=len(started),
            restarts=movers.restarts,
            tight=sum([slack <= 1 for slack in slacks]),
            oldest_seconds=max(now - oldest, 0.0),
        )

    def _slacks(self, movers: Movers) -> list[int]:
        """For each pod with a budget, the number of disruptions that its tightest budget allows."""
        disruptions = self._facts.disruptions
        if disruptions is None:
            return []
        each = [disruptions.least(pod) for pod in movers.workloads]
        return [slack for at in movers.workload_of if (slack := each[at]) is not None]
