"""Asks for the migration of virtual machines away from nodes that are drained."""

from collections.abc import Iterable

from slackwater.cluster.pods import PodTable
from slackwater.controllers.migration.state import Migrating
from slackwater.controllers.policy import Policy
from slackwater.model.effects import Effect
from slackwater.model.ids import Instant, NodeName, PodUid


class DrainMigrations:
    """The pods whose machines have to leave their nodes, in the order of the calls of `ask`, until they are gone. A machine
    whose migration ends without success is migrated again."""

    def __init__(self, migrating: Migrating, pods: PodTable) -> None:
        self._migrating = migrating
        self._pods = pods
        self._waiting: dict[PodUid, NodeName] = {}

    def ask(self, uid: PodUid, node: NodeName) -> None:
        self._waiting.setdefault(uid, node)

    def forget(self, uids: Iterable[PodUid]) -> None:
        """Removes pods that need not leave any more from the queue. Migrations that have begun go on."""
        for uid in uids:
            self._waiting.pop(uid, None)

    @property
    def waiting(self) -> dict[PodUid, NodeName]:
        return {uid: node for uid, node in self._waiting.items() if not self._migrating.is_leaving(uid)}

    def tick(self, policy: Policy, now: Instant) -> list[Effect]:
        """Starts the migrations that may start now. Returns the effects to carry out."""
        effects: list[Effect] = []
        for uid in list(self._waiting):
            pod = self._pods.get(uid)
            if pod is None:
                del self._waiting[uid]
            if pod is None or self._migrating.is_leaving(uid):
                continue
            target_node = self._migrating.choice.choose_for_drain(pod, policy, now)
            if target_node is not None:
                effects += self._migrating.start(pod, target_node)
        self._migrating.choice.places_kept = len(self.waiting)
        return effects
