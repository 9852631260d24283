"""What can go wrong between us and the API server, distinguished by what may have happened and who can mend it.

    KubeError
    ├── KubeConfigError   kubeconfig, in-cluster account or credential plug-in: people must mend it
    ├── Unreachable       there was no connection: nothing was sent
    ├── NoAnswer          sent (or perhaps sent), and no whole answer came: it may have happened
    ├── Garbled           an answer that is not what the API promises
    ├── WentBack          the server's history is older than what it told us before (restored from a backup)
    ├── NotLeading        not sent, because another replica leads
    └── Refused           an answer with a status that is no success

Every message names the request or file, what was seen and, where it helps, what is wanted. None holds a credential.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from slackwater.adapters.kube.wire import StatusWire

#: A longer text of the server is cut, visibly: it goes into logs and Outcomes, and may quote a whole object.
LONGEST_MESSAGE: Final = 500
#: The longest wait that an answer may ask for: the API server's priority and fairness asks for no more. A proxy or a broken
#: server may ask for an hour, and an event source would be behind for as long.
LONGEST_WAIT_SECONDS: Final = 32.0

_STATUS: Final = msgspec.json.Decoder(StatusWire)


#: How a parser refuses a document: what is no document of its kind, and one that is nested without end.
UNREADABLE: Final = (ValueError, RecursionError)


class KubeError(Exception):
    """The root of all errors of this package."""


class KubeConfigError(KubeError):
    """We do not know where the API server is or how to prove who we are."""


class Unreachable(KubeError):
    """No connection could be made, so nothing was sent."""


class NotLeading(KubeError):
    """Another replica leads, or perhaps does: nothing was sent."""


class NoAnswer(KubeError):
    """The request was sent, or perhaps sent, and no whole answer came. `timed_out`: time ran out, else it broke off."""

    def __init__(self, message: str, *, timed_out: bool) -> None:
        super().__init__(message)
        self.timed_out = timed_out


class Garbled(KubeError):
    """What came is not what the API promises."""


class WentBack(KubeError):
    """What was true once is true no more, so everything has to be listed again."""


class Refused(KubeError):
    """The server answered, and not with success: `code` (HTTP), `reason` and `message` as its Status tells them."""

    def __init__(self, what: str, *, code: int, reason: str, message: str, after_seconds: float | None) -> None:
        super().__init__(f"{what}: {code} {reason}: {message}")
        self.code = code
        self.reason = reason
        self.message = message
        self.after_seconds = after_seconds  #: from Retry-After, bounded; None where the server named none


def refused(what: str, code: int, body: bytes, headers: Mapping[str, str]) -> Refused:
    """The error for an answer, read from its Status body where it has one."""
    status = read_status(body)
    return Refused(
        what,
        code=code,
        reason=status.reason or "no reason given",
        message=shortened(status.message or body.decode(errors="replace")),
        after_seconds=_asked_wait(headers.get("Retry-After", "")),
    )


def _asked_wait(retry_after: str) -> float | None:
    if not (retry_after.isdecimal() and retry_after.isascii()):
        return None
    return min(float(retry_after), LONGEST_WAIT_SECONDS)


def read_status(body: bytes) -> StatusWire:
    """The Status in a body; an empty one where the body is none (a proxy's page, say)."""
    try:
        return _STATUS.decode(body)
    except UNREADABLE:
        return StatusWire()


def shortened(text: str) -> str:
    return text if len(text) <= LONGEST_MESSAGE else text[: LONGEST_MESSAGE - 4] + " ..."
