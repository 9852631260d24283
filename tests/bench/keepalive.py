"""A client that costs next to nothing: one keep-alive connection, requests made beforehand, answers read into one buffer."""

import socket
import time
from types import TracebackType
from typing import Final, Self

from tests.bench.options import PATIENCE_SECONDS, BenchFailed

_BUFFER_BYTES: Final = 8 * 2**20
_LENGTH: Final = b"content-length: "


def a_request(path: str, body: bytes) -> bytes:
    """A POST as Go's client sends one."""
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


class KeepAlive:
    """A context manager: one connection. Not for use by two at once."""

    def __init__(self, port: int) -> None:
        self._buffer = memoryview(bytearray(_BUFFER_BYTES))
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._socket.close()

    def ask(self, request: bytes) -> tuple[float, memoryview]:
        """Seconds from the first byte sent to the last received, and the body, which the next call overwrites.

        Raises BenchFailed for any status but 200, OSError where the connection breaks.
        """
        started = time.perf_counter()
        self._socket.sendall(request)
        received, whole, start = self._head()
        while received < whole:
            received += self._receive(received)
        return time.perf_counter() - started, self._buffer[start:whole]

    def _head(self) -> tuple[int, int, int]:
        """Bytes received so far, bytes of the whole answer, bytes of its head."""
        received, end = 0, -1
        while end < 0:
            received += self._receive(received)
            head = bytes(self._buffer[: min(received, 4096)])
            end = head.find(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200 "):
            raise BenchFailed(f"got {bytes(self._buffer[:received])[:500]!r}, want 200")
        at = head.lower().index(_LENGTH) + len(_LENGTH)
        length = int(head[at : head.index(b"\r\n", at)])
        return received, end + 4 + length, end + 4

    def _receive(self, at: int) -> int:
        count = self._socket.recv_into(self._buffer[at:])
        if not count:
            raise BenchFailed(f"connection closed after {at} bytes of an answer")
        return count
