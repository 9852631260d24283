"""The same calls against the sandbox and against the real API server: equal answers, versions and watch events.

What the real one answers is kept in tests/unit/sandbox/answers.json, so that the sandbox is held to it where no real one runs.
SLACKWATER_TEST_RECORD=1 writes that file again.
"""

import json
import os
from pathlib import Path
from random import Random
from typing import Any

import aiohttp
import pytest

from slackwater.sandbox.embedded.server import ApiServer
from tests.cluster.support.ground import Ground
from tests.support.apiscript import SCRIPT, WATCHED, Conversation, seen
from tests.support.controlplane.stack import ControlPlane
from tests.support.sandboxed import held_with_sandbox

pytestmark = [pytest.mark.anyio, pytest.mark.cluster]

ANSWERS = Path(__file__).parents[1] / "unit" / "sandbox" / "answers.json"


async def held_with(api: aiohttp.ClientSession, namespace: str) -> dict[str, Any]:
    async def call(method: str, path: str, body: bytes | None, kind: str, query: dict[str, str]) -> tuple[int, bytes]:
        async with api.request(method, path, data=body, headers={"Content-Type": kind}, params=query) as answer:
            return answer.status, await answer.read()

    _, first = await call("GET", WATCHED[0].format(ns=namespace), None, "application/json", {})
    since = json.loads(first)["metadata"]["resourceVersion"]
    conversation = Conversation(call, namespace)
    answers = await conversation.hold(SCRIPT)
    watched = {}
    for path in WATCHED:
        params = {"watch": "1", "resourceVersion": since, "timeoutSeconds": "2"}
        async with api.get(path.format(ns=namespace), params=params) as answer:
            lines = [line async for line in answer.content]
        watched[path] = seen(lines)
    answers += await conversation.hold_in_a_zone()
    return {"answers": answers, "watched": watched}


async def test_the_same_calls_have_the_same_answers(control_plane: ControlPlane, ground: Ground) -> None:
    async with control_plane.session() as api:
        real = await held_with(api, ground.name)
    sandbox = await held_with_sandbox(ApiServer(rng=Random(1), wall=lambda: 1.8e9), ground.name)
    if os.environ.get("SLACKWATER_TEST_RECORD"):
        ANSWERS.write_text(json.dumps(real, indent=1) + "\n")
    for want, got in zip(real["answers"], sandbox["answers"], strict=True):
        assert got == want
    assert sandbox["watched"] == real["watched"]
    assert real == json.loads(ANSWERS.read_text()), "the real one has changed: SLACKWATER_TEST_RECORD=1 keeps its answers anew"
