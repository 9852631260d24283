"""Bytes as they arrive into whole lines: a watch is one JSON document a line, in chunks cut anywhere."""

from typing import Final

from slackwater.adapters.kube.errors import Garbled

#: The API server stores no object above 1.5 MiB or so; JSON, with its managed fields, is a few times that.
LONGEST_LINE: Final = 32 * 2**20


class LineSplitter:
    """Keeps the unfinished end of what has arrived. Work and memory are linear in the bytes, however they are cut."""

    def __init__(self, longest: int = LONGEST_LINE) -> None:
        self._longest = longest
        self._begun = bytearray()

    def event_source(self, chunk: bytes) -> list[bytes]:
        """The lines that `chunk` completes, without their ends; empty ones are left out. Raises `Garbled`."""
        cut = chunk.rfind(b"\n")
        if cut < 0:
            self._begin(chunk)
            return []
        whole = chunk[:cut]
        if self._begun:
            whole = bytes(self._begun) + whole
            self._begun.clear()
        self._begin(chunk[cut + 1 :])
        return [line for line in whole.split(b"\n") if line]

    def _begin(self, rest: bytes) -> None:
        self._begun += rest
        if len(self._begun) > self._longest:
            raise Garbled(f"a line of {len(self._begun)} bytes and no end of it, want at most {self._longest}")
