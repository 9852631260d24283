"""Reads from the metrics API what nodes use, once a minute, for the dashboard (`kube.nodeUse`).

A cluster without the metrics API, or one that refuses it, is asked less often. No decision rests on what is read.
"""

from http import HTTPStatus
from typing import Final

import anyio
import anyio.to_thread
import msgspec
import structlog

from slackwater.adapters.api_calls import ApiReads, NotSent, Read, Unanswered
from slackwater.adapters.kube import metrics_api
from slackwater.adapters.kube.errors import KubeError, refused
from slackwater.model.ids import NodeName
from slackwater.model.resources import sum_of
from slackwater.runtime.dashboard.node_use import NodeUse

PERIOD_SECONDS: Final = 60.0
#: The period after a read that failed.
AFTER_FAILURE_SECONDS: Final = 600.0
_DEADLINE_SECONDS: Final = 30.0
#: Some KiB for each of ten thousand nodes.
_MOST_BYTES: Final = 64 << 20

_log = structlog.get_logger(__name__)


class NodeUseLoop:
    """`latest` is what was read last; None before the first answer, and after a read that failed."""

    def __init__(self, client: ApiReads) -> None:
        self._client = client
        self._problem = ""
        self.latest: NodeUse | None = None

    async def run(self) -> None:
        """Reads once a minute until cancelled."""
        while True:
            await self.read()
            await anyio.sleep(AFTER_FAILURE_SECONDS if self.latest is None else PERIOD_SECONDS)

    async def read(self) -> None:
        try:
            call = Read(metrics_api.NODES, timeout_seconds=_DEADLINE_SECONDS, most_bytes=_MOST_BYTES)
            answer = await self._client.send(call)
            if answer.status != HTTPStatus.OK:
                raise refused("list the metrics of nodes", answer)
            self.latest = await anyio.to_thread.run_sync(_node_use, answer.body)
        except (KubeError, NotSent, Unanswered, msgspec.MsgspecError, ValueError) as err:
            self.latest = None
            if str(err) != self._problem:
                _log.info("what nodes use is unknown", problem=str(err))
            self._problem = str(err)


def _node_use(body: bytes) -> NodeUse:
    of = {NodeName(node.name): used for node, used in metrics_api.used_of(body)}
    return NodeUse(of, sum_of(of.values()))
