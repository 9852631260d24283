"""Reads and writes the history's chunks. A ring has a fixed number of slots; a slot is a ConfigMap, with one chunk at a time.

Only the leader writes: the client is a `LedApi`. Anybody with the right to read the ConfigMaps can read the history, also while
no service runs.
"""

from collections.abc import Iterator
from typing import Annotated, Final, Literal

import anyio.to_thread
import msgspec
import structlog

from slackwater.adapters.api_calls import ApiPort
from slackwater.adapters.kube.config_maps import ConfigMapWriter, packed, read_config_map, unpacked
from slackwater.adapters.kube.errors import KubeError
from slackwater.controllers.history.policy import SLOTS
from slackwater.controllers.history.state import Chunk, chunk_of
from slackwater.model.history import Ring, readable
from slackwater_protocol.names import HISTORY_CONFIG_MAPS

_log = structlog.get_logger(__name__)

#: The version of the format of a chunk.
FORMAT: Final = 1
_KEY: Final = "history"
#: Limit of an unpacked chunk. Ours have at most `HistoryPolicy.chunk_bytes`.
_MOST_BYTES: Final = 1 << 20
_Slot = tuple[Ring, int]


class _StoredChunk(msgspec.Struct):
    format: Literal[1]
    ring: Ring
    number: Annotated[int, msgspec.Meta(ge=0, lt=1 << 53)]
    entries: list[msgspec.Raw]


def config_map_name(ring: Ring, slot: int) -> str:
    return f"{HISTORY_CONFIG_MAPS}{ring}-{slot}"


def config_map_names() -> list[str]:
    """The names of all ConfigMaps that the history may have."""
    return [config_map_name(ring, slot) for ring, slot in _slots()]


def _slots() -> Iterator[_Slot]:
    return ((ring, slot) for ring, slots in SLOTS.items() for slot in range(slots))


class ConfigMapHistory:
    """Implements `controllers.history.loop.HistoryStore` in one namespace."""

    def __init__(self, client: ApiPort, *, namespace: str) -> None:
        self._client = client
        self._path = f"/api/v1/namespaces/{namespace}/configmaps"
        self._writers = {
            (ring, slot): ConfigMapWriter(client, namespace=namespace, name=config_map_name(ring, slot))
            for ring, slot in _slots()
        }
        self._failing = False

    async def read(self) -> list[Chunk] | None:
        """All stored chunks; None if the API server did not answer or refused. A failure is logged once."""
        try:
            chunks = await self.load()
        except KubeError as error:
            if not self._failing:
                _log.warning("history not read; it is not persisted meanwhile", detail=str(error))
            self._failing = True
            return None
        self._failing = False
        return chunks

    async def load(self) -> list[Chunk]:
        """All stored chunks. One that cannot be read is logged and left out. Raises KubeError."""
        return [chunk for slot in _slots() if (chunk := await self._load(slot)) is not None]

    async def _load(self, slot: _Slot) -> Chunk | None:
        path = f"{self._path}/{config_map_name(*slot)}"
        try:
            text = (await read_config_map(self._client, path) or {}).get(_KEY)
            return None if text is None else _chunk(slot, unpacked(text, _StoredChunk, most_bytes=_MOST_BYTES), path)
        except ValueError as error:
            _log.error("part of the history cannot be read; it is left out", config_map=path, detail=str(error)[:300])
            return None

    async def write(self, chunk: Chunk) -> int | None:
        """Replaces the text of the chunk's ConfigMap; returns its length in bytes, None after a failure (logged once)."""
        value = {"format": FORMAT, "ring": chunk.ring, "number": chunk.number, "entries": chunk.entries}
        text = await anyio.to_thread.run_sync(packed, value)  # some ms of compression
        written = await self._writers[chunk.ring, chunk.slot].write({_KEY: text}, {})
        return len(text) if written else None


def _chunk(slot: _Slot, stored: _StoredChunk, path: str) -> Chunk:
    """The chunk that is stored in the slot. Raises ValueError for one of another slot."""
    ring, at = slot
    if stored.ring != ring or stored.number % SLOTS[ring] != at:
        raise ValueError(f"got ring {stored.ring}, number {stored.number}, want one of slot {ring}-{at}")
    entries = readable(stored.entries)
    if unread := len(stored.entries) - len(entries):
        _log.warning("history entries cannot be read; they are left out", config_map=path, entries=unread)
    return chunk_of(ring, stored.number, entries)
