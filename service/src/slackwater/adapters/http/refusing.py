"""The application of a listener that answers every request with 503 and the reason: that of a shadow's extender and agents."""

from typing import Final

from slackwater.adapters.http.application import TEXT, Answer, Request, RequestTerms

_UNAVAILABLE: Final = 503
#: A request is answered from its head. The rest of a large body is left unread.
_READ_BYTES: Final = 1 << 16


class Refusing:
    """Implements `Application`. Callers are not checked, because every answer is only `reason`."""

    terms: Final = RequestTerms(max_body_bytes=_READ_BYTES, read_body_bytes=_READ_BYTES)

    def __init__(self, reason: str) -> None:
        self._body: Final = f"{reason}\n".encode()

    def answer(self, _request: Request) -> Answer:
        return Answer(_UNAVAILABLE, self._body, TEXT)

    def refusal(self, status: int, _path: str, message: str) -> Answer:
        return Answer(status, message.encode(), TEXT)
