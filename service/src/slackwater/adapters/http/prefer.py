"""The request header `Prefer: wait=N` of RFC 7240: how long a caller is willing to wait for a better answer."""

import re
from collections.abc import Iterable
from typing import Final

#: `wait` as a preference of its own, not as part of another word or a parameter of another preference.
_WAIT: Final = re.compile(rb'(?:^|,)\s*wait\s*=\s*"?([0-9]{1,9})"?\s*(?:[;,]|$)', re.IGNORECASE)


def wait_seconds(headers: Iterable[tuple[bytes, bytes]]) -> int:
    """The first `wait` in the headers, in seconds; 0 without one, or if it is not as the RFC has it."""
    for name, value in headers:
        if name == b"prefer" and (found := _WAIT.search(value)):
            return int(found[1])
    return 0
