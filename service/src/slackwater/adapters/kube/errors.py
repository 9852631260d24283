"""Errors between us and the API server, distinguished by what may have happened and by who can repair the cause.

    KubeError
    ├── KubeConfigError   kubeconfig, in-cluster account or credential plug-in: people must repair it
    ├── Unreachable       there was no connection: nothing was sent
    ├── NoAnswer          sent (or perhaps sent), and no whole answer came: it may have happened
    ├── MalformedAnswer   the answer is not what the API specifies
    ├── AnswerTooLarge    the answer has more bytes than the caller can take at once
    ├── HistoryWentBack   the server's history is older than what it reported before (restored from a backup)
    ├── NotLeading        not sent, because another replica leads
    └── StatusError       an answer with a status other than success

Every message names the request or file, what was seen and, where it helps, what is wanted. No message contains a credential.
"""

from typing import Final

from slackwater.adapters.api_calls import NotSent, Response, Unanswered
from slackwater.adapters.api_objects import ObjectDecoder
from slackwater.adapters.kube.structs import StatusWire

#: Longer messages of the server are cut, and marked as cut: they go into logs and Outcomes, and may quote a whole object.
LONGEST_MESSAGE: Final = 500
#: The longest wait that we accept from a Retry-After. The API server's priority and fairness asks for no more. A proxy or a
#: broken server may ask for an hour, and an event source would lag by as much.
LONGEST_WAIT_SECONDS: Final = 32.0

_STATUS: Final = ObjectDecoder(StatusWire)


#: What a parser raises for a document that is malformed or nested too deeply.
UNREADABLE: Final = (ValueError, RecursionError)


class KubeError(Exception):
    """The root of all errors of this package."""


class KubeConfigError(KubeError, NotSent):
    """The configuration does not say where the API server is, or gives no usable credentials."""


class Unreachable(KubeError, NotSent):
    """No connection could be made, so nothing was sent."""


class NotLeading(KubeError, NotSent):
    """Another replica leads, or may lead: nothing was sent."""


class NoAnswer(KubeError, Unanswered):
    """The request was sent, or perhaps sent, and no whole answer came. `timed_out`: time ran out; otherwise the connection
    broke.
    """

    def __init__(self, message: str, *, timed_out: bool) -> None:
        super().__init__(message)
        self.timed_out = timed_out


class MalformedAnswer(KubeError):
    """The answer is not what the API specifies."""


class AnswerTooLarge(KubeError):
    """The answer has more bytes than the caller can take at once (`Call.most_bytes`); the rest was not read."""


class HistoryWentBack(KubeError):
    """The server's history is older than what it reported before, so everything has to be listed again."""


class StatusError(KubeError):
    """The server answered with a status other than success: `code` (HTTP), `reason` and `message` from its Status object."""

    def __init__(self, what: str, *, code: int, reason: str, message: str, after_seconds: float | None) -> None:
        #: The answer in words, without what was asked.
        self.words = f"{code} {reason}: {message}"
        super().__init__(f"{what}: {self.words}")
        self.code = code
        self.reason = reason
        self.message = message
        self.after_seconds = after_seconds  #: from Retry-After, bounded; None where the server named none


def refused(what: str, answer: Response) -> StatusError:
    """The error for an answer that is no success, with the details of its Status body if it has one."""
    status, wait = read_status(answer.body), answer.headers.get("Retry-After", "")
    return StatusError(
        what,
        code=answer.status,
        reason=status.reason or "no reason given",
        message=shortened(status.message or answer.body.decode(errors="replace")),
        after_seconds=min(float(wait), LONGEST_WAIT_SECONDS) if wait.isdecimal() and wait.isascii() else None,
    )


def read_status(body: bytes) -> StatusWire:
    """Decodes the Status in a body; an empty Status if the body is not one (a proxy's page, for example)."""
    try:
        return _STATUS.decode(body)
    except UNREADABLE:
        return StatusWire()


def shortened(text: str) -> str:
    return text if len(text) <= LONGEST_MESSAGE else text[: LONGEST_MESSAGE - 4] + " ..."
