"""Writes and reads frames on a pipe: each is preceded by its length in four bytes, big-endian."""

import struct
from typing import BinaryIO, Final

HEAD: Final = struct.Struct(">I")


def framed(frame: bytes) -> bytes:
    """The frame as it is written to the pipe, with its length first."""
    return HEAD.pack(len(frame)) + frame


def write_frame(pipe: BinaryIO, frame: bytes) -> None:
    pipe.write(framed(frame))


def read_frame(pipe: BinaryIO) -> bytes | None:
    """The next frame; None if the pipe has ended, even in the middle of a frame."""
    head = pipe.read(HEAD.size)
    if len(head) < HEAD.size:
        return None
    (length,) = HEAD.unpack(head)
    frame = pipe.read(length)
    return frame if len(frame) == length else None
