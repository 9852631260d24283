"""A conversation with the sandbox' API server."""

import json
from contextlib import aclosing
from typing import Any

from slackwater.sandbox.embedded.server import ApiServer
from tests.support.apiscript import SCRIPT, WATCHED, Conversation, seen


async def held_with_sandbox(server: ApiServer, namespace: str) -> dict[str, Any]:
    async def call(method: str, path: str, body: bytes | None, kind: str, query: dict[str, str]) -> tuple[int, bytes]:
        answer = server.request(method, path, params=query, body=body, content_type=kind)
        return answer.status, answer.body

    _, first = await call("GET", WATCHED[0].format(ns=namespace), None, "application/json", {})
    since = json.loads(first)["metadata"]["resourceVersion"]
    conversation = Conversation(call, namespace)
    answers = await conversation.hold(SCRIPT)
    watched = {}
    for path in WATCHED:
        params = {"watch": "1", "resourceVersion": since, "timeoutSeconds": "0.01"}
        async with aclosing(server.watch(path.format(ns=namespace), params=params)) as arriving:
            watched[path] = seen([line async for lines in arriving for line in lines])
    answers += await conversation.hold_in_a_zone()
    return {"answers": answers, "watched": watched}
