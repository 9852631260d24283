"""A watch of a collection that goes on where the API server ends it, as it does when it has too much to do."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import Final

import aiohttp
import anyio

from tests.cluster.support.bodies import Json

_BACK_AFTER_SECONDS: Final = 0.2


async def watched(
    api: aiohttp.ClientSession, path: str, version: str, *, headers: Mapping[str, str] | None = None
) -> AsyncIterator[Json]:
    """The events after `version`, without end and without bookmarks. AssertionError where the API server sends an error."""
    while True:
        with suppress(aiohttp.ClientPayloadError, aiohttp.ServerDisconnectedError, TimeoutError):
            async for event in _events(api, path, version, headers):
                version = event["object"]["metadata"]["resourceVersion"]
                if event["type"] != "BOOKMARK":
                    yield event
        await anyio.sleep(_BACK_AFTER_SECONDS)


async def _events(
    api: aiohttp.ClientSession, path: str, version: str, headers: Mapping[str, str] | None
) -> AsyncIterator[Json]:
    params = {"watch": "1", "resourceVersion": version, "allowWatchBookmarks": "true", "timeoutSeconds": "3600"}
    async with api.get(path, params=params, headers=headers, timeout=aiohttp.ClientTimeout(total=None)) as answer:
        answer.raise_for_status()
        rest = b""
        async for chunk in answer.content.iter_any():
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                event = json.loads(line)
                assert event["type"] != "ERROR", f"the watch of {path} sent {event}"
                yield event
