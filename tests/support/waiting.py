"""Waits for what no event tells of, by looking again and again."""

from collections.abc import Callable

import anyio

_LOOK_EVERY_SECONDS = 0.005


async def until(true: Callable[[], bool], *, seconds: float = 60.0) -> None:
    """TimeoutError if it does not come true."""
    with anyio.fail_after(seconds):
        while True:
            if true():
                return
            await anyio.sleep(_LOOK_EVERY_SECONDS)
