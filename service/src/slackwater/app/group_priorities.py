"""The priorities of node groups: the ConfigMap of Cluster Autoscaler's expander `priority`, as it was read last."""

from collections.abc import Sequence
from typing import Final

from slackwater.adapters.api_calls import ApiReader, Read
from slackwater.adapters.kube.config_maps import PRIORITIES_CONFIG_MAP, decode_priorities
from slackwater.adapters.kube.errors import KubeError
from slackwater.app.clouds import uses_karpenter
from slackwater.app.settings import Settings
from slackwater.controllers.scaleup.expanders import NO_PRIORITIES, BadPriorities, Priorities
from slackwater_protocol.names import SCHEDULER_NAMESPACE

_NOT_FOUND: Final = 404
_READ_SECONDS: Final = 5.0


class GroupPriorities:
    def __init__(self, settings: Settings, client: ApiReader) -> None:
        self._settings = settings
        self._client = client
        self.last: Priorities = NO_PRIORITIES

    async def read(self) -> Sequence[str]:
        """Reads the ConfigMap of the expander `priority` before each loop, because it may change at any time. Returns the
        problems to report; the priorities then stay as they were."""
        if "priority" not in self._settings.autoscaler.expanders:
            return ()
        path = f"/api/v1/namespaces/{SCHEDULER_NAMESPACE}/configmaps/{PRIORITIES_CONFIG_MAP}"
        try:
            answer = await self._client.send(Read(path, timeout_seconds=_READ_SECONDS))
            if answer.status == _NOT_FOUND:
                self.last = NO_PRIORITIES
                why = f"ConfigMap {PRIORITIES_CONFIG_MAP} does not exist: expander priority has no effect"
                return () if uses_karpenter(self._settings) else (why,)  # NodePools have weights
            self.last = decode_priorities(answer.body)
        except (KubeError, BadPriorities) as error:
            return (f"priorities stay as they were: {error}",)
        return ()
