"""The autoscaler on virtual time, replacing nodes by cheaper ones: what must be so in the end, and what must never be."""

from dataclasses import replace

from slackwater.controllers.consolidation.loop import ConsolidationLoop
from slackwater.controllers.consolidation.policy import ConsolidationPolicy
from slackwater.controllers.history.policy import HistoryPolicy
from slackwater.controllers.history.state import History, evictions
from slackwater.controllers.scaledown.policy import ScaleDownPolicy
from slackwater.model.effects import Evict
from slackwater.model.history import HistoryAction, HistoryEntry
from slackwater.model.ids import NodeName
from slackwater.model.prices import PriceBook
from tests.support import installed
from tests.support.cloud import Pool
from tests.support.removing import machine
from tests.support.scaling import a_consolidation_loop
from tests.support.shrinking import ShrinkScene, Workload

EAGER = replace(installed.CONSOLIDATION, enabled=True, min_node_age=120.0, interval=30.0, planned_time=30.0)


class ConsolidationScene(ShrinkScene):
    """Machines cost what the formula says of them. `rules`: those of consolidation.

    `lives`: how many seconds each node that is gone was there. `moved_twice`: pods that were made in place of an evicted one,
    and evicted in turn."""

    def __init__(self, *, scale_down: ScaleDownPolicy | None = None, rules: ConsolidationPolicy = EAGER) -> None:
        self.lives: dict[NodeName, float] = {}
        self.moved_twice: list[str] = []
        self.history = History(HistoryPolicy())
        self._came: dict[NodeName, float] = {}
        self._successors: set[str] = set()
        super().__init__(scale_down=scale_down)
        self.shrink_policy = replace(self.shrink_policy, only_empty=True)
        self.consolidation = rules
        self.policy = replace(self.policy, prices=PriceBook())

    def machines(self, name: str, cpu: int, *, size: int = 0, max_size: int = 100) -> Pool:
        """A group of so many nodes with so many CPUs each."""
        template = machine(f"template-of-{name}", str(cpu), labels={"size": name})
        return self.cloud.has(name, size=size, max_size=max_size, template=template)

    def demand(self, count: int, cpu: str) -> None:
        """From now on there are so many pods of this size, and none of another."""
        for name in sorted({*self.workloads, f"of-{cpu}"}):
            self.workloads.setdefault(name, Workload(name))
            own = [pod for pod in self.pods.values() if dict(pod.labels).get("app") == name and not pod.deleting]
            wanted = count if name == f"of-{cpu}" else 0
            self.finishes(pod.uid for pod in own[wanted:])
            for _ in range(wanted - len(own)):
                self._make(name, cpu, None)

    # --- what happens -----------------------------------------------------------------------------------------------------

    def pod_name(self, workload: Workload) -> str:
        return f"{workload.name}-{workload.made:05}"

    def consolidation_loop(self) -> ConsolidationLoop:
        """Each process knows what the history has when it begins."""
        known = evictions(self.history)
        self.consolidating = a_consolidation_loop(self.state_machine, lambda: self.consolidation, self.time, lambda: known)
        return self.consolidating

    def _evict(self, effect: Evict) -> None:
        before, pod = self.watched.evicted, self.pods.get(effect.uid)
        super()._evict(effect)
        if pod is None or self.watched.evicted == before:
            return
        at_ms = round(self.time.wall() * 1000)
        self.history.add(HistoryEntry(at_ms=at_ms, action=HistoryAction.EVICTED, pod=str(pod.key), uid=pod.uid))
        if pod.key.name in self._successors:
            self.moved_twice.append(pod.key.name)

    def _end_pods(self) -> None:
        before = {pod.key.name for pod in self.pods.values()}
        super()._end_pods()
        self._successors |= {pod.key.name for pod in self.pods.values()} - before

    def _watch(self) -> None:
        super()._watch()
        for name in self._shown:
            self._came.setdefault(name, self.time.seconds)
        for name in [name for name in self._came if name not in self._shown and name not in self.lives]:
            self.lives[name] = self.time.seconds - self._came[name]

    # --- what is seen -----------------------------------------------------------------------------------------------------

    def shown_nodes(self) -> list[NodeName]:
        return list(self._shown)

    def outcomes(self) -> list[str]:
        """How the moves ended, in order."""
        records = (each.consolidation for each in self.records if each.consolidation is not None)
        return [move.end.outcome for record in records for move in record.ended if move.end is not None]

    def left_behind(self) -> list[str]:
        """Nodes that are cordoned or tainted, though no removal runs."""
        running = self.state_machine.drains.nodes
        return sorted(
            node.name
            for node in self._shown.values()
            if node.name not in running and (node.unschedulable or any(t.effect == "NoSchedule" for t in node.taints))
        )

    def empty_nodes(self) -> list[NodeName]:
        """Machines without a pod."""
        used = {pod.node for pod in self.pods.values()}
        return sorted(name for name in self._shown if name not in used)

    def moves(self) -> int:
        """The moves that run."""
        record = self.records[-1].consolidation
        return 0 if record is None else len(record.running)
