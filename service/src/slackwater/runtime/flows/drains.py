"""Removals of nodes, connected with the rest of the world: what stands on a node, what budgets allow, who has to migrate."""

from collections.abc import Callable, Iterable

from slackwater.cluster.cluster_state import Books
from slackwater.controllers.migration.drain_migrations import DrainMigrations
from slackwater.controllers.migration.state import Migrating
from slackwater.controllers.policy import Policy
from slackwater.controllers.scaledown.drains.drains import Drains
from slackwater.controllers.scaledown.drains.limits import DrainLimits
from slackwater.controllers.scaledown.drains.node_view import Site, Sites, seen
from slackwater.fit.disruptions import Disruptions
from slackwater.fit.drainability import DrainPolicy, Facts
from slackwater.model.effects import Effect
from slackwater.model.ids import Instant, NodeName, PodUid, UnixTime


class _WorldSites:
    """Implements `drains.site.Sites`. `rules` say which pods are in the way."""

    def __init__(self, books: Books, migrations: DrainMigrations) -> None:
        self.rules = DrainPolicy()
        self._books = books
        self._migrations = migrations

    def site(self, name: NodeName, now: UnixTime) -> Site:
        row = self._books.nodes.row_of.get(name)
        if row is None:
            return Site(None)
        pods = (self._books.pods.get(uid) for uid in self._books.claims.on_node(name))
        facts = Facts(now=now, policy=self.rules)
        return seen(self._books.nodes.by_row[row], (pod for pod in pods if pod is not None), facts)

    def disruptions(self) -> Disruptions:
        return Disruptions(self._books.budgets)

    def migrate(self, uid: PodUid, node: NodeName) -> None:
        self._migrations.ask(uid, node)

    def stay(self, uids: Iterable[PodUid]) -> None:
        self._migrations.forget(uids)


class Removals:
    """`drains` are the removals that have begun, `migrations` the machines that have to leave for them."""

    def __init__(self, books: Books, migrating: Migrating, *, make_drains: Callable[[Sites], Drains] = Drains) -> None:
        self.migrations = DrainMigrations(migrating, books.pods)
        self._sites = _WorldSites(books, self.migrations)
        self.drains = make_drains(self._sites)

    def adopt(self, rules: DrainPolicy, limits: DrainLimits) -> None:
        """A changed configuration: for removals that begin from now on, and for what is in their way at once."""
        self._sites.rules = rules
        self.drains.limits = limits

    def tick(self, policy: Policy, now: Instant) -> list[Effect]:
        return [*self.drains.step(now), *self.migrations.tick(policy, now)]
