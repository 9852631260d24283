"""Persists the observations behind start-time SLOs: the pods' arrival history and the start times of node groups.

In: `Promising`, which watches arrivals, and the node group registry. Out: a ConfigMap, written every few minutes and read back
after a restart; a restart loses the observations made since the last write. Built only if an SLO is configured.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import anyio
import structlog

from slackwater.adapters.kube.arrivals import ArrivalsStore, BadArrivals
from slackwater.adapters.kube.errors import KubeError
from slackwater.cluster.nodegroups.registry import NodeGroupRegistry
from slackwater.model.nodegroups import GroupName
from slackwater.runtime.autoscaler.arrival_watch import Promising

_log = structlog.get_logger(__name__)

_SAVE_SECONDS: Final = 300.0
_AGAIN_SECONDS: Final = 10.0
#: The longest time for which the first plan waits for the saved history.
_PATIENCE_SECONDS: Final = 15.0


class Promises:
    """Loads the saved observations at the start, and saves them periodically."""

    def __init__(self, promising: Promising, group_registry: NodeGroupRegistry, store: ArrivalsStore) -> None:
        self.promising = promising
        self._group_registry = group_registry
        self._store = store
        self._begun = anyio.Event()

    async def begun(self) -> None:
        """Waits until the saved history is loaded, at most `_PATIENCE_SECONDS`."""
        with anyio.move_on_after(_PATIENCE_SECONDS):
            await self._begun.wait()

    async def run(self) -> None:
        """Loads the saved history, then saves it periodically, until cancelled. It writes nothing before it has read the old
        one."""
        taken = await self._taken_up()
        while not taken:
            await anyio.sleep(_AGAIN_SECONDS)
            taken = await self._taken_up()
        self._begun.set()
        while True:
            await anyio.sleep(_SAVE_SECONDS)
            await self._store.write({**self.promising.saved(), "starts": self._group_registry.starts()})

    async def _taken_up(self) -> bool:
        try:
            saved = await self._store.read()
        except BadArrivals as error:
            _log.error("arrival history cannot be read; starting with an empty one", detail=str(error))
            saved = None
        except KubeError as error:
            _log.warning("what was observed of arrivals is not read yet", detail=str(error))
            return False
        try:
            starts = None if saved is None else _starts(saved.get("starts", {}))
            self.promising.begin(saved)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            _log.error("arrival history is invalid; starting with an empty one", detail=repr(error))
            self.promising.begin(None)
        else:
            self._group_registry.expect_starts(starts or {})
        return True


def _starts(saved: Mapping[str, Sequence[Any]]) -> dict[GroupName, list[float]]:
    return {GroupName(name): [float(each) for each in seconds] for name, seconds in saved.items()}
