"""Files in place of the ConfigMaps that a service writes: the history, and the arrivals of pods with a start-time SLO.

A file has one JSON document. It is replaced as a whole, so a process that is killed leaves the old or the new one. The history
has a fixed number of slots, as in ConfigMaps: a new chunk replaces the oldest one of its ring, so the file is bounded. The
arrivals are bounded by what is observed.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import anyio.to_thread
import msgspec
import structlog

from slackwater.controllers.history.policy import SLOTS
from slackwater.controllers.history.state import Chunk, chunk_of
from slackwater.model.history import Ring, readable

_log = structlog.get_logger(__name__)

#: A file larger than this is none of ours. Chunks have 192 KiB each, and there are twelve.
_MOST_BYTES: Final = 32 << 20


class _StoredChunk(msgspec.Struct):
    ring: Ring
    number: Annotated[int, msgspec.Meta(ge=0, lt=1 << 53)]
    entries: list[msgspec.Raw]


class _StoredHistory(msgspec.Struct):
    format: Literal[1]
    chunks: list[_StoredChunk]


class FileHistory:
    """Implements `app.history.StoredHistory` in the file `path`."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._chunks: dict[tuple[Ring, int], Chunk] = {}
        self._failing = False

    async def read(self) -> list[Chunk] | None:
        """All stored chunks; none if there is no file yet. A file that cannot be read is logged, and counts as empty."""
        return await self.load()

    async def load(self) -> list[Chunk]:
        try:
            text = await anyio.to_thread.run_sync(_content, self._path)
            stored = [] if text is None else msgspec.json.decode(text, type=_StoredHistory).chunks
        except (OSError, ValueError) as error:
            _log.error("history cannot be read; starting with an empty one", file=str(self._path), detail=str(error)[:300])
            return []
        chunks = [chunk_of(each.ring, each.number, readable(each.entries)) for each in stored]
        self._chunks = {(chunk.ring, chunk.slot): chunk for chunk in chunks if chunk.ring in SLOTS}
        return list(self._chunks.values())

    async def write(self, chunk: Chunk) -> int | None:
        """Replaces the chunk's slot, and with it the file. Returns the chunk's size; None after a failure, logged once."""
        self._chunks[chunk.ring, chunk.slot] = chunk
        stored = [_stored(each) for each in self._chunks.values()]
        try:
            await anyio.to_thread.run_sync(lambda: _replace(self._path, {"format": 1, "chunks": stored}))
        except OSError as error:
            if not self._failing:
                _log.warning("history not written", file=str(self._path), detail=str(error))
            self._failing = True
            return None
        self._failing = False
        return chunk.bytes


def _stored(chunk: Chunk) -> dict[str, Any]:
    return {"ring": chunk.ring, "number": chunk.number, "entries": list(chunk.entries)}


class FileArrivals:
    """Implements `app.persisted_pod_arrivals.StoredArrivals` in the file `path`; None: it keeps nothing."""

    def __init__(self, path: str | None) -> None:
        self._path = None if path is None else Path(path)

    async def read(self) -> dict[str, Any] | None:
        if self._path is None:
            return None
        try:
            text = await anyio.to_thread.run_sync(_content, self._path)
            return None if text is None else msgspec.json.decode(text, type=dict[str, Any])
        except (OSError, ValueError) as error:
            _log.error(
                "arrival history cannot be read; starting with an empty one", file=str(self._path), detail=str(error)[:300]
            )
            return None

    async def write(self, observed: Mapping[str, Any]) -> bool:
        path = self._path
        if path is None:
            return True
        try:
            await anyio.to_thread.run_sync(lambda: _replace(path, dict(observed)))
        except OSError as error:
            _log.warning("arrival history not written", file=str(path), detail=str(error))
            return False
        return True


def _content(path: Path) -> bytes | None:
    try:
        with path.open("rb") as file:
            text = file.read(_MOST_BYTES + 1)
    except FileNotFoundError:
        return None
    if len(text) > _MOST_BYTES:
        raise ValueError(f"more than {_MOST_BYTES} bytes")
    return text


def _replace(path: Path, document: object) -> None:
    new = path.with_name(f"{path.name}.new")
    new.write_bytes(msgspec.json.encode(document))
    os.replace(new, path)
