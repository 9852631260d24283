"""Which nodes and pods changed since somebody last asked: noted as it happens, collected for planners.

While nobody watches nothing is noted. Noting costs an entry in a set; collecting costs what changed, however large the
cluster, and may be done a part at a time. Deliberately absent: what planners make of it.
"""

from dataclasses import replace
from itertools import islice
from typing import TypeVar

from slackwater.model.changes import Changes, NodeChange, PodChange
from slackwater.model.ids import NodeName, PodUid
from slackwater.model.kinds import Kind
from slackwater.model.objects import Node, Pod
from slackwater.model.resources import NOTHING, Amounts
from slackwater.model.surroundings import Surroundings
from slackwater.world.world import World

T = TypeVar("T", PodUid, NodeName)


class ChangeCollector:
    """Watches one world for one reader, from its making on."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._pods: set[PodUid] = {pod.uid for pod in world.pods}
        self._nodes: set[NodeName] = set(world.nodes.row_of)
        self._budgets_version = -1
        world.pods.changed = world.claims.changed = self._pods
        world.nodes.changed = self._nodes

    def __len__(self) -> int:
        """How many objects are to be collected."""
        return len(self._pods) + len(self._nodes)

    def some(self, most: int) -> tuple[list[NodeChange], list[PodChange]]:
        """Up to `most` of what changed, as it is now. What changes again later is collected again."""
        nodes = [NodeChange(name, self._node(name)) for name in _taken(self._nodes, most)]
        pods = [PodChange(uid, self._pod(uid)) for uid in _taken(self._pods, most - len(nodes))]
        return nodes, pods

    def rest(self, before: tuple[list[NodeChange], list[PodChange]] = ([], []), around: Surroundings | None = None) -> Changes:
        """All that is left, after what `some` gave `before`: together one consistent state of the world."""
        nodes, pods = self.some(len(self))
        around = around or Surroundings()
        budgets = None
        if self._budgets_version != self._world.budgets.version:
            self._budgets_version = self._world.budgets.version
            budgets = tuple(self._world.budgets)
        return Changes(
            generation=self._world.generation,
            nodes=(*before[0], *nodes),
            pods=(*before[1], *pods),
            promised=frozenset(self._world.preemptions.gated_pods()),
            budgets=budgets,
            namespaces=around.namespaces,
            storage=around.storage,
        )

    def _node(self, name: NodeName) -> Node | None:
        row = self._world.nodes.row_of.get(name)
        node = None if row is None else self._world.nodes.by_row[row]
        system = self._world.policy.nodes.system
        if node is None or system == NOTHING:
            return node
        return replace(node, allocatable=node.allocatable.minus(system).not_below_zero())

    def _pod(self, uid: PodUid) -> Pod | None:
        pod = self._world.pods.known(uid)
        if pod is None or pod.ended:
            return None
        claim = self._world.claims.get(uid)
        if claim is None:
            return pod if pod.vertical is None else _taking(pod, pod.need)
        if claim.node != pod.node:
            pod = replace(pod, node=claim.node)
        return _taking(pod, claim.account.reserved)


def _taking(pod: Pod, amounts: Amounts) -> Pod:
    kind = pod.kind
    return pod if amounts.within(kind.requests) else replace(pod, kind=_larger(kind, amounts))


def _larger(kind: Kind, amounts: Amounts) -> Kind:
    return replace(kind, requests=kind.requests.at_least(amounts))


def _taken(noted: set[T], most: int) -> list[T]:
    """Sorted, so that the same changes are given in the same order on every run."""
    found = list(noted) if len(noted) <= most else list(islice(noted, most))
    noted.difference_update(found)
    return sorted(found)
