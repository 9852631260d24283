"""Parses HTTP/1.1 requests, ignores offers of another protocol, and recognizes heads that a connection has sent before.

- `RequestParser`: httptools stops at the head of a request with an `Upgrade` header and treats its body as the other protocol.
  `curl --http2` and Java's HttpClient offer HTTP/2 with the first request of a connection, also if it has a body. A server may
  ignore the offer (RFC 9110, 7.8). So this parser feeds the head to a new httptools parser without the offer, then the body and
  later requests. Bytes after CONNECT are not HTTP: the parser skips them and reports that the connection ends with the answer.
- `RepeatedHeads`: kube-scheduler sends the same head with every call of a verb, but for its Content-Length. httptools calls us
  a dozen times for each head; comparing bytes costs half as much. In: bytes with which a request begins. Out: the request, if
  the bytes are exactly one request with a known head. The parser has to read everything else: a part of a request, several
  requests, a new head.
"""

import re
from typing import Final, NamedTuple, Protocol

import httptools

from slackwater.adapters.http.application import Request

#: The headers that determine where a request ends, and whether another may follow.
_FRAMING: Final = frozenset({b"connection", b"content-length", b"proxy-connection", b"transfer-encoding"})
_CONNECT: Final = b"CONNECT"


def origin_form(target: bytes) -> bytes:
    """Returns the path and query of a request's target. Clients of a proxy put scheme and host first (RFC 9112, 3.2.2)."""
    if target.startswith(b"/") or b"://" not in target:
        return target
    rest = target.partition(b"://")[2]
    host_ends = min(at for at in (rest.find(b"/"), rest.find(b"?"), len(rest)) if at >= 0)
    return rest[host_ends:] if rest[host_ends:].startswith(b"/") else b"/" + rest[host_ends:]


class Reader(Protocol):
    """Receives the parts of requests, in the order of arrival."""

    def on_message_begin(self) -> None: ...
    def on_url(self, url: bytes) -> None: ...
    def on_header(self, name: bytes, value: bytes) -> None: ...
    def on_headers_complete(self) -> None: ...
    def on_body(self, body: bytes, /) -> None: ...
    def on_message_complete(self) -> None: ...


class RequestParser:
    """The parser of one connection. `leniencies` are the arguments of httptools' `set_dangerous_leniencies`."""

    def __init__(self, reader: Reader, **leniencies: bool) -> None:
        self._reader = reader
        self._leniencies = leniencies
        self.on_body = reader.on_body
        self._framing: list[tuple[bytes, bytes]] = []
        self._again = False  # while a head without its upgrade offer is fed again; `reader` has seen that head already
        self._tunnel = False  # after CONNECT: input is skipped
        self._parser = self._made()

    def close(self) -> None:
        """Ends the parser with its connection. httptools' parser and this one refer to each other, and to the reader: without
        this, each connection is kept until garbage is collected, of which there may be hours without any."""
        del self._parser, self._reader, self.on_body

    def _made(self) -> httptools.HttpRequestParser:
        parser = httptools.HttpRequestParser(self)
        parser.set_dangerous_leniencies(**self._leniencies)
        return parser

    def feed_data(self, data: bytes) -> None:
        """Parses `data` and calls the reader.

        :raises httptools.HttpParserError: the data is not HTTP/1.1.
        """
        rest = memoryview(data)
        while rest and not self._tunnel:
            try:
                self._parser.feed_data(rest)
            except httptools.HttpParserUpgrade as upgrade:
                rest = rest[upgrade.args[0] :]
                self._tunnel = self.get_method() == _CONNECT
                if not self._tunnel:
                    self._read_head_again()
            else:
                return

    def _read_head_again(self) -> None:
        lines = b"".join(b"%b: %b\r\n" % header for header in self._framing)
        head = b"%b / HTTP/%b\r\n%b\r\n" % (self.get_method(), self.get_http_version().encode(), lines)
        self._parser = self._made()
        self._parser.feed_data(head)

    def get_method(self) -> bytes:
        method: bytes = self._parser.get_method()
        return method

    def get_http_version(self) -> str:
        version: str = self._parser.get_http_version()
        return version

    def should_keep_alive(self) -> bool:
        return self.get_method() != _CONNECT and bool(self._parser.should_keep_alive())

    def should_upgrade(self) -> bool:
        return False

    # --- what httptools calls -----------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if not self._again:
            self._framing.clear()
            self._reader.on_message_begin()

    def on_url(self, url: bytes) -> None:
        if not self._again:
            self._reader.on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._again:
            if name.lower() in _FRAMING:
                self._framing.append((name, value))
            self._reader.on_header(name, value)

    def on_headers_complete(self) -> None:
        self._again = bool(self._parser.should_upgrade()) and self.get_method() != _CONNECT
        if not self._again:
            self._reader.on_headers_complete()

    def on_message_complete(self) -> None:
        if not self._again:
            self._reader.on_message_complete()


_LENGTH: Final = re.compile(rb"\r\ncontent-length: ([0-9]+)(?=\r\n)", re.IGNORECASE)
#: Headers by which a body may end elsewhere, or which want another answer first.
_SPECIAL: Final = re.compile(rb"\r\n(?:expect|transfer-encoding|upgrade)[ \t]*:", re.IGNORECASE)
_LINE: Final = b"\r\n"
_END: Final = _LINE + _LINE
#: The most heads that a connection keeps: one for each verb of an extender.
_MOST_HEADS: Final = 4
#: A longer head is not kept. kube-scheduler's has about 200 bytes.
_MOST_BYTES: Final = 2048
#: The most digits of a Content-Length that is recognized.
_MOST_DIGITS: Final = 12


class _KnownHead(NamedTuple):
    """A parsed head: its bytes before and after the digits of its Content-Length, and its request without the body."""

    before: bytes
    after: bytes
    request: Request


class RepeatedHeads:
    """The heads that one connection has sent, by their first lines."""

    def __init__(self) -> None:
        self._heads: dict[bytes, _KnownHead] = {}

    def learn(self, data: bytes, request: Request) -> None:
        """Keeps the head of `data`, from which the parser has read `request` last. Does nothing if `data` is not exactly this
        request, if its head is long, or if the head says more about the body than its length."""
        ends = data.find(_END, 0, _MOST_BYTES) + len(_END)
        # Several requests in one `data` are longer than the last one's body, so the lengths tell them apart.
        if ends < len(_END) or len(data) - ends != len(request.body):
            return
        head = data[:ends]
        lengths = list(_LENGTH.finditer(head))
        if len(lengths) != 1 or _SPECIAL.search(head) is not None:
            return
        start, stop = lengths[0].span(1)
        line = _first_line(head)
        if line in self._heads or len(self._heads) < _MOST_HEADS:
            self._heads[line] = _KnownHead(head[:start], head[stop:], request._replace(body=b""))

    def request_in(self, data: bytes) -> Request | None:
        """Returns the request that `data` is, if it is exactly one with a known head."""
        head = self._heads.get(_first_line(data))
        if head is None or not data.startswith(head.before):
            return None
        start = len(head.before)
        stop = data.find(_LINE, start, start + _MOST_DIGITS + len(_LINE))
        digits = data[start:stop]
        if stop < 0 or not digits.isdigit() or not data.startswith(head.after, stop):
            return None
        begins = stop + len(head.after)
        return head.request._replace(body=data[begins:]) if len(data) - begins == int(digits) else None


def _first_line(data: bytes) -> bytes:
    """The first line of `data`; b"" if it does not end within the length of a head that is kept."""
    return data[: max(0, data.find(_LINE, 0, _MOST_BYTES))]
