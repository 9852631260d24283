"""Bounds provider calls: a timeout, a limit of concurrent requests, repeats after conflicts. Errors become `ProviderError`."""

from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Final, TypeVar

import anyio
import msgspec

from slackwater.adapters.cloud.apiserver import NotSent, Unanswered
from slackwater.model.backoff import ExponentialBackoff
from slackwater.model.nodegroups import GroupName
from slackwater.ports.protocols import ProviderError

T = TypeVar("T")

#: Pause before another attempt; it doubles each time.
_BACKOFF: Final = ExponentialBackoff(first_seconds=0.01, longest_seconds=1.0)


@contextmanager
def told(group: GroupName | None) -> Iterator[None]:
    """A context that raises the errors of API requests in its body as `ProviderError`."""
    try:
        yield
    except Unanswered as error:
        raise ProviderError("unknown", group, str(error)) from error
    except NotSent as error:
        raise ProviderError("other", group, str(error)) from error
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ProviderError("other", group, f"the API server's answer cannot be read: {error}") from error


@contextmanager
def bounded(group: GroupName | None, timeout_seconds: float) -> Iterator[None]:
    """A context like `told` with a timeout, after which it raises a `ProviderError` of kind `unknown`."""
    try:
        with anyio.fail_after(timeout_seconds), told(group):
            yield
    except TimeoutError as error:
        raise ProviderError("unknown", group, f"no answer within {timeout_seconds:g} s") from error


async def each(group: GroupName | None, items: Iterable[T], do: Callable[[T], Awaitable[None]], *, width: int) -> None:
    """Calls `do` for every item, at most `width` at a time, and waits for all.

    :raises ProviderError: the first error of any item, after all have ended.
    """
    limiter = anyio.CapacityLimiter(width)
    problems: list[ProviderError] = []

    async def one(item: T) -> None:
        async with limiter:
            try:
                with told(group):
                    await do(item)
            except ProviderError as error:
                problems.append(error)

    async with anyio.create_task_group() as tasks:
        for item in items:
            tasks.start_soon(one, item)
    if problems:
        raise problems[0]


async def repeated(attempt: Callable[[], Awaitable[T | None]]) -> T:
    """Repeats `attempt` until it returns other than None, which it returns after a conflict with another writer."""
    for failures in count(1):
        if (answer := await attempt()) is not None:
            return answer
        await anyio.sleep(_BACKOFF.seconds(failures))
    raise AssertionError("unreachable")
