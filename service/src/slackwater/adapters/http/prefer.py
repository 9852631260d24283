"""Parses the request header `Prefer: wait=N` (RFC 7240): how many seconds a caller is willing to wait for a better answer."""

import re
from collections.abc import Iterable
from typing import Final

#: Matches `wait` as a preference, not as part of another word or as a parameter of another preference.
_WAIT: Final = re.compile(rb'(?:^|,)\s*wait\s*=\s*"?([0-9]{1,9})"?\s*(?:[;,]|$)', re.IGNORECASE)


def wait_seconds(headers: Iterable[tuple[bytes, bytes]]) -> int:
    """Returns the first `wait` of the headers in seconds; 0 if there is none, or not in the RFC's form.

    `headers` are pairs of name, in lower case, and value.
    """
    for name, value in headers:
        if name == b"prefer" and (found := _WAIT.search(value)):
            return int(found[1])
    return 0
