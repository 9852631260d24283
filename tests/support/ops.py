"""The ops listener's application as tests want it: what a test does not give is not there, and refuses or answers nothing."""

from typing import Any

from fastapi import FastAPI

from slackwater.adapters.http import ops
from slackwater.adapters.http.dashboard.routes import OpenStreams
from slackwater.controllers.leadership.metrics import alone
from slackwater.model.history import PastOfObject, Remembered
from slackwater.ports.clock import unix_time
from slackwater.ports.protocols import Explained, Question, Supposed, WhatIfRefused
from slackwater.runtime.decision_log import DecisionLog


async def explains_nothing(_what: Explained, _namespace: str, _name: str) -> bytes:
    raise WhatIfRefused("nobody explains anything here", busy=True)


async def supposes_nothing(_question: Question, _supposed: Supposed) -> bytes:
    raise WhatIfRefused("nobody answers what-if here", busy=True)


async def no_history(what: Remembered, namespace: str, name: str, _since: float | None) -> PastOfObject:
    named = f"{what} {namespace}/{name}" if namespace else f"{what} {name}"
    return PastOfObject(object=named, entries=(), reaches={"acts": None, "waits": None}, notes=("no history is kept",))


def ops_app(**given: Any) -> FastAPI:
    """`adapters.http.ops.ops_app` with the arguments that are given."""
    wall = given.get("wall", unix_time)
    others = {
        "autoscaler": lambda: None,
        "event_sources": dict,
        "leader": alone,
        "decision_log": DecisionLog(wall),
        "listeners": OpenStreams(),
        "cancel_drain": lambda _: "none",
        "what_if": supposes_nothing,
        "explain": explains_nothing,
        "what_happened": no_history,
        "report_log": None,
        "node_use": lambda: None,
        "certificates": {},
    }
    return ops.ops_app(**{**others, "wall": wall, **given})
