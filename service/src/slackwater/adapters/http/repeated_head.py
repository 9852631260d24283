"""Recognizes a request whose head is known, though its body is another.

kube-scheduler sends the same head with every call, but for its Content-Length. httptools calls us a dozen times for each head,
so a head is parsed once, and later ones are compared with it as bytes.

In: bytes with which a request begins. Out: the request, if the bytes are one whole request with the known head. Everything else
(a part of a request, more than one, another head) is left to the parser.
"""

import re
from typing import Final, NamedTuple

from slackwater.adapters.http.application import Request

_LENGTH: Final = re.compile(rb"\r\ncontent-length: ([0-9]+)(?=\r\n)", re.IGNORECASE)
#: Headers by which a body may end elsewhere, or which want another answer first.
_SPECIAL: Final = re.compile(rb"\r\n(?:expect|transfer-encoding|upgrade)[ \t]*:", re.IGNORECASE)
_LINE: Final = b"\r\n"
#: A longer head is not kept: each connection keeps one. kube-scheduler's has about 200 bytes.
_MOST_BYTES: Final = 2048
#: The most digits of a Content-Length that is recognized.
_MOST_DIGITS: Final = 12


class RepeatedHead(NamedTuple):
    """A head that was parsed. `before` and `after` are its bytes before and after the digits of its Content-Length, `request`
    is what it says, without a body."""

    before: bytes
    after: bytes
    request: Request

    @classmethod
    def of(cls, data: bytes, request: Request) -> "RepeatedHead | None":
        """The head of `data`, from which the parser has read `request` last. None if `data` is not exactly this request, if its
        head is long, or if its head says more about its body than the length."""
        lines, end, body = data.partition(_LINE + _LINE)
        head = lines + end
        if len(head) > _MOST_BYTES:
            return None
        lengths = list(_LENGTH.finditer(head))
        if body != request.body or len(lengths) != 1 or _SPECIAL.search(head) is not None:
            return None
        start, stop = lengths[0].span(1)
        return cls(head[:start], head[stop:], request._replace(body=b""))

    def request_in(self, data: bytes) -> Request | None:
        """The request that `data` is, if it is exactly one with this head."""
        if not data.startswith(self.before):
            return None
        start = len(self.before)
        stop = data.find(_LINE, start, start + _MOST_DIGITS + len(_LINE))
        digits = data[start:stop]
        if stop < 0 or not digits.isdigit() or not data.startswith(self.after, stop):
            return None
        body = data[stop + len(self.after) :]
        return self.request._replace(body=body) if len(body) == int(digits) else None
