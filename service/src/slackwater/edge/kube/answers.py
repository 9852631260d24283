"""What an answer's status means for a write that may be repeated, with the server's words."""

from typing import Final, Literal

from slackwater.edge.kube.client import Response
from slackwater.edge.kube.errors import Refused, refused
from slackwater.run.ports import Outcome

Verdict = Literal["done", "refused", "again", "unknown"]

#: Where the server asks for patience without saying how much.
_PATIENCE_SECONDS: Final = 1.0
#: The server's own time was up before it had an answer: it may have happened.
_GATEWAY_TIMEOUT: Final = 504
#: Not now: too much to do, or it took too long to read the request.
_LATER: Final = frozenset({408, 429})


def outcome_of(answer: Response) -> Outcome:
    """The outcome, by the status alone.

    A 5xx but 504 is "again" although some of them (a 500 from etcd's time-out) may have happened: the repetition finds out.
    """
    verdict = _verdict(answer.status)
    if verdict == "done":
        return Outcome("done", answer.status)
    error = _refusal(answer)
    patience = error.after_seconds if error.after_seconds is not None else _default_patience(answer.status)
    return Outcome(verdict, answer.status, _words(error), patience if verdict == "again" else 0.0)


def _verdict(status: int) -> Verdict:
    if 200 <= status < 300:
        return "done"
    if status == _GATEWAY_TIMEOUT:
        return "unknown"
    return "again" if status >= 500 or status in _LATER else "refused"


def _default_patience(status: int) -> float:
    return _PATIENCE_SECONDS if status in _LATER else 0.0


def words_of(answer: Response) -> str:
    return _words(_refusal(answer))


def _refusal(answer: Response) -> Refused:
    return refused("answer", answer.status, answer.body, answer.headers)


def _words(error: Refused) -> str:
    return f"{error.code} {error.reason}: {error.message}"
