"""Persists the observations behind start-time SLOs: the pods' arrival history and the start times of node groups.

In: `ArrivalWatch`, which watches arrivals, and the node group registry. Out: a ConfigMap, or a file of
a shadow, written every few minutes and read back after a restart; a restart loses the observations made since the last
write. Built only if an SLO is configured.
"""

from collections.abc import Mapping
from typing import Any, Final, Protocol

import anyio
import structlog

from slackwater.adapters.kube.config_maps import BadArrivals
from slackwater.adapters.kube.errors import KubeError
from slackwater.cluster.nodegroups.registry import NodeGroupRegistry
from slackwater.controllers.slack.pod_arrivals import ArrivalWatch
from slackwater.model.nodegroups import GroupName

_log = structlog.get_logger(__name__)

_SAVE_SECONDS: Final = 300.0
_AGAIN_SECONDS: Final = 10.0
#: The longest time for which the first plan waits for the saved history.
_READ_TIMEOUT_SECONDS: Final = 15.0


class StoredArrivals(Protocol):
    """Where the observations are kept. Neither method raises anything but `KubeError` and `BadArrivals`."""

    async def read(self) -> dict[str, Any] | None: ...

    async def write(self, observed: Mapping[str, Any]) -> bool: ...


class PersistedArrivals:
    """Loads the saved observations at the start, and saves them periodically."""

    def __init__(self, arrival_watch: ArrivalWatch, group_registry: NodeGroupRegistry, store: StoredArrivals) -> None:
        self.arrival_watch = arrival_watch
        self._group_registry = group_registry
        self._store = store
        self._begun = anyio.Event()

    async def begun(self) -> None:
        """Waits until the saved history is loaded, at most `_READ_TIMEOUT_SECONDS`."""
        with anyio.move_on_after(_READ_TIMEOUT_SECONDS):
            await self._begun.wait()

    async def run(self) -> None:
        """Loads the saved history, then saves it periodically, until cancelled. It writes nothing before it has read the old
        one."""
        restored = await self._restored()
        while not restored:
            await anyio.sleep(_AGAIN_SECONDS)
            restored = await self._restored()
        self._begun.set()
        while True:
            await anyio.sleep(_SAVE_SECONDS)
            await self._store.write({**self.arrival_watch.saved(), "starts": self._group_registry.starts()})

    async def _restored(self) -> bool:
        try:
            saved = await self._store.read()
        except BadArrivals as error:
            _log.error("arrival history cannot be read; starting with an empty one", detail=str(error))
            saved = None
        except KubeError as error:
            _log.warning("arrival history is not read yet; trying again", detail=str(error))
            return False
        try:
            starts = {} if saved is None else saved.get("starts", {})
            starts = {GroupName(name): [float(each) for each in seconds] for name, seconds in starts.items()}
            self.arrival_watch.begin(saved)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            _log.error("arrival history is invalid; starting with an empty one", detail=repr(error))
            self.arrival_watch.begin(None)
        else:
            self._group_registry.expect_starts(starts)
        return True
