"""Packs JSON values into compressed text for a key of a ConfigMap, and unpacks them. A ConfigMap holds 1 MiB."""

import base64
import zlib
from typing import Any, Final

import msgspec

#: Limit of the unpacked text: whatever others write into the ConfigMap must not exhaust our memory.
_MOST_BYTES: Final = 32 * 2**20


class BadPacked(ValueError):
    """The text is not what `packed` returns."""


def packed(value: object) -> str:
    """The value as compressed JSON in base64."""
    return base64.b64encode(zlib.compress(msgspec.json.encode(value), 9)).decode("ascii")


def unpacked(text: str, *, most_bytes: int = _MOST_BYTES) -> dict[str, Any]:
    """Unpacks what `packed` has made: a JSON object. Raises BadPacked, also if it has more than `most_bytes` unpacked."""
    try:
        unpacker = zlib.decompressobj()
        raw = unpacker.decompress(base64.b64decode(text, validate=True), most_bytes)
        if unpacker.unconsumed_tail:
            raise BadPacked(f"more than {most_bytes} bytes unpacked")
        return msgspec.json.decode(raw, type=dict[str, Any])
    except (ValueError, zlib.error, msgspec.DecodeError) as error:
        raise BadPacked(str(error)) from error
