"""Reads and writes the ConfigMap with what was observed of arrivals and node start times: compressed JSON, the text of one key.

Eight days of a class take about 10 kB in this form. A ConfigMap holds 1 MiB.
"""

import base64
import binascii
import zlib
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from slackwater.adapters.kube.client import ApiPort, Call
from slackwater.adapters.kube.config_maps import ConfigMapWriter
from slackwater.adapters.kube.errors import KubeError
from slackwater.adapters.kube.wire import Wire

CONFIG_MAP: Final = "slackwater-arrivals"
_KEY: Final = "observed"
_NOT_FOUND: Final = 404
_OK: Final = 200
#: Limit of the unpacked text: whatever others write into the ConfigMap must not exhaust our memory.
_MOST_BYTES: Final = 32 * 2**20
_READ_SECONDS: Final = 5.0


class BadArrivals(ValueError):
    """The ConfigMap exists, but does not contain what we write."""


class _ConfigMapWire(Wire):
    data: dict[str, str] | None = None


class ArrivalsStore:
    """Reads and writes the arrivals ConfigMap of one namespace."""

    def __init__(self, client: ApiPort, *, namespace: str) -> None:
        self._client = client
        self._path = f"/api/v1/namespaces/{namespace}/configmaps/{CONFIG_MAP}"
        self._writer = ConfigMapWriter(client, namespace=namespace, name=CONFIG_MAP)

    async def read(self) -> dict[str, Any] | None:
        """The stored observations; None if there are none yet. Raises KubeError and BadArrivals."""
        answer = await self._client.send(Call("GET", self._path, timeout_seconds=_READ_SECONDS))
        if answer.status == _NOT_FOUND:
            return None
        if answer.status != _OK:
            raise KubeError(f"read {self._path}: got status {answer.status}, want {_OK}")
        try:
            text = (msgspec.json.decode(answer.body, type=_ConfigMapWire).data or {}).get(_KEY)
        except msgspec.DecodeError as error:
            raise BadArrivals(f"ConfigMap {CONFIG_MAP}: {error}") from error
        return None if text is None else decode_observed(text)

    async def write(self, observed: Mapping[str, Any]) -> bool:
        """Writes the observations; true if that succeeded. A failure is logged."""
        return await self._writer.write({_KEY: encode_observed(observed)}, {})


def encode_observed(observed: Mapping[str, Any]) -> str:
    return base64.b64encode(zlib.compress(msgspec.json.encode(observed), 9)).decode("ascii")


def decode_observed(text: str) -> dict[str, Any]:
    """Decodes the text that `encode_observed` makes. Raises BadArrivals."""
    try:
        unpacker = zlib.decompressobj()
        raw = unpacker.decompress(base64.b64decode(text, validate=True), _MOST_BYTES)
        if unpacker.unconsumed_tail:
            raise BadArrivals(f"ConfigMap {CONFIG_MAP}: more than {_MOST_BYTES} bytes unpacked")
        return msgspec.json.decode(raw, type=dict[str, Any])
    except (binascii.Error, zlib.error, msgspec.DecodeError) as error:
        raise BadArrivals(f"ConfigMap {CONFIG_MAP}: {error}") from error
