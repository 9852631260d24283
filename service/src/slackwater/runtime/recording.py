"""A record of everything the state machine is told and asked, as a compressed file: bounded, written beside the event loop.

Frames are collected on the loop and appended by a worker thread twice a second. The file is a gzip stream of frames, each with
its length before it; after every append it is flushed, so that what a killed process leaves can be read up to then. A record
with a hole could not be repeated: where the file reaches its bound, or the thread falls behind, the record ends, and says why.
Records of earlier starts are kept beside it, `FILE.1` the latest: what a restart makes again is not lost with what led to it.
"""

import gzip
import os
import struct
import zlib
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import IO, Final

import anyio
import anyio.to_thread
import structlog

from slackwater.runtime.record.calls import END, frame

_log = structlog.get_logger(__name__)

_APPEND_SECONDS: Final = 0.5
#: Frames that wait for the thread, in bytes.
_MOST_WAITING: Final = 256 << 20
#: A pod with everything that can be said of it has less.
_LARGEST_FRAME: Final = 64 << 20
_LENGTH: Final = struct.Struct(">I")
_LEVEL: Final = 1
#: What an end needs in the file.
_RESERVE: Final = 1024
_CLOSE_SECONDS: Final = 10.0


class RecordError(Exception):
    """The file cannot be written, or is no record; the message names it."""


class Recording:
    """One file, from its making to the end of the process, or of what it may hold."""

    def __init__(self, path: str, *, max_bytes: int, keep: int = 0) -> None:
        """`keep`: so many earlier records stay, as `path.1`, `path.2` ...

        :raises RecordError: the file cannot be made.
        """
        self.path = path
        self.frames = 0
        #: Why nothing more is recorded; empty while it is.
        self.ended = ""
        self._max_bytes = max_bytes
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._unflushed = 0
        try:
            _make_way(Path(path), keep)
            # It names every pod of the cluster: for its owner alone.
            self._raw: IO[bytes] = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb")
        except OSError as error:
            raise RecordError(f"{path}: cannot be written: {error.strerror}") from error
        self._zipped = gzip.GzipFile(fileobj=self._raw, mode="wb", compresslevel=_LEVEL, mtime=0)

    def tell(self, told: bytes) -> None:
        """Takes a frame; costs an append to a list."""
        if self.ended:
            return
        self._waiting.append(told)
        self._waiting_bytes += len(told)
        if self._waiting_bytes > _MOST_WAITING:
            self._end(f"more than {_MOST_WAITING} bytes wait to be written")

    def _end(self, why: str) -> None:
        self.ended = why
        _log.warning("recording ended", file=self.path, why=why, frames=self.frames + len(self._waiting))

    async def run(self) -> None:
        """Appends until cancelled; what has come by then is written."""
        try:
            while True:
                await anyio.sleep(_APPEND_SECONDS)
                await anyio.to_thread.run_sync(self._append)
        finally:
            with anyio.move_on_after(_CLOSE_SECONDS, shield=True):
                await anyio.to_thread.run_sync(self._close)

    def _append(self) -> None:
        """In the thread. The loop may go on telling: the list is taken whole."""
        frames, self._waiting, self._waiting_bytes = self._waiting, [], 0
        for told in frames:
            if self._zipped.closed:
                return
            if not self._has_room(len(told)):
                self._end(f"the file has reached {self._max_bytes} bytes")
                self._finish()
                return
            self._write(told)
            self.frames += 1
        if frames and not self._zipped.closed:
            self._flush()
            if self.ended:
                self._finish()

    def _has_room(self, length: int) -> bool:
        """What was not flushed yet counts as if it were not compressed at all: the bound holds whatever comes."""
        if self._raw.tell() + self._unflushed + length + _RESERVE > self._max_bytes:
            self._flush()
        return self._raw.tell() + self._unflushed + length + _RESERVE <= self._max_bytes

    def _flush(self) -> None:
        self._zipped.flush()
        self._unflushed = 0

    def _write(self, told: bytes) -> None:
        self._zipped.write(_LENGTH.pack(len(told)))
        self._zipped.write(told)
        self._unflushed += _LENGTH.size + len(told)

    def _finish(self) -> None:
        self._write(frame(END, 0.0, self.ended, None))
        self._zipped.close()
        self._raw.close()

    def _close(self) -> None:
        self._append()
        if not self._zipped.closed:
            self.ended = self.ended or "the service ended"
            self._finish()


def _make_way(path: Path, keep: int) -> None:
    """Each record gets the next number; what would get one above `keep` is dropped. Without `keep` nothing is moved."""
    names = [path, *(path.with_name(f"{path.name}.{number}") for number in range(1, keep + 1))]
    for newer, older in reversed([*pairwise(names)]):
        if newer.is_file():
            newer.replace(older)


def frames_of(path: str, tell_read: Callable[[int], None] = lambda _: None) -> Iterator[bytes]:
    """The frames of a record; one that a killed process left ends with the last whole frame. Raises `RecordError`.

    `tell_read` is told before each frame how many bytes of the file have been read.
    """
    try:
        with Path(path).open("rb") as raw, gzip.GzipFile(fileobj=raw) as file:
            for body in _frames(file, path):
                tell_read(raw.tell())
                yield body
    except FileNotFoundError as error:
        raise RecordError(f"{path}: is not there") from error
    except (OSError, zlib.error) as error:
        raise RecordError(f"{path}: is no record: {error}") from error


def _frames(file: gzip.GzipFile, path: str) -> Iterator[bytes]:
    while True:
        try:
            head = file.read(_LENGTH.size)
            if len(head) < _LENGTH.size:
                return
            (length,) = _LENGTH.unpack(head)
            if length > _LARGEST_FRAME:
                raise RecordError(f"{path}: got a frame of {length} bytes, want at most {_LARGEST_FRAME}")
            body = file.read(length)
        except EOFError:  # cut off: the process was killed
            return
        if len(body) < length:
            return
        yield body
