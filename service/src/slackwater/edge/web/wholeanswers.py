"""An answer's head leaves together with its body: one write to the socket instead of uvicorn's two.

Where a system call is dear, as in a sandbox, a second one for each answer costs more than the whole decision; and the
caller is woken twice.
"""

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_STATUS_LINE: Final = b"HTTP/1.1 "
_INTERIM: Final = b"HTTP/1.1 1"


class WholeAnswers(HttpToolsProtocol):
    """HTTP/1.1 whose answers are written whole."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(_Joining(transport))

    def on_response_complete(self) -> None:
        if isinstance(self.transport, _Joining):
            self.transport.flush()  # of an answer to HEAD there is no more than its head
        super().on_response_complete()


class _Joining(asyncio.Transport):
    """Keeps a head until what follows it. Everything else is the transport's own."""

    __slots__ = ("_head", "_transport")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._head: bytes | None = None

    def write(self, data: bytes | bytearray | memoryview) -> None:
        head = self._head
        if head is not None:
            self._head = None
            self._transport.writelines((head, data))
        elif isinstance(data, bytes) and data.startswith(_STATUS_LINE) and not data.startswith(_INTERIM):
            self._head = data
        else:
            self._transport.write(data)

    def flush(self) -> None:
        head, self._head = self._head, None
        if head is not None:
            self._transport.write(head)

    def close(self) -> None:
        self.flush()
        self._transport.close()

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._transport.get_extra_info(name, default)

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._transport.set_protocol(protocol)
