"""Load by the clock: requests leave when they are due, whether or not earlier ones were answered.

Latency counts from when a request was due, so that a server that stops for a moment shows it in every request of that moment.
One thread, prepared bytes, many keep-alive connections: a few microseconds of client for each request.
"""

import math
import select
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Final

from tests.bench.options import PATIENCE_SECONDS, BenchFailed

_RECEIVED_BYTES: Final = 1 << 18
_END_OF_HEAD: Final = b"\r\n\r\n"
_LENGTH: Final = b"content-length: "
#: Below this the clock is watched, above the kernel waits: its timeouts are whole milliseconds.
_SPUN_SECONDS: Final = 0.002


@dataclass(slots=True, kw_only=True)
class Stream:
    """Requests `per_second` in turn, over so many connections; `seconds` is each one's latency, in the order of answers.

    `once`: each request one time, then no more.
    """

    name: str
    port: int
    requests: Sequence[bytes]
    per_second: float
    connections: int
    once: bool = False
    seconds: list[float] = field(default_factory=list)
    sent: int = 0
    _idle: list[socket.socket] = field(default_factory=list)

    def connect(self, stack: ExitStack) -> None:
        for _ in range(self.connections):
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", self.port)))
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._idle.append(connection)

    def due_at(self, start: float) -> float:
        """When the next request is due; never, where none is left."""
        return math.inf if self.once and self.sent == len(self.requests) else start + self.sent / self.per_second


@dataclass(slots=True)
class _Call:
    stream: Stream
    connection: socket.socket
    due_at: float
    answer: bytes = b""

    def complete(self) -> bool:
        """Raises BenchFailed for anything but a 200."""
        head, end, body = self.answer.partition(_END_OF_HEAD)
        if not end:
            return False
        if not head.startswith(b"HTTP/1.1 200 "):
            raise BenchFailed(f"{self.stream.name}: got {self.answer[:300]!r}, want 200")
        at = head.lower().index(_LENGTH) + len(_LENGTH)
        return len(body) >= int(head[at:].partition(b"\r\n")[0])


def drive(streams: Sequence[Stream], seconds: float, *, clock: Callable[[], float] = time.perf_counter) -> None:
    """Sends what is due for so many seconds, or until nothing is left to send; then waits for the answers still to come."""
    with ExitStack() as stack:
        for stream in streams:
            stream.connect(stack)
        poll = select.epoll()
        stack.callback(poll.close)
        calls: dict[int, _Call] = {}
        start = clock()
        end = start + seconds
        while (now := clock()) < end or calls:
            if now < end:
                for stream in streams:
                    _send_due(stream, start, now, poll, calls)
            elif now > end + PATIENCE_SECONDS:
                raise BenchFailed(f"{len(calls)} requests not answered {PATIENCE_SECONDS:g} s after the last one was due")
            next_due = min(stream.due_at(start) for stream in streams)
            if next_due == math.inf:
                end = min(end, now)
            for number, _ in poll.poll(0 if next_due - clock() < _SPUN_SECONDS and now < end else 0.001):
                _receive(calls, number, poll, clock)


def _send_due(stream: Stream, start: float, now: float, poll: select.epoll, calls: dict[int, _Call]) -> None:
    while stream._idle and (due_at := stream.due_at(start)) <= now:
        connection = stream._idle.pop()
        connection.sendall(stream.requests[stream.sent % len(stream.requests)])
        stream.sent += 1
        calls[connection.fileno()] = _Call(stream, connection, due_at)
        poll.register(connection, select.EPOLLIN)


def _receive(calls: dict[int, _Call], number: int, poll: select.epoll, clock: Callable[[], float]) -> None:
    call = calls[number]
    received = call.connection.recv(_RECEIVED_BYTES)
    if not received:
        raise BenchFailed(f"{call.stream.name}: connection closed after {len(call.answer)} bytes of an answer")
    call.answer += received
    if call.complete():
        call.stream.seconds.append(clock() - call.due_at)
        poll.unregister(number)
        del calls[number]
        call.stream._idle.append(call.connection)
