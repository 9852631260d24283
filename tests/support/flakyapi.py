"""Any API server of the providers, with what goes wrong on the way: answers that get lost, and silence."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import anyio

from slackwater.edge.cloud.apiserver import NO_PARAMS, Answer, ApiServer, Unanswered


@dataclass
class FlakyApi:
    """`lost`: the answers to the next writes get lost, after (True) or before they were carried out."""

    api: ApiServer
    lost: list[bool] = field(default_factory=list)
    silent: bool = False

    async def ask(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] = NO_PARAMS,
        body: object = None,
        content_type: str = "application/json",
    ) -> Answer:
        if self.silent:
            await anyio.sleep_forever()
        lost = self.lost.pop(0) if self.lost and method != "GET" else None
        if lost is False:
            raise Unanswered(f"{method} {path}: no answer")
        answer = await self.api.ask(method, path, params=params, body=body, content_type=content_type)
        if lost:
            raise Unanswered(f"{method} {path}: no answer")
        return answer
