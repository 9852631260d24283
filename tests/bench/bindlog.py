"""Binds as the API server's audit log tells them, to the microsecond, while it is being written.

Read a piece at a time, so that waiting for the last bind costs next to nothing.
"""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import orjson

_MARK: Final = b'"subresource":"binding"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Bind:
    """One bind request: who asked, for which pod, HTTP status, and when it came in and was answered."""

    user: str
    pod: str
    status: int
    begun_at: datetime
    ended_at: datetime


class BindLog:
    """The audit log of one control plane."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._offset = 0
        self.binds: list[Bind] = []

    def read_on(self) -> int:
        """Takes in what was written since; how many pods are bound now."""
        if self._log.exists():
            with self._log.open("rb") as file:
                file.seek(self._offset)
                whole, end, _ = file.read().rpartition(b"\n")
            self._offset += len(whole) + len(end)
            for line in whole.split(b"\n"):
                if _MARK in line:
                    self.binds.append(_bind(orjson.loads(line)))
        return sum(bind.status == 201 for bind in self.binds)

    def span_seconds(self) -> float:
        """From the arrival of the first bind that succeeded to the answer of the last."""
        bound = [bind for bind in self.binds if bind.status == 201]
        return (max(b.ended_at for b in bound) - min(b.begun_at for b in bound)).total_seconds()


def _bind(event: dict[str, Any]) -> Bind:
    return Bind(
        user=event["user"]["username"],
        pod=event["objectRef"]["name"],
        status=event["responseStatus"]["code"],
        begun_at=datetime.fromisoformat(event["requestReceivedTimestamp"]),
        ended_at=datetime.fromisoformat(event["stageTimestamp"]),
    )
