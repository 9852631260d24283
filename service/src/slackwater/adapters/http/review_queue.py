"""Places among the concurrent token reviews: known callers come first, the others take turns by their address.

A caller whose token was accepted before waits for no caller whose token was not. Tokens that are not known queue by the address
that sent them, and the addresses take turns: a thousand random tokens from one address delay a caller from another address by
one review. Invariant: a place is free, or held by one caller whose `place` has not ended.
"""

from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio


class ReviewQueue:
    """Hands out `most` places at a time."""

    def __init__(self, most: int) -> None:
        self._free = most
        self._known: deque[anyio.Event] = deque()
        #: The callers that wait, by address. The address whose turn is next comes first; none has an empty queue.
        self._by_address: OrderedDict[str, deque[anyio.Event]] = OrderedDict()

    @asynccontextmanager
    async def place(self, address: str, *, known: bool) -> AsyncIterator[None]:
        """Waits for a place, and holds it. `known`: the caller's token was accepted before."""
        if self._free:
            self._free -= 1
        else:
            await self._turn(address, known=known)
        try:
            yield
        finally:
            self._pass_on()

    async def _turn(self, address: str, *, known: bool) -> None:
        turn = anyio.Event()
        queue = self._known if known else self._by_address.setdefault(address, deque())
        queue.append(turn)
        try:
            await turn.wait()
        except anyio.get_cancelled_exc_class():
            if turn.is_set():
                self._pass_on()
            else:
                queue.remove(turn)
                if not queue and not known:
                    del self._by_address[address]
            raise

    def _pass_on(self) -> None:
        if self._known:
            self._known.popleft().set()
        elif self._by_address:
            address, queue = self._by_address.popitem(last=False)
            queue.popleft().set()
            if queue:
                self._by_address[address] = queue
        else:
            self._free += 1
