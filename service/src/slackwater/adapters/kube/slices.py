"""Reads lists page by page, splits their objects, as bytes, into slices of bounded work for the event loop, and decodes large
objects in a thread.

    for some in slices(items):
        events = await read(partial(reader.read_items, some), some)
"""

from collections.abc import Callable, Iterator, Sequence, Sized
from http import HTTPStatus
from typing import Final, TypeVar

from slackwater.adapters.api_calls import NO_PARAMS, ApiReads, Params, Read
from slackwater.adapters.api_objects import ListWire, ObjectDecoder
from slackwater.adapters.kube.errors import UNREADABLE, AnswerTooLarge, MalformedAnswer, refused
from slackwater.ports.threads import in_thread

_PAGE: Final = ObjectDecoder(ListWire)
T = TypeVar("T")
Item = TypeVar("Item", bound=Sized)

#: Decoding takes up to 0.1 ms for each KiB of JSON: a typical pod has 5 KiB, and one that says much has this many bytes.
LARGE_BYTES: Final = 64 * 1024
_PAGE_BYTES: Final = 16 * 2**20
#: The most bytes and objects of a slice, except that of a single large object.
_SLICE_BYTES: Final = 256 * 1024
_SLICE: Final = 64


def slices(items: Sequence[Item]) -> Iterator[list[Item]]:
    """The items in lists, in order. A large one is alone in its list."""
    some: list[Item] = []
    n_bytes = 0
    for item in items:
        size = len(item)
        if some and (size > LARGE_BYTES or len(some) == _SLICE or n_bytes + size > _SLICE_BYTES):
            yield some
            some, n_bytes = [], 0
        some.append(item)
        n_bytes += size
        if size > LARGE_BYTES:
            yield some
            some, n_bytes = [], 0
    if some:
        yield some


class PageSize:
    """How many objects to ask for at once: at most `most`, and fewer while they are so large that a page would take more than
    `_PAGE_BYTES`. Splitting that many bytes into objects takes 10 ms, and the page is in memory as a whole."""

    def __init__(self, most: int) -> None:
        self._most = self._size = most

    def __str__(self) -> str:
        return str(self._size)

    @property
    def most_bytes(self) -> int | None:
        """The limit of an answer's size; None for a single object, which may have any size."""
        return None if self._size == 1 else _PAGE_BYTES

    def was_too_large(self) -> None:
        self._size = max(1, self._size // 8)

    def had(self, n_bytes: int) -> None:
        """A page had so many bytes."""
        if n_bytes < _PAGE_BYTES // 4:
            self._size = min(self._most, 2 * self._size)


async def read_page(
    client: ApiReads, path: str, token: str, size: PageSize, *, timeout_seconds: float, selector: Params = NO_PARAMS
) -> ListWire:
    """One page of a list: the first if `token` is "", else the one after the page that named this token. Raises `KubeError`."""
    params = {"limit": str(size), **selector, **({"continue": token} if token else {})}
    call = Read(path, params=params, timeout_seconds=timeout_seconds, pool="event_sources", most_bytes=size.most_bytes)
    try:
        answer = await client.send(call)
    except AnswerTooLarge:
        size.was_too_large()
        return await read_page(client, path, token, size, timeout_seconds=timeout_seconds, selector=selector)
    size.had(len(answer.body))
    if answer.status != HTTPStatus.OK:
        raise refused(f"list {path}", answer)
    try:
        return _PAGE.decode(answer.body)
    except UNREADABLE as error:
        raise MalformedAnswer(f"list {path}: {len(answer.body)} bytes that are no list: {error}") from error


async def read(work: Callable[[], T], items: Sequence[Sized]) -> T:
    """Does the work of reading these items: in a thread if it is one large item."""
    if len(items) == 1 and len(items[0]) > LARGE_BYTES:
        return await in_thread(work)
    return work()
