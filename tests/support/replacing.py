"""The autoscaler on virtual time, replacing nodes by cheaper ones: what it costs, and what must be so in the end."""

from dataclasses import replace

from slackwater.controllers.consolidation.policy import ConsolidationPolicy
from slackwater.controllers.scaledown.policy import ScaleDownPolicy
from slackwater.model.ids import NodeName
from slackwater.model.prices import PriceBook
from tests.support import installed
from tests.support.cloud import Pool
from tests.support.removing import machine
from tests.support.shrinking import ShrinkScene

EAGER = replace(installed.CONSOLIDATION, enabled=True, min_node_age=120.0, interval=30.0, pod_rest=86_400.0)


class ConsolidationScene(ShrinkScene):
    """Machines cost what the formula says of their CPUs. `rules`: those of consolidation."""

    def __init__(self, *, scale_down: ScaleDownPolicy | None = None, rules: ConsolidationPolicy = EAGER) -> None:
        super().__init__(scale_down=scale_down)
        self.consolidation = rules
        self.policy = replace(self.policy, prices=PriceBook())

    def machines(self, name: str, cpu: int, *, size: int = 0, max_size: int = 100) -> Pool:
        """A group of so many nodes with so many CPUs each."""
        template = machine(f"template-of-{name}", str(cpu), labels={"size": name})
        return self.cloud.has(name, size=size, max_size=max_size, template=template)

    def shown_nodes(self) -> list[NodeName]:
        return list(self._shown)

    def cpus(self) -> int:
        """The CPUs of all machines that exist or were asked for."""
        sizes = self.sizes()
        return sum(self.cloud.pool(name).template.allocatable.cpu // 1000 * count for name, count in sizes.items())

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
