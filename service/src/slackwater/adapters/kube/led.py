"""An API server that is only written to while this replica leads: the last look before a request leaves.

Whatever writes goes through here: effects, Events, status objects, providers of node groups. A check cannot stop what has left
already; that is what each write's precondition is for. Reads pass, and so do reviews of tokens, which change nothing.
"""

from collections.abc import AsyncGenerator, Callable
from typing import Final

from slackwater.adapters.kube.client import ApiPort, Call, Params, Response
from slackwater.adapters.kube.errors import NotLeading

_REVIEWS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"


class LedApi:
    """Implements `adapters.kube.client.ApiPort` over another. Raises `NotLeading` besides, and then nothing was sent."""

    def __init__(self, client: ApiPort, leads: Callable[[], bool]) -> None:
        self._client = client
        self._leads = leads

    async def send(self, call: Call) -> Response:
        if call.method != "GET" and call.path != _REVIEWS and not self._leads():
            raise NotLeading(f"{call}: not sent: this replica does not lead")
        return await self._client.send(call)

    def stream(self, path: str, *, params: Params, silence_seconds: float) -> AsyncGenerator[list[bytes], None]:
        return self._client.stream(path, params=params, silence_seconds=silence_seconds)
