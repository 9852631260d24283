"""Decodes whole JSON documents of the API server: objects, pages of lists, lines of watches.

msgspec skips the fields that nobody reads by recursion, and Python ends that after 1,000 levels. The API server stores 10,000:
anybody may write them into `managedFields` or into a claim's opaque parameters, and one such object would make a whole list
unreadable.
"""

import sys
from typing import Final, Generic, TypeVar

import msgspec

T = TypeVar("T")

#: The API server's limit (k8s.io/apimachinery's JSON decoder), and some more for what stands around an object. Skipping a level
#: takes less than 50 bytes of the C stack.
_LEVELS: Final = 10_100


class ObjectDecoder(Generic[T]):
    """Decodes JSON into the struct `of`. Raises msgspec's errors, and `RecursionError` for what no API server stores."""

    __slots__ = ("_decode",)

    def __init__(self, of: type[T]) -> None:
        self._decode = msgspec.json.Decoder(of).decode

    def decode(self, raw: bytes | msgspec.Raw) -> T:
        try:
            return self._decode(raw)
        except RecursionError:
            usual = sys.getrecursionlimit()
            sys.setrecursionlimit(usual + _LEVELS)
            try:
                return self._decode(raw)
            finally:
                sys.setrecursionlimit(usual)
