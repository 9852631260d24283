"""Reviews bearer tokens with TokenReview, one call for each token. Callers cache the results; nothing is kept here."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Final

import msgspec

from slackwater.adapters.api_calls import ApiCalls, ask
from slackwater.adapters.api_objects import ObjectDecoder
from slackwater.adapters.kube.errors import UNREADABLE, KubeError, refused
from slackwater.ports.protocols import TokenReview

REVIEWS_PATH: Final = "/apis/authentication.k8s.io/v1/tokenreviews"
#: The extra field that the API server sets for tokens projected into a Pod (Kubernetes >= 1.30).
_NODE_NAME: Final = "authentication.kubernetes.io/node-name"


class _User(msgspec.Struct):
    username: str = ""
    extra: dict[str, list[str]] = {}


class _Status(msgspec.Struct):
    authenticated: bool = False
    user: _User = msgspec.field(default_factory=_User)
    audiences: list[str] = []
    error: str = ""


class _Review(msgspec.Struct):
    status: _Status = msgspec.field(default_factory=_Status)


_decoder: Final = ObjectDecoder(_Review)


class KubeTokenReviewer:
    """Asks the API server to review tokens for `audiences`; if there are none, for the API server's own audience."""

    def __init__(self, client: ApiCalls, audiences: Sequence[str] = ()) -> None:
        self._client = client
        self._audiences = tuple(audiences)

    async def review(self, token: str, *, timeout_seconds: float) -> TokenReview:
        """Reviews one token, as `ports.protocols.TokenReviewer` says."""
        spec = {"token": token, "audiences": self._audiences} if self._audiences else {"token": token}
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec}
        try:
            answer = await ask(self._client, "POST", REVIEWS_PATH, asked, timeout_seconds=timeout_seconds)
            if answer.status not in (HTTPStatus.OK, HTTPStatus.CREATED):
                raise refused("TokenReview", answer)
            return self._read(_decoder.decode(answer.body).status)
        except (KubeError, *UNREADABLE) as error:
            return TokenReview(verdict="unasked", detail=str(error))

    def _read(self, status: _Status) -> TokenReview:
        if not status.authenticated:
            return TokenReview(verdict="unknown", detail=status.error or "not authenticated")
        # An API server without support for audiences answers without them: then the token is for the API server itself.
        if self._audiences and not set(self._audiences) & set(status.audiences):
            wanted = ", ".join(self._audiences)
            return TokenReview(verdict="unknown", detail=f"for {', '.join(status.audiences) or 'no audience'}, want {wanted}")
        node = status.user.extra.get(_NODE_NAME) or [""]
        return TokenReview(verdict="known", user=status.user.username, node=node[0])
