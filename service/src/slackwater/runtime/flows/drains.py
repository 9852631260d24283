"""Connects the drains controller with the cluster state (pods on a node, disruption budgets) and with migrations."""

from collections.abc import Iterable

from slackwater.cluster.cluster_state import ClusterState
from slackwater.controllers.migration.drain_migrations import DrainMigrations
from slackwater.controllers.migration.state import Migrating
from slackwater.controllers.policy import Policy
from slackwater.controllers.scaledown.drains.drains import Drains
from slackwater.controllers.scaledown.drains.limits import DrainLimits
from slackwater.controllers.scaledown.drains.node_view import NodeView, seen
from slackwater.fit.disruptions import Disruptions
from slackwater.fit.drainability import DrainPolicy, Facts
from slackwater.model.effects import Effect
from slackwater.model.ids import Instant, NodeName, PodUid, UnixTime


class _StateNodeViews:
    """Implements `drains.node_view.NodeViews` from the cluster state. `rules` say which pods block a drain."""

    def __init__(self, cluster_state: ClusterState, migrations: DrainMigrations) -> None:
        self.rules = DrainPolicy()
        self._cluster_state = cluster_state
        self._migrations = migrations

    def node_view(self, name: NodeName, now: UnixTime) -> NodeView:
        row = self._cluster_state.nodes.row_of.get(name)
        if row is None:
            return NodeView(None)
        pods = (self._cluster_state.pods.get(uid) for uid in self._cluster_state.reservations.on_node(name))
        facts = Facts(now=now, policy=self.rules)
        return seen(self._cluster_state.nodes.by_row[row], (pod for pod in pods if pod is not None), facts)

    def disruptions(self) -> Disruptions:
        return Disruptions(self._cluster_state.budgets)

    def migrate(self, uid: PodUid, node: NodeName) -> None:
        self._migrations.ask(uid, node)

    def stay(self, uids: Iterable[PodUid]) -> None:
        self._migrations.forget(uids)


class Removals:
    """Node removals. `drains` are the drains in progress, `migrations` the virtual machines that have to migrate for them."""

    def __init__(self, cluster_state: ClusterState, migrating: Migrating) -> None:
        self.migrations = DrainMigrations(migrating, cluster_state.pods)
        self._node_views = _StateNodeViews(cluster_state, self.migrations)
        self.drains = Drains(self._node_views)

    def adopt(self, rules: DrainPolicy, limits: DrainLimits) -> None:
        """Adopts changed settings: `rules` at once, `limits` for drains that begin from now on."""
        self._node_views.rules = rules
        self.drains.limits = limits

    def tick(self, policy: Policy, now: Instant) -> list[Effect]:
        return [*self.drains.step(now), *self.migrations.tick(policy, now)]
