"""The pods that have to move from each row, without looking at each pod in each plan.

For most rows the rules say of every pod that it moves, or that it goes with the node, and only budgets can change that. Of such
a row `RowMovers` notes (`snapshot.running_pods.NotedPods`) which pods move, and what the removal score reads of them. The note
is used until the pods change, so a plan of 5,000 nodes with 150,000 pods looks at a few pods of each node. Every other row has
no note: its pods are to be judged one by one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Final

from slackwater.fit.drainability import DrainabilityOutcome, RuleFacts, lasting_verdict
from slackwater.model.ids import NodeName, Row
from slackwater.model.objects import Labels, Node, Pod, created_at_of
from slackwater.snapshot.running_pods import NotedPods, RunningPod

#: A pod-deletion-cost of this amount counts one half.
_COST_SCALE: Final = 100.0
#: A namespace and labels: pods that have both in common have the same budgets.
WorkloadKey = tuple[str, Labels]


@dataclass(frozen=True, slots=True, kw_only=True)
class Movers:
    """Pods that move together, and what the removal score reads of them. `started`: when each started, in Unix time; infinite
    if that is not known. `restarts`: how many are not migrated. `workloads`: a pod of each namespace with each set of labels,
    which are the `keys`; `workload_of`: for each pod the position of its own. `costs`: the sum of what their
    pod-deletion-costs count."""

    pods: Sequence[RunningPod]
    started: Sequence[float]
    restarts: int
    keys: frozenset[WorkloadKey]
    workloads: Sequence[Pod]
    workload_of: Sequence[int]
    costs: float

    @classmethod
    def of(cls, pods: Sequence[RunningPod]) -> "Movers":
        known: dict[WorkloadKey, int] = {}
        workloads, workload_of, started = list[Pod](), list[int](), list[float]()
        for pod, _ in pods:
            at = known.setdefault((pod.key.namespace, pod.labels), len(known))
            if at == len(workloads):
                workloads.append(pod)
            workload_of.append(at)
            text = pod.started_at or pod.created_at
            started.append(created_at_of(text) if text else inf)
        return cls(
            pods=pods,
            started=started,
            restarts=sum(not pod.migratable for pod, _ in pods),
            keys=frozenset(known),
            workloads=workloads,
            workload_of=workload_of,
            costs=sum([_cost(pod) for pod, _ in pods if pod.eviction_facts.deletion_cost]),
        )


class RowMovers:
    """The movers of each row, in one plan."""

    def __init__(self, running_pods: NotedPods, nodes: Sequence[Node], facts: RuleFacts) -> None:
        """`nodes`: that of each row."""
        self._running_pods, self._nodes, self._facts = running_pods, nodes, facts
        #: The workloads whose budgets were asked, and those of them that may not move.
        self._asked, self._refused = set[WorkloadKey](), set[WorkloadKey]()
        self._notes: dict[NodeName, Movers | None] = running_pods.notes(("movers", facts.policy))

    def lasting(self, row: Row) -> Movers | None:
        """The row's pods that move if budgets allow it; the others go with the node, and none keeps it. None: each of its pods
        has to be judged."""
        name = self._nodes[row].name
        if name not in self._notes:
            self._notes[name] = self._noted(row)
        return self._notes[name]

    def free(self, row: Row) -> Movers | None:
        """As `lasting`; None as well if budgets may not allow one of them to move: as of when they were asked first, so before
        the plan removes anything."""
        found, disruptions = self.lasting(row), self._facts.disruptions
        if found is None or disruptions is None:
            return found
        if not found.keys <= self._asked:
            for pod in found.workloads:
                key = (pod.key.namespace, pod.labels)
                if key not in self._asked and not disruptions.allow_each([pod]):
                    self._refused.add(key)
                self._asked.add(key)
        return found if found.keys.isdisjoint(self._refused) else None

    def _noted(self, row: Row) -> Movers | None:
        movers: list[RunningPod] = []
        for running_pod in self._running_pods.on(row):
            verdict = lasting_verdict(running_pod.pod, self._facts)
            if verdict is None or verdict.outcome in (DrainabilityOutcome.BLOCK, DrainabilityOutcome.WAIT):
                return None
            if verdict.outcome is DrainabilityOutcome.MOVE:
                movers.append(running_pod)
        return Movers.of(movers)


def _cost(pod: Pod) -> float:
    cost = float(pod.eviction_facts.deletion_cost)
    return cost / (abs(cost) + _COST_SCALE)
