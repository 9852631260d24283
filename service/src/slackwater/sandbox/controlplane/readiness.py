"""Asks a component whether it is ready, until it is, has ended, or time is up."""

from typing import Final

import aiohttp
import anyio

from slackwater.sandbox.controlplane.component import Component
from slackwater.sandbox.controlplane.errors import NotReady

_ASK_EVERY_SECONDS: Final = 0.05
#: A paused process accepts a connection and never answers.
_ANSWER_WITHIN: Final = aiohttp.ClientTimeout(total=2)
_READY: Final = "ready"


async def until_ready(component: Component, session: aiohttp.ClientSession, *, within_seconds: float) -> None:
    """Returns when all `ready_paths` of `component` have answered 200.

    ComponentFailed if it ends meanwhile, NotReady after `within_seconds`, saying what was seen last.
    """
    seen = "not asked yet"
    with anyio.move_on_after(within_seconds):
        while True:
            component.check()
            seen = await _ask(component, session)
            if seen == _READY:
                return
            await anyio.sleep(_ASK_EVERY_SECONDS)
    raise NotReady(component.name, seconds=within_seconds, seen=seen, output=component.tail(), log=component.log)


async def _ask(component: Component, session: aiohttp.ClientSession) -> str:
    for path in component.launch.ready_paths:
        url = component.launch.url + path
        try:
            async with session.get(url, timeout=_ANSWER_WITHIN) as answer:
                if answer.status != 200:
                    return f"{path} answered {answer.status}: {(await answer.text())[:300]}"
        except (aiohttp.ClientError, TimeoutError) as err:
            return f"{path}: {type(err).__name__}: {err}"
    return _READY
