"""Writes the record of all calls of the state machine to a compressed file of bounded size, outside the event loop.

The event loop collects frames; a worker thread appends them twice a second. The file is a gzip stream of frames, each preceded
by its length. It is flushed after each append, so the record of a killed process is readable up to the last append. A record
with a gap could not be replayed. So if the file reaches its bound, or the thread falls behind, the record ends with a frame
that states why.
Records of earlier starts are kept as `FILE.1` (the latest), `FILE.2` and so on, so a restart does not delete the record of what
led to it.
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
#: The most bytes of frames that may wait for the thread.
_MOST_WAITING: Final = 256 << 20
#: A longer frame means a corrupt file; the API server allows no object near this size.
_LARGEST_FRAME: Final = 64 << 20
_LENGTH: Final = struct.Struct(">I")
_LEVEL: Final = 1
#: Bytes reserved in the file for the end frame.
_RESERVE: Final = 1024
_CLOSE_SECONDS: Final = 10.0


class RecordError(Exception):
    """The file cannot be written or read, or is not a record. The message names the file."""


class RecordWriter:
    """Records to one file, from construction until the process ends or the file reaches its bound."""

    def __init__(self, path: str, *, max_bytes: int, keep: int = 0) -> None:
        """Opens the file. `keep`: the number of earlier records to keep, as `path.1`, `path.2` ...

        :raises RecordError: the file cannot be created.
        """
        self.path = path
        self.frames = 0
        #: Why the record ended; empty while recording.
        self.ended = ""
        self._max_bytes = max_bytes
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._unflushed = 0
        try:
            _rotate(Path(path), keep)
            # Readable by its owner only: the record names every pod of the cluster.
            self._raw: IO[bytes] = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb")
        except OSError as error:
            raise RecordError(f"{path}: cannot be written: {error.strerror}") from error
        self._zipped = gzip.GzipFile(fileobj=self._raw, mode="wb", compresslevel=_LEVEL, mtime=0)

    def write_frame(self, frame: bytes) -> None:
        """Adds a frame to those that wait for the thread; costs one append to a list. Does nothing if the record has ended."""
        if self.ended:
            return
        self._waiting.append(frame)
        self._waiting_bytes += len(frame)
        if self._waiting_bytes > _MOST_WAITING:
            self._end(f"more than {_MOST_WAITING} bytes wait to be written")

    def _end(self, why: str) -> None:
        self.ended = why
        _log.warning("recording ended", file=self.path, why=why, frames=self.frames + len(self._waiting))

    async def run(self) -> None:
        """Appends frames until cancelled; then writes the remaining ones and closes the file."""
        try:
            while True:
                await anyio.sleep(_APPEND_SECONDS)
                await anyio.to_thread.run_sync(self._append)
        finally:
            with anyio.move_on_after(_CLOSE_SECONDS, shield=True):
                await anyio.to_thread.run_sync(self._close)

    def _append(self) -> None:
        """Writes the waiting frames; runs in the thread. Replaces the list first, because the event loop may call `write_frame`
        meanwhile."""
        frames, self._waiting, self._waiting_bytes = self._waiting, [], 0
        for waiting in frames:
            if self._zipped.closed:
                return
            if not self._has_room(len(waiting)):
                self._end(f"the file has reached {self._max_bytes} bytes")
                self._finish()
                return
            self._write(waiting)
            self.frames += 1
        if frames and not self._zipped.closed:
            self._flush()
            if self.ended:
                self._finish()

    def _has_room(self, length: int) -> bool:
        """Does the file have room for a frame of this length? Assumes the worst case: bytes not flushed yet do not compress."""
        if self._raw.tell() + self._unflushed + length + _RESERVE > self._max_bytes:
            self._flush()
        return self._raw.tell() + self._unflushed + length + _RESERVE <= self._max_bytes

    def _flush(self) -> None:
        self._zipped.flush()
        self._unflushed = 0

    def _write(self, frame: bytes) -> None:
        self._zipped.write(_LENGTH.pack(len(frame)))
        self._zipped.write(frame)
        self._unflushed += _LENGTH.size + len(frame)

    def _finish(self) -> None:
        self._write(frame(END, 0.0, self.ended, None))
        self._zipped.close()
        self._raw.close()

    def _close(self) -> None:
        self._append()
        if not self._zipped.closed:
            self.ended = self.ended or "the service ended"
            self._finish()


def _rotate(path: Path, keep: int) -> None:
    """Renames each earlier record to the next number; the oldest is overwritten. With `keep` 0 nothing is renamed."""
    names = [path, *(path.with_name(f"{path.name}.{number}") for number in range(1, keep + 1))]
    for newer, older in reversed([*pairwise(names)]):
        if newer.is_file():
            newer.replace(older)


def frames_of(path: str, on_read: Callable[[int], None] = lambda _: None) -> Iterator[bytes]:
    """The frames of a record. The record of a killed process ends with its last complete frame.

    `on_read` is called before each frame with the number of bytes of the file that have been read.

    :raises RecordError: the file does not exist, cannot be read, or is not a record.
    """
    try:
        with Path(path).open("rb") as raw, gzip.GzipFile(fileobj=raw) as file:
            for body in _frames(file, path):
                on_read(raw.tell())
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
