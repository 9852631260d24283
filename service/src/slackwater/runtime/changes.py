"""Collects which nodes and pods of the cluster state changed since the last collection, for planners.

Several collectors may read one state machine, independently. The journals note each change as one set entry for each collector.
Collecting takes time in proportion to the changes, not to the cluster, and may be done in parts. Deliberately absent: applying
the changes (`snapshot.replica`).
"""

from collections.abc import Iterable
from dataclasses import replace
from itertools import islice

from slackwater.cluster.reservations import Reservation
from slackwater.model.auxiliary import AuxiliaryObjects
from slackwater.model.changes import Changes, NodeChange, PodChange
from slackwater.model.equivalence import Kind
from slackwater.model.ids import NodeName, PodUid
from slackwater.model.objects import Node, Pod
from slackwater.model.resources import NOTHING, Amounts
from slackwater.runtime.state_machine import StateMachine


class ChangeCollector:
    """Collects the changes of one state machine for one reader, from construction until `stop`."""

    def __init__(self, state_machine: StateMachine, *, quarantined_too: bool = False) -> None:
        """`quarantined_too`: reports nodes in quarantine as they are; otherwise as cordoned, so that no plan uses them."""
        self._quarantined_too = quarantined_too
        self._state_machine = state_machine
        self._pods: set[PodUid] = set()
        self._nodes: set[NodeName] = set()
        #: Pods taken out of `_pods` and not handed out yet; a pod that changes again is noted again.
        self._old_pods: list[PodUid] = []
        self._budgets_version = -1
        self.begin_again()
        state_machine.pods.journal.add_reader(self._pods)
        state_machine.reservations.journal.add_reader(self._pods)
        state_machine.nodes.journal.add_reader(self._nodes)

    def stop(self) -> None:
        """Ends the collection: the journals note nothing for this collector any more."""
        state_machine, pods, nodes = self._state_machine, self._pods, self._nodes
        state_machine.pods.journal.remove_reader(pods)
        state_machine.reservations.journal.remove_reader(pods)
        state_machine.nodes.journal.remove_reader(nodes)

    def begin_again(self) -> None:
        """Makes everything due for collection again, because the reader may not have applied what it got last."""
        self._pods.update(pod.uid for pod in self._state_machine.pods)
        self._nodes.update(self._state_machine.nodes.row_of)
        self._budgets_version = -1

    def __len__(self) -> int:
        """The number of objects to collect; some may be counted twice."""
        return len(self._pods) + len(self._old_pods) + len(self._nodes)

    def some(self, most: int) -> tuple[list[NodeChange], list[PodChange]]:
        """Up to `most` changed nodes and `most` changed pods, as they are now. What changes again is collected again."""
        if not self._old_pods:
            # Moves the whole set at once: iterating over a set passes over the slots of all entries removed before.
            self._old_pods.extend(self._pods)
            self._pods.clear()
        part, self._old_pods[-most:] = self._old_pods[-most:], []
        nodes = sorted(islice(self._nodes, most))
        self._nodes.difference_update(nodes)
        return [NodeChange(name, self._node(name)) for name in nodes], self._told(part)

    def _told(self, uids: Iterable[PodUid]) -> list[PodChange]:
        """The pods as they are now, sorted by UID, so that the order is the same on every run."""
        return [PodChange(uid, self._pod(uid)) for uid in sorted(uids)]

    def rest(
        self, before: tuple[list[NodeChange], list[PodChange]] = ([], []), around: AuxiliaryObjects | None = None
    ) -> Changes:
        """All remaining changes. `before` is what `some` returned earlier; together they are one consistent state. `around`:
        the changed auxiliary objects."""
        pods = self._told({*self._old_pods, *self._pods})
        self._old_pods.clear()
        self._pods.clear()
        nodes = [NodeChange(name, self._node(name)) for name in sorted(self._nodes)]
        self._nodes.clear()
        around = around or AuxiliaryObjects()
        budgets = None
        if self._budgets_version != self._state_machine.budgets.version:
            self._budgets_version = self._state_machine.budgets.version
            budgets = tuple(self._state_machine.budgets)
        return Changes(
            generation=self._state_machine.generation,
            nodes=(*before[0], *nodes),
            pods=(*before[1], *pods),
            promised=frozenset(self._state_machine.preemptions.gated_pods()),
            budgets=budgets,
            namespaces=around.namespaces,
            storage=around.storage,
        )

    def _node(self, name: NodeName) -> Node | None:
        row = self._state_machine.nodes.row_of.get(name)
        node = None if row is None else self._state_machine.nodes.by_row[row]
        if node is not None and name in self._state_machine.quarantine and not self._quarantined_too:
            node = replace(node, unschedulable=True)
        system = self._state_machine.policy.nodes.system
        if node is None or system == NOTHING:
            return node
        return replace(node, allocatable=node.allocatable.minus(system).not_below_zero())

    def _pod(self, uid: PodUid) -> Pod | None:
        pod = self._state_machine.pods.known(uid)
        return None if pod is None or pod.ended else as_counted(pod, self._state_machine.reservations.get(uid))


class NominatedToo(ChangeCollector):
    """A collector that reports a nominated pod as placed on its nominated node, so that no plan gives its room away.

    The nomination may be ours in advance, that of a preemption or kube-scheduler's own.
    """

    def __init__(self, state_machine: StateMachine) -> None:
        super().__init__(state_machine)
        state_machine.steering.journal.add_reader(self._pods)

    def stop(self) -> None:
        steering, pods = self._state_machine.steering, self._pods
        steering.journal.remove_reader(pods)
        super().stop()

    def _pod(self, uid: PodUid) -> Pod | None:
        state_machine, pod = self._state_machine, self._state_machine.pods.known(uid)
        if pod is None or pod.ended:
            return None
        reservation = state_machine.reservations.get(uid)
        told = state_machine.steering.node_of(uid) or state_machine.room.node_of(uid) or pod.nominated_node
        if reservation is None and pod.node is None and told is not None:
            pod = pod.on(told)
        return as_counted(pod, reservation)


def as_counted(pod: Pod, reservation: Reservation | None) -> Pod:
    """The pod (which has not ended) as it counts: on the node, and with at least the amounts, of its reservation."""
    if reservation is None:
        return pod if pod.vertical is None else _taking(pod, pod.need)
    if reservation.node != pod.node:
        pod = pod.on(reservation.node)
    return _taking(pod, reservation.pod_resources.reserved)


def _taking(pod: Pod, amounts: Amounts) -> Pod:
    kind = pod.kind
    return pod if amounts.within(kind.requests) else replace(pod, kind=_larger(kind, amounts))


def _larger(kind: Kind, amounts: Amounts) -> Kind:
    return replace(kind, requests=kind.requests.at_least(amounts))
