"""Maps the status of an API answer to an `Outcome` for a write that may be repeated; its detail quotes the server's message."""

from typing import Final, Literal

from slackwater.adapters.kube.client import Response
from slackwater.adapters.kube.errors import Refused, refused
from slackwater.ports.protocols import Outcome

Verdict = Literal["done", "refused", "again", "unknown"]

#: How long to wait after a 429 without Retry-After.
_TOO_MANY: Final = 429
_PATIENCE_SECONDS: Final = 1.0
#: Statuses that mean that nothing happened and a retry may succeed: the server read the request too slowly (408), is overloaded
#: (429), or is starting or stopping (503).
_LATER: Final = frozenset({408, 429, 503})


def outcome_of(answer: Response) -> Outcome:
    """The outcome of a write, by the status alone. Other 5xx are "unknown": some are time-outs of etcd, and the write may have
    happened.
    """
    verdict = _verdict(answer.status)
    if verdict == "done":
        return Outcome("done", answer.status)
    error = _refusal(answer)
    patience = _PATIENCE_SECONDS if error.after_seconds is None and answer.status == _TOO_MANY else error.after_seconds
    return Outcome(verdict, answer.status, _words(error), (patience or 0.0) if verdict == "again" else 0.0)


def _verdict(status: int) -> Verdict:
    if 200 <= status < 300:
        return "done"
    if status in _LATER:
        return "again"
    return "unknown" if status >= 500 else "refused"


def words_of(answer: Response) -> str:
    return _words(_refusal(answer))


def _refusal(answer: Response) -> Refused:
    return refused("answer", answer.status, answer.body, answer.headers)


def _words(error: Refused) -> str:
    return f"{error.code} {error.reason}: {error.message}"
