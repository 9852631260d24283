"""What the planning process has been told of the cluster: enough to tell another one, and to know pods by their uids.

It holds the very objects that the state machine holds, in dictionaries of its own. Deliberately absent: how they get there.
"""

from collections.abc import Mapping
from typing import Final

import anyio.lowlevel

from slackwater.model.changes import Changes, NodeChange, PodChange
from slackwater.model.ids import NodeName, PodUid
from slackwater.model.objects import DisruptionBudget, Node, Pod
from slackwater.model.storage import Storage
from slackwater.runtime.autoscaler.clocks import Watch

#: Entries that are noted before other tasks get a turn: about a millisecond.
_SLICE: Final = 2_000


class KnownObjects:
    """What the planner process knows of the cluster, so that only differences are sent."""

    def __init__(self) -> None:
        #: Those that changed last come last, as in the replica.
        self.pods: dict[PodUid, Pod] = {}
        self._nodes: dict[NodeName, Node] = {}
        self._budgets: tuple[DisruptionBudget, ...] | None = None
        self._namespaces: Mapping[str, Mapping[str, str]] | None = None
        self._storage: Storage | None = None

    async def note(self, changes: Changes, watch: Watch) -> None:
        """These are told next."""
        for name, node in changes.nodes:
            if node is None:
                self._nodes.pop(name, None)
            else:
                self._nodes[name] = node
        for start in range(0, len(changes.pods), _SLICE):
            with watch:
                for uid, pod in changes.pods[start : start + _SLICE]:
                    self.pods.pop(uid, None)
                    if pod is not None:
                        self.pods[uid] = pod
            await anyio.lowlevel.checkpoint()
        self._budgets = self._budgets if changes.budgets is None else changes.budgets
        self._namespaces = self._namespaces if changes.namespaces is None else changes.namespaces
        self._storage = self._storage if changes.storage is None else changes.storage

    async def everything(self, last: Changes, watch: Watch) -> Changes:
        """All that was told, `last` included, for somebody who has been told nothing."""
        pods: list[PodChange] = []
        uids = list(self.pods)
        for start in range(0, len(uids), _SLICE):
            with watch:
                pods.extend(PodChange(uid, self.pods[uid]) for uid in uids[start : start + _SLICE])
            await anyio.lowlevel.checkpoint()
        return Changes(
            generation=last.generation,
            nodes=[NodeChange(name, node) for name, node in self._nodes.items()],
            pods=pods,
            promised=last.promised,
            budgets=self._budgets,
            namespaces=self._namespaces,
            storage=self._storage,
        )
