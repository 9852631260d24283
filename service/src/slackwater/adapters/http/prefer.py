"""The request header `Prefer: wait=N` of RFC 7240: how long a caller is willing to wait for a better answer."""

import re
from collections.abc import Iterable
from typing import Final

#: `wait` alone, not as a part of another word or as a parameter of another preference.
_WAIT: Final = re.compile(rb'(?:^|,)\s*wait\s*=\s*"?([0-9]{1,9})"?\s*(?:[;,]|$)', re.IGNORECASE)


def wait_seconds(headers: Iterable[tuple[bytes, bytes]]) -> int:
    """The first `wait` of the headers; 0 where none is asked for, or in a form that the RFC does not know."""
    for name, value in headers:
        if name == b"prefer" and (found := _WAIT.search(value)):
            return int(found[1])
    return 0
