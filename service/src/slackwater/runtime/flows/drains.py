"""What drains see of the cluster state, and what pauses end.

- `StateNodeViews`: connects the drains controller with the cluster state (pods on a node, disruption budgets, room that is kept
  for leaving pods) and with migrations.
- `ActivePauses`: when a person pauses an activity, ends its preemptions or drains in progress that can still be ended. New
  ones do not begin, because the policies in force contain the pauses.
"""

from collections.abc import Iterable

from slackwater.cluster.cluster_state import ClusterState
from slackwater.controllers.migration.state import DrainMigrations
from slackwater.controllers.preemption.state import Preemptions
from slackwater.controllers.scaledown.drains.pod_evictions import NodeView, seen
from slackwater.controllers.scaledown.drains.running_drains import Drains
from slackwater.fit.drainability import DrainPolicy, RuleFacts
from slackwater.fit.remaining_pdb_tracker import Disruptions
from slackwater.model.effects import Effect
from slackwater.model.ids import Instant, NodeName, PodUid, UnixTime
from slackwater.model.objects import Pod
from slackwater.model.pauses import Activity, Pause
from slackwater.model.reasons import UnremovableReason


class StateNodeViews:
    """Shows drains the state of nodes, pods and budgets, from the cluster state. Implements `drains.pod_evictions.NodeViews`.
    `rules` decide which pods block a drain."""

    def __init__(self, cluster_state: ClusterState, migrations: DrainMigrations, rules: DrainPolicy) -> None:
        self.rules = rules
        self._state = cluster_state
        self._destinations = cluster_state.holds.destinations
        self._migrations = migrations

    def node_view(self, name: NodeName, now: UnixTime) -> NodeView:
        node = self._state.nodes.get(name)
        if node is None:
            return NodeView(None)
        pods = (self._state.pods.get(uid) for uid in self._state.reservations.on_node(name))
        facts = RuleFacts(now=now, policy=self.rules)
        return seen(node, (pod for pod in pods if pod is not None), facts)

    def disruptions(self) -> Disruptions:
        return Disruptions(self._state.budgets)

    def keep(self, pod: Pod, of: NodeName, to: NodeName) -> bool:
        row = self._state.nodes.row_of.get(to)
        admits = row is not None and bool(self._state.admitting.of(pod.renewed_kind)[row])
        return admits and self._destinations.keep(pod, of, to)

    def left(self, uid: PodUid) -> None:
        self._destinations.left(uid)

    def end(self, node: NodeName) -> None:
        self._destinations.end(node)

    def migrate(self, uid: PodUid, node: NodeName) -> None:
        self._migrations.ask(uid, node)

    def cancel_leaving(self, uids: Iterable[PodUid]) -> None:
        self._migrations.forget(uids)


class ActivePauses:
    """Keeps the current pauses, and ends work in progress when a pause begins."""

    def __init__(self, preemptions: Preemptions, drains: Drains) -> None:
        self._preemptions = preemptions
        self._drains = drains
        self.pauses: tuple[Pause, ...] = ()

    @property
    def paused(self) -> frozenset[Activity]:
        return frozenset(pause.activity for pause in self.pauses)

    def seen(self, pauses: tuple[Pause, ...], now: Instant) -> list[Effect]:
        """Replaces the current pauses by `pauses`. When scale-down becomes paused, rolls drains back, except where the provider
        already deletes the machine. When preemption becomes paused, ends preemptions that have not requested a deletion yet."""
        before, self.pauses = self.paused, pauses
        begun = self.paused - before
        effects: list[Effect] = []
        if "preemption" in begun:
            self._preemptions.pause(now)
        if "scale-down" in begun:
            for drain in self._drains.active:
                node, why = drain.order.node, "scale-down is paused"
                effects += self._drains.cancel(node, UnremovableReason.CANCELLED, why, now)[1]
        return effects
