"""Any API server of the providers, with what goes wrong on the way: answers that get lost, and silence."""

from dataclasses import dataclass, field

import anyio

from slackwater.adapters.api_calls import ApiCalls, Call, Response, Unanswered


@dataclass
class FlakyApi:
    """`lost`: the answers to the next writes get lost, after (True) or before they were carried out. `lost_paths`: the answer
    to one write to a path of each of these ends gets lost, after it was carried out. `refused_paths`: the status that writes to
    paths of these ends get."""

    api: ApiCalls
    lost: list[bool] = field(default_factory=list)
    lost_paths: list[str] = field(default_factory=list)
    refused_paths: dict[str, int] = field(default_factory=dict)
    silent: bool = False

    async def send(self, call: Call) -> Response:
        method, path = call.method, call.path
        if self.silent:
            await anyio.sleep_forever()
        if method == "GET":
            return await self.api.send(call)
        for end, status in self.refused_paths.items():
            if path.endswith(end):
                return Response(status, b'{"message":"as the test asked"}')
        lost = self._lost(path)
        if lost is False:
            raise Unanswered(f"{method} {path}: no answer")
        answer = await self.api.send(call)
        if lost:
            raise Unanswered(f"{method} {path}: no answer")
        return answer

    def _lost(self, path: str) -> bool | None:
        for end in self.lost_paths:
            if path.endswith(end):
                self.lost_paths.remove(end)
                return True
        return self.lost.pop(0) if self.lost else None
