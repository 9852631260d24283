"""The ops listener's application as tests want it: what a test does not give is not there, and refuses or answers nothing."""

from typing import Any

from fastapi import FastAPI
from prometheus_client import CollectorRegistry

from slackwater.adapters.http import ops
from slackwater.adapters.http.dashboard.routes import OpenStreams
from slackwater.adapters.http.status import SettingsView
from slackwater.app.settings.model import Settings
from slackwater.app.settings.reading import as_file
from slackwater.controllers.leadership.metrics import alone
from slackwater.model.history import PastOfObject, Remembered
from slackwater.model.ids import Instant
from slackwater.ports.clock import unix_time
from slackwater.ports.protocols import Explained, Question, Supposed, WhatIfRefused
from slackwater.runtime.decision_log import DecisionLog
from slackwater.runtime.state_machine import StateMachine
from tests.support import installed


class Ready:
    """What readiness waits for: nothing, or what has not been listed yet."""

    def __init__(self, *unlisted: str) -> None:
        self.unlisted = unlisted

    @property
    def ready(self) -> bool:
        return not self.unlisted


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
        "state_machine": StateMachine(installed.POLICY),
        "readiness": Ready(),
        "registry": CollectorRegistry(),
        "settings": SettingsView(as_file(Settings())),
        "clock": lambda: Instant(0.0),
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
