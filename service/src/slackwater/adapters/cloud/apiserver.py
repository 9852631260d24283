"""The API server as providers use it: paged lists, and errors as `ProviderError`. Single requests are `api_calls.get`.

- `listed` yields the objects of a collection, also those that cannot be decoded.
- `refusal` makes the error for an unsuccessful answer.
- `bounded`, `each`, `repeated`: a timeout, a limit of concurrent requests, and repeats after conflicts.

Requests are repeated only after a conflict with another writer.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Final, TypeVar

import anyio
import msgspec

from slackwater.adapters.api_calls import ApiReads, NotSent, Response, Unanswered, get
from slackwater.adapters.api_objects import ListWire, ObjectDecoder, ObjectMetaWire, ObjectWire
from slackwater.model.exponential_backoff import ExponentialBackoff
from slackwater.model.nodegroups import GroupName
from slackwater.ports.protocols import ProviderError

T = TypeVar("T")

OK: Final = 200
CREATED: Final = 201
NOT_FOUND: Final = 404
CONFLICT: Final = 409

#: Objects in one page of a list, so that decoding a page does not occupy the event loop for long.
_PAGE: Final = 500
#: Statuses after which the request certainly had no effect: overload, startup and shutdown. Other 5xx may be timeouts of etcd.
_NOTHING_HAPPENED: Final = frozenset({429, 503})
_LONGEST_DETAIL: Final = 300


def refusal(group: GroupName | None, what: str, answer: Response) -> ProviderError:
    """Returns the error to raise for an unsuccessful answer. `what` names the request in the error's text.

    The error's kind is `unknown` if the request may have had its effect, otherwise `other`.
    """
    detail = f"{what}: {answer.status}: {answer.body.decode(errors='replace')[:_LONGEST_DETAIL]}"
    unsure = answer.status >= 500 and answer.status not in _NOTHING_HAPPENED
    return ProviderError("unknown" if unsure else "other", group, detail)


def check_seen(group: GroupName, *, target: int, seen: int) -> None:
    """Raises a `conflict` if the group's target size is not the one that the caller saw."""
    if target != seen:
        raise ProviderError("conflict", group, f"the target is {target}, not {seen}")


def check_growth(group: GroupName, *, target: int, seen: int, to: int, most: int) -> None:
    """As `check_seen`; raises a `limit`, too, if the group may not have so many nodes."""
    check_seen(group, target=target, seen=seen)
    if to > most:
        raise ProviderError("limit", group, f"got {to} nodes, want at most {most}")


def check_lowering(group: GroupName, *, target: int, seen: int, to: int, least: int) -> None:
    """As `check_seen`; raises a `limit`, too, if the group must have more nodes."""
    check_seen(group, target=target, seen=seen)
    if to < least:
        raise ProviderError("limit", group, f"got {to} nodes, want at least {least}")


@dataclass(frozen=True, slots=True)
class Undecoded:
    """An object of a list that is not as its type says: its metadata, its JSON, and what is wrong with it."""

    metadata: ObjectMetaWire
    raw: msgspec.Raw
    problem: str


async def listed(api: ApiReads, path: str, kind: type[T], *, selector: str = "") -> AsyncIterator[T | Undecoded]:
    """Yields the objects of a collection, page by page; none if the API server does not know the type.

    `kind` is the struct to decode, `selector` a label selector.

    :raises ProviderError: a page could not be listed.
    """
    pages, objects, bare = ObjectDecoder(ListWire), ObjectDecoder(kind), ObjectDecoder(ObjectWire)
    params = {"limit": str(_PAGE)} | ({"labelSelector": selector} if selector else {})
    while True:
        answer = await get(api, path, params=params)
        if answer.status == NOT_FOUND:
            return
        if answer.status != OK:
            raise refusal(None, f"list {path}", answer)
        page = pages.decode(answer.body)
        for item in page.items or ():
            try:
                found: T | Undecoded = objects.decode(item)
            except (msgspec.MsgspecError, RecursionError) as error:
                found = Undecoded(bare.decode(item).metadata, item, str(error))
            yield found
        if not page.metadata.continue_:
            return
        params["continue"] = page.metadata.continue_


#: Pause before another attempt; it doubles each time.
_BACKOFF: Final = ExponentialBackoff(first_seconds=0.01, longest_seconds=1.0)


@contextmanager
def provider_errors(group: GroupName | None) -> Iterator[None]:
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
    """A context like `provider_errors` with a timeout, after which it raises a `ProviderError` of kind `unknown`."""
    try:
        with anyio.fail_after(timeout_seconds), provider_errors(group):
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
                with provider_errors(group):
                    await do(item)
            except ProviderError as error:
                problems.append(error)

    async with anyio.create_task_group() as tasks:
        for item in items:
            tasks.start_soon(one, item)
    if problems:
        raise problems[0]


async def repeated(attempt: Callable[[], Awaitable[T | None]]) -> T:
    """Calls `attempt` until it returns a value, and returns this value. `attempt` returns None after a conflict of writers."""
    for failures in count(1):
        if (answer := await attempt()) is not None:
            return answer
        await anyio.sleep(_BACKOFF.seconds(failures))
    raise AssertionError("unreachable")
