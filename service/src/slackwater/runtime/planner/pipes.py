"""Parcels on a pipe: four bytes that say how long it is, then the frame."""

import struct
from typing import BinaryIO, Final

HEAD: Final = struct.Struct(">I")


def framed(frame: bytes) -> bytes:
    """As it goes through the pipe."""
    return HEAD.pack(len(frame)) + frame


def write_frame(pipe: BinaryIO, frame: bytes) -> None:
    pipe.write(framed(frame))


def read_frame(pipe: BinaryIO) -> bytes | None:
    """None where the pipe has ended, be it in the middle of a frame."""
    head = pipe.read(HEAD.size)
    if len(head) < HEAD.size:
        return None
    (length,) = HEAD.unpack(head)
    frame = pipe.read(length)
    return frame if len(frame) == length else None
