"""Collects which nodes and pods of the cluster state changed since the last collection, for planners.

Several collectors may read one state machine, independently. The journals note each change as one set entry for each collector.
Collecting takes time in proportion to the changes, not to the cluster, and may be done in parts. Deliberately absent: applying
the changes (`snapshot.snapshot_replica`).

Invariant: whoever applies every change that was returned has the state as of the last collection. Each table notes its own
changes; so code that changes what a snapshot reads of a pod or node (`_pod`, `_node`) without its table's journal breaks this,
and the replica keeps the old value until that object changes again.
"""

from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING

from msgspec import structs

from slackwater.cluster.holds import HoldKey
from slackwater.cluster.reservations import as_counted
from slackwater.model.auxiliary import AuxiliaryObjects
from slackwater.model.changes import Changes, NodeChange, PodChange
from slackwater.model.ids import NodeName, PodUid
from slackwater.model.resources import NOTHING

if TYPE_CHECKING:  # commands that read a file import this module, but not these
    from slackwater.runtime.state_machine import StateMachine


class ChangeCollector:
    """Collects the changes of one state machine for one reader, from construction until `stop`."""

    def __init__(self, state_machine: "StateMachine") -> None:
        self._state_machine = state_machine
        self._pods: set[PodUid] = set()
        self._nodes: set[NodeName] = set()
        #: Pods moved out of `_pods` and not returned yet. A pod that changes again is added to `_pods` again.
        self._old_pods: list[PodUid] = []
        self._budgets_version = -1
        self.reset()
        state_machine.state.pods.journal.add_reader(self._pods)
        state_machine.state.reservations.journal.add_reader(self._pods)
        state_machine.state.nodes.journal.add_reader(self._nodes)

    def stop(self) -> None:
        """Ends the collection: the journals no longer note changes for this collector."""
        state_machine, pods, nodes = self._state_machine, self._pods, self._nodes
        state_machine.state.pods.journal.remove_reader(pods)
        state_machine.state.reservations.journal.remove_reader(pods)
        state_machine.state.nodes.journal.remove_reader(nodes)

    def reset(self) -> None:
        """Makes everything due for collection again, because the reader may not have applied what it got last."""
        self._pods.update(pod.uid for pod in self._state_machine.state.pods)
        self._nodes.update(self._state_machine.state.nodes.row_of)
        self._budgets_version = -1

    def __len__(self) -> int:
        """The number of objects to collect; some may be counted twice."""
        return len(self._pods) + len(self._old_pods) + len(self._nodes)

    def some(self, most: int) -> tuple[list[NodeChange], list[PodChange]]:
        """Up to `most` changed nodes and `most` changed pods, as they are now. One that changes later is collected again."""
        if not self._old_pods:
            # Moves the whole set at once: iterating over a set passes over the slots of all entries removed before.
            self._old_pods.extend(self._pods)
            self._pods.clear()
        part, self._old_pods[-most:] = self._old_pods[-most:], []
        nodes = sorted(islice(self._nodes, most))
        self._nodes.difference_update(nodes)
        return [self._node(name) for name in nodes], self._pod_changes(part)

    def _pod_changes(self, uids: Iterable[PodUid]) -> list[PodChange]:
        """The pods as they are now, sorted by UID, so that the order is the same on every run."""
        return [self._pod(uid) for uid in sorted(uids)]

    def few(self, most: int) -> list[PodChange] | None:
        """All remaining changes, if at most `most` pods changed and nothing else. Otherwise returns None, and the changes
        remain to be collected."""
        if self._nodes or self._old_pods or len(self._pods) > most:
            return None
        if self._budgets_version != self._state_machine.state.budgets.version:
            return None
        pods = self._pod_changes(self._pods)
        self._pods.clear()
        return pods

    def rest(
        self, before: tuple[list[NodeChange], list[PodChange]] = ([], []), around: AuxiliaryObjects | None = None
    ) -> Changes:
        """All remaining changes, preceded by `before`, which earlier calls of `some` returned. Together they lead to one
        consistent state. `around`: the changed auxiliary objects."""
        pods = self._pod_changes({*self._old_pods, *self._pods})
        self._old_pods.clear()
        self._pods.clear()
        nodes = [self._node(name) for name in sorted(self._nodes)]
        self._nodes.clear()
        around = around or AuxiliaryObjects()
        budgets = None
        if self._budgets_version != self._state_machine.state.budgets.version:
            self._budgets_version = self._state_machine.state.budgets.version
            budgets = tuple(self._state_machine.state.budgets)
        return Changes(
            generation=self._state_machine.generation,
            nodes=(*before[0], *nodes),
            pods=(*before[1], *pods),
            awaiting_victims=frozenset(self._state_machine.preemptions.gated_pods()),
            kept_room=tuple(self._state_machine.state.holds.destinations),
            budgets=budgets,
            namespaces=around.namespaces,
            storage=around.storage,
            daemons=around.daemons,
            replicas=around.replicas,
            kubernetes=self._state_machine.policy.kubernetes,
            profiles=self._state_machine.policy.profiles,
            spread_sources=around.spread_sources,
            devices=around.devices,
        )

    def _node(self, name: NodeName) -> NodeChange:
        """The node as decisions count it: cordoned while it is in quarantine, so that no plan uses it, and with the amounts for
        the system (`policy.nodes.system`) subtracted from its allocatable."""
        seen = self._state_machine.state.nodes.get(name)
        if seen is None:
            return NodeChange(name, None)
        node, system = seen, self._state_machine.policy.nodes.system
        if name in self._state_machine.state.quarantine:
            node = structs.replace(node, unschedulable=True)
        if system != NOTHING:
            node = structs.replace(node, allocatable=node.allocatable.minus(system).not_below_zero())
        return NodeChange(name, node, None if node is seen else seen)

    def _pod(self, uid: PodUid) -> PodChange:
        seen = self._state_machine.state.pods.known(uid)
        if seen is None or seen.ended:
            return PodChange(uid, None)
        pod = as_counted(seen, self._state_machine.state.reservations.get(uid))
        return PodChange(uid, pod, None if pod is seen else seen)


class ChosenChangeCollector(ChangeCollector):
    """A collector that reports a pod as placed on the node where room is held for its bind, or for which it is nominated (after
    a preemption, or by anybody), so that scores count it there."""

    def __init__(self, state_machine: "StateMachine") -> None:
        super().__init__(state_machine)
        state_machine.state.holds.journal.add_reader(self._pods)

    def stop(self) -> None:
        self._state_machine.state.holds.journal.remove_reader(self._pods)
        super().stop()

    def _pod(self, uid: PodUid) -> PodChange:
        state_machine, pod = self._state_machine, self._state_machine.state.pods.known(uid)
        if pod is None or pod.ended:
            return PodChange(uid, None)
        reservation = state_machine.state.reservations.get(uid)
        node = self._held_on(uid) or state_machine.state.holds.node_of_preemptor(uid) or pod.nominated_node
        if reservation is None and pod.node is None and node is not None:
            pod = pod.on(node)
        return PodChange(uid, as_counted(pod, reservation))

    def _held_on(self, uid: PodUid) -> NodeName | None:
        hold = self._state_machine.state.holds.get(HoldKey(uid))
        node = None if hold is None else self._state_machine.state.nodes.by_row[hold.row]
        return None if node is None else node.name
