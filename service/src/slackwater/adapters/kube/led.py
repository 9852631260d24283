"""An API client that sends writes only while this replica leads: the last check before a request is sent.

All writes pass through here: effects, Events, status objects, and the node group providers. The check cannot stop a request
that has already been sent; each write's precondition covers that case. Reads and token reviews, which change nothing, always
pass.
"""

from collections.abc import AsyncGenerator, Callable
from typing import Final

from slackwater.adapters.kube.client import ApiPort, Call, Params, Response
from slackwater.adapters.kube.errors import NotLeading

_REVIEWS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"


class LedApi:
    """Wraps another `adapters.kube.client.ApiPort`. In addition raises `NotLeading`, and then nothing was sent."""

    def __init__(self, client: ApiPort, leads: Callable[[], bool]) -> None:
        self._client = client
        self._leads = leads

    async def send(self, call: Call) -> Response:
        if call.method != "GET" and call.path != _REVIEWS and not self._leads():
            raise NotLeading(f"{call}: not sent: this replica does not lead")
        return await self._client.send(call)

    def stream(self, path: str, *, params: Params, silence_seconds: float) -> AsyncGenerator[list[bytes], None]:
        return self._client.stream(path, params=params, silence_seconds=silence_seconds)
