"""Waits for what no event tells of, by looking again and again."""

import math
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import anyio

_T = TypeVar("_T")
_ASK_EVERY_SECONDS: Final = 0.05
_LOOK_EVERY_SECONDS: Final = 0.005


async def until(true: Callable[[], bool], *, seconds: float = 60.0) -> None:
    """TimeoutError if it does not come true."""
    with anyio.fail_after(seconds):
        while True:
            if true():
                return
            await anyio.sleep(_LOOK_EVERY_SECONDS)


async def eventually(
    look: Callable[[], Awaitable[_T]],
    holds: Callable[[_T], bool],
    *,
    within_seconds: float,
    wanted: str,
    every_seconds: float = _ASK_EVERY_SECONDS,
) -> _T:
    """What `look` sees as soon as `holds` says yes of it; AssertionError with what it saw last after `within_seconds`.

    The last look begins at the deadline or later, so that a slow one cannot make a condition fail that was met in time.
    """
    deadline = anyio.current_time() + within_seconds
    asked_at = -math.inf
    while asked_at < deadline:
        asked_at = anyio.current_time()
        seen = await look()
        if holds(seen):
            return seen
        await anyio.sleep(every_seconds)
    raise AssertionError(f"after {within_seconds:g} s: got {seen}, want {wanted}")
