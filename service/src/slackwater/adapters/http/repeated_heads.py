"""Recognizes requests whose heads a connection has sent before, so that the parser does not read these heads again.

kube-scheduler sends the same head with every call of a verb, but for its Content-Length. httptools calls us a dozen times for
each head; comparing bytes costs half as much.

In: bytes with which a request begins. Out: the request, if the bytes are exactly one request with a known head. The parser has
to read everything else: a part of a request, several requests, a new head.
"""

import re
from typing import Final, NamedTuple

from slackwater.adapters.http.application import Request

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


class _Head(NamedTuple):
    """A parsed head: its bytes before and after the digits of its Content-Length, and its request without the body."""

    before: bytes
    after: bytes
    request: Request


class RepeatedHeads:
    """The heads that one connection has sent, by their first lines."""

    def __init__(self) -> None:
        self._heads: dict[bytes, _Head] = {}

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
            self._heads[line] = _Head(head[:start], head[stop:], request._replace(body=b""))

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
