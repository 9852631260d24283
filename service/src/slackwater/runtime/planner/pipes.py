"""Parcels on a pipe: four bytes that say how long it is, then the parcel."""

import struct
from typing import BinaryIO, Final

HEAD: Final = struct.Struct(">I")


def framed(parcel: bytes) -> bytes:
    """As it goes through the pipe."""
    return HEAD.pack(len(parcel)) + parcel


def write_parcel(pipe: BinaryIO, parcel: bytes) -> None:
    pipe.write(framed(parcel))


def read_parcel(pipe: BinaryIO) -> bytes | None:
    """None where the pipe has ended, be it in the middle of a parcel."""
    head = pipe.read(HEAD.size)
    if len(head) < HEAD.size:
        return None
    (length,) = HEAD.unpack(head)
    parcel = pipe.read(length)
    return parcel if len(parcel) == length else None
