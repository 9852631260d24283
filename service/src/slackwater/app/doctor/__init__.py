"""Examines a cluster for `slackwater doctor`: what would keep Slackwater from working there, and what to do about it.

In: the API server with the user's own rights, the configuration, the time. Out: one `Check` for each thing that was looked at,
also for things that the user may not see. Nothing is changed.

examination.py  all checks in their order; the service itself, other autoscalers, and clocks
api_server.py   versions, flags, feature gates, the APIs that are served
handed_over.py  whether the pods that are handed over exist, and reach the extender
left_out.py     which node groups cannot be read, and why
ownership.py    which node groups other autoscalers mark as theirs
consolidation.py  what consolidation changes, or would change
agents.py       whether autoscaler agents can reach the service, and what a NetworkPolicy lets through
"""

from collections.abc import Iterable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, Literal

from slackwater.adapters.kube.errors import KubeError, StatusError
from slackwater.model.texts import first_few

#: `unknown`: it cannot be seen with the user's rights, or the cluster does not show it.
State = Literal["ok", "warning", "problem", "unknown"]
_MOST_NAMED: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was looked at: what was seen, and, unless it is ok, what to do."""

    name: str
    state: State = "ok"
    seen: str
    advice: str = ""


def ok(name: str, seen: str) -> Check:
    return Check(name=name, seen=seen)


def warning(name: str, seen: str, advice: str) -> Check:
    return Check(name=name, state="warning", seen=seen, advice=advice)


def problem(name: str, seen: str, advice: str) -> Check:
    return Check(name=name, state="problem", seen=seen, advice=advice)


def unknown(name: str, why: str, advice: str) -> Check:
    return Check(name=name, state="unknown", seen=f"cannot be seen: {why}", advice=advice)


def unseen(name: str, error: KubeError, advice: str) -> Check:
    """The check of something that the API server does not show to this user. Raises `error` if it is not a refusal."""
    if not isinstance(error, StatusError) or error.code not in {HTTPStatus.FORBIDDEN, HTTPStatus.UNAUTHORIZED}:
        raise error
    return unknown(name, f"you may not {str(error).partition(':')[0]}", advice)


def named(names: Iterable[str]) -> str:
    """Joins the first `_MOST_NAMED` names with commas, and says how many more there are."""
    return first_few(list(names), _MOST_NAMED)
