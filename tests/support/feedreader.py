"""Reads an event source as the state machine would, and keeps it to its promise: in order for each object, nothing doubled."""

from collections.abc import Callable, Hashable
from contextlib import aclosing
from typing import Any

import anyio

from slackwater.adapters.kube.reflector import Reflector
from slackwater.model.events import NodeGone, NodeSeen, ObjectUnreadable, PodGone, PodSeen, SourceEvent
from slackwater.ports.protocols import Batch


class EventSourceReader:
    """`state` is what the events so far add up to: key -> (UID, version). `complaints` must stay empty."""

    def __init__(self) -> None:
        self.state: dict[Hashable, tuple[str, int]] = {}
        self.events: list[SourceEvent] = []
        self.batches: list[Batch] = []
        self.complaints: list[str] = []
        #: Names of objects that were given out as unreadable.
        self.unreadable: list[str] = []
        self._buried: set[str] = set()
        self._changed = anyio.Event()

    @property
    def lists(self) -> int:
        """Lists that have ended."""
        return sum(batch.listed for batch in self.batches)

    async def run(self, reflector: Reflector[Any]) -> None:
        async with aclosing(reflector.batches()) as batches:
            async for batch in batches:
                self.take(batch)

    async def until(self, condition: Callable[[], bool], *, seconds: float = 60.0) -> None:
        """Waits until `condition` holds after some batch."""
        with anyio.fail_after(seconds):
            while not condition():
                await self._changed.wait()

    def take(self, batch: Batch) -> None:
        self.batches.append(batch)
        for event in batch.events:
            self.events.append(event)
            match event:
                case NodeSeen(node):
                    self._see(node.name, node.uid, node.resource_version)
                case PodSeen(pod):
                    self._see(pod.key, pod.uid, pod.resource_version)
                case NodeGone(name):
                    self._bury(name, None)
                case PodGone(uid, key):
                    self._bury(key, uid)
                case ObjectUnreadable():
                    self.unreadable.append(event.name.partition(" ")[2])
                case _:
                    self.complaints.append(f"unexpected {event}")
        self._changed.set()
        self._changed = anyio.Event()

    def _see(self, key: Hashable, uid: str, version: int) -> None:
        known = self.state.get(key)
        if known is not None and known[0] != uid:
            self.complaints.append(f"{key} changed from {known} to {uid} without an end in between")
        if known is not None and known[0] == uid and known[1] >= version:
            self.complaints.append(f"{key} at version {version} after {known}: doubled or out of order")
        if uid in self._buried:
            self.complaints.append(f"{key} with UID {uid} came back from the dead")
        self.state[key] = (uid, version)

    def _bury(self, key: Hashable, uid: str | None) -> None:
        known = self.state.pop(key, None)
        never_read = known is None and str(key) in self.unreadable
        if not never_read and (known is None or uid not in (None, known[0])):
            self.complaints.append(f"{key} with UID {uid} is gone, but what was given out is {known}")
        if known is not None:
            self._buried.add(known[0])
