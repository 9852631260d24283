"""A cluster of pools with taints, each nearly full, with pending workloads under a spread or anti-affinity of their own.

Some workloads tolerate no pool's taint, some request more than a node has, some fit present nodes."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from msgspec import structs

from slackwater.controllers.scaleup.groups import GrowableGroup
from slackwater.model.objects import Node, Pod, Taint
from slackwater.model.pod_constraints import Kind, PodConstraints, PodTerm, SpreadConstraint, Toleration
from slackwater.model.selectors import Requirement
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.node_facts import HOSTNAME
from tests.support.builders import a_pod, amounts
from tests.support.scalingup import a_group, a_template


class Pools:
    """`pools` pools of `each` nodes in three zones, and `workloads` workloads of `pods` pods."""

    def __init__(self, pools: int = 4, each: int = 6, workloads: int = 16, pods: int = 5) -> None:
        random = Random(3)
        self.pods = [self._pod(random, at, number, pools) for at in range(workloads) for number in range(pods)]
        self.nodes = [self._node(f"n{pool}-{at}", pool, at % 3) for pool in range(pools) for at in range(each)]
        self.running = [
            a_pod(f"r{node.name}", on=node.name, cpu="7500m" if number % each else "4")
            for number, node in enumerate(self.nodes)
        ]
        self.groups = [a_group(f"g{pool}-{zone}", self._node("new", pool, zone)) for pool in range(pools) for zone in range(3)]

    def _node(self, name: str, pool: int, zone: int) -> Node:
        node = a_template(name, cpu="8", memory="64Gi", labels={"zone": f"z{zone}"})
        return structs.replace(node, taints=(Taint("team", f"t{pool}", "NoSchedule"),))

    def _pod(self, random: Random, at: int, number: int, pools: int) -> Pod:
        own = (Requirement("app", "In", (f"a{at}",)),)
        spread = (SpreadConstraint(hard=True, max_skew=1, topology_key="zone", selector=own),)
        apart = (PodTerm(topology_key=HOSTNAME, selector=own, namespaces=("default",)),)
        asks = PodConstraints(spread=spread if at % 3 == 1 else (), anti_affinity=apart if at % 3 == 2 else ())
        kind = Kind(
            namespace="default",
            requests=amounts(random.choice(("500m", "1500m", "3")) if at % 5 else "12", "1Gi"),
            tolerations=(Toleration("team", "Equal", f"t{at % pools if at % 7 else 99}", ""),),
            pod_constraints=asks,
        )
        pod = a_pod(f"p{at:03}-{number}", labels={"app": f"a{at}"})
        return structs.replace(pod, kind=kind)

    def snapshot(self) -> ClusterSnapshot:
        return ClusterSnapshot.build(self.nodes, [*self.running, *self.pods])

    def grown(self, upcoming: Sequence[int]) -> list[GrowableGroup]:
        """The groups, so many nodes of which have been ordered."""
        return [
            replace(group, upcoming=count, group=replace(group.group, target=count))
            for group, count in zip(self.groups, upcoming, strict=True)
        ]
