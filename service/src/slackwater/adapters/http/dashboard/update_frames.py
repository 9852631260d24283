"""Builds the dashboard's frames, once for all open dashboards: a frame with everything (`board`), then changes.

    frames = Frames(state_machine, observer, about=..., clock=..., wall=...)
    for seq, event, data in await frames.after(seen): ...      # empty: nothing new yet

A frame is built only when a stream asks and the last frame is older than `PERIOD_SECONDS`. Nodes are columns of integers, and
a change has only the nodes that differ and the new decisions; every other section is sent whole if it differs. Pending pods
are grouped in slices, so that the event loop is never occupied for long. `routes` has the connections.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import anyio
import anyio.lowlevel
import msgspec
import numpy as np

from slackwater.model.ids import Instant, NodeName, UnixTime
from slackwater.model.pauses import pause_text
from slackwater.runtime.dashboard import view
from slackwater.runtime.dashboard.node_use import NodeUse
from slackwater.runtime.dashboard.observer import DashboardObserver
from slackwater.runtime.dashboard.pending import PendingGroups
from slackwater.runtime.dashboard.view import LINES, DashboardNodes, changed, take_nodes
from slackwater.runtime.state_machine import StateMachine

#: Seconds between two frames.
PERIOD_SECONDS: Final = 1.0
#: Limit of decisions in a frame.
MOST_DECISIONS: Final = 300
#: Pending pods grouped before other tasks get a turn: one or two milliseconds.
_SLICE: Final = 800
#: Frames whose changes are kept for streams that are behind; a stream that is further behind gets everything.
_KEPT: Final = 4

_encode = msgspec.json.Encoder().encode


@dataclass(slots=True)
class _Last:
    """The content of the last frame."""

    nodes: DashboardNodes | None = None
    sections: dict[str, bytes] = field(default_factory=dict)
    at: Instant = Instant(float("-inf"))
    seq: int = 0
    decisions: int = 0


class Frames:
    """Builds the frames that all streams share.

    `about` returns the sections that do not come from the state machine, as JSON values: the service's status and the
    autoscaler's last loop."""

    def __init__(
        self,
        state_machine: StateMachine,
        observer: DashboardObserver,
        *,
        about: Callable[[], dict[str, Any]],
        clock: Callable[[], Instant],
        wall: Callable[[], float],
        period_seconds: float = PERIOD_SECONDS,
    ) -> None:
        self._state_machine = state_machine
        self._about = about
        self._clock = clock
        self._wall = wall
        self._observer = observer
        self._period = period_seconds
        self._last = _Last()
        #: The number of each frame, and the JSON of what differs from the frame before; empty if only the whole frame can be
        #: sent.
        self._kept: deque[tuple[int, bytes]] = deque(maxlen=_KEPT)
        self._whole: tuple[int, bytes] | None = None
        self._used: tuple[NodeUse | None, Sequence[NodeName], bytes] | None = None
        self._one = anyio.Lock()

    async def after(self, seen: int) -> list[tuple[int, str, bytes]]:
        """Returns the events after frame `seen` (0: none was seen) as (seq, event, data), in order. The data is JSON.

        Builds a new frame if the last one is older than the period.
        """
        async with self._one:
            if self._clock() - self._last.at >= self._period:
                await self._make()
            if seen == self._last.seq:
                return []
            missed = [(seq, "change", change) for seq, change in self._kept if seq > seen]
            if seen and missed and missed[0][0] == seen + 1 and all(change for _, _, change in missed):
                return missed
            return [(self._last.seq, "board", self._everything())]

    async def _make(self) -> None:
        state_machine, last, log = self._state_machine, self._last, self._observer.decision_log
        await self._observer.observe(at_least=self._period / 2)
        nodes = take_nodes(state_machine, last.nodes)
        await anyio.lowlevel.checkpoint()
        current = await self._sections()
        current["use"] = self._use(nodes.names)
        rows = None if last.nodes is None else changed(last.nodes, nodes)
        seq = last.seq + 1
        differ = {name: msgspec.Raw(body) for name, body in current.items() if last.sections.get(name) != body}
        latest = log.number
        new = log.newest(MOST_DECISIONS, after=last.decisions) if rows is not None else []
        if new:
            differ["timeline"] = msgspec.Raw(_encode({"total": latest, "entries": new}))
        change = b""
        if rows is not None:
            numbers = {"rows": rows.tolist(), "numbers": np.ascontiguousarray(nodes.numbers[:, rows]).tolist()}
            change = _encode({"seq": seq, "nodes": numbers, **differ})
        self._last = _Last(nodes=nodes, sections=current, at=self._clock(), seq=seq, decisions=latest)
        self._kept.append((seq, change))

    async def _sections(self) -> dict[str, bytes]:
        """Returns each section's JSON by name, without the decisions."""
        pending = await self._pending()
        current = view.sections(self._state_machine, self._clock(), UnixTime(self._wall()))
        current |= {"pending": pending, **self._about()}
        await anyio.lowlevel.checkpoint()
        current["health"] = {"problems": self._observer.problems, "paused": pause_text(self._state_machine.pauses)}
        return {name: _encode(section) for name, section in current.items()} | {"series": self._observer.series.encoded()}

    def _use(self, names: Sequence[NodeName]) -> bytes:
        """What nodes use, in the order of `names`, as JSON; encoded again only if it was read again or the nodes are others."""
        use = self._observer.node_use()
        if self._used is None or self._used[0] is not use or self._used[1] is not names:
            self._used = use, names, _encode(None if use is None else use.section(names))
        return self._used[2]

    async def _pending(self) -> dict[str, Any]:
        """The pending pods that the dashboard's observer saw a moment ago, without those that have a node by now."""
        groups, pods = PendingGroups(), self._state_machine.state.pods
        waiting = list(self._observer.pending)
        for start in range(0, len(waiting), _SLICE):
            found = (pods.get(uid) for uid in waiting[start : start + _SLICE])
            groups.add(pod for pod in found if pod is not None and pod.pending)
            await anyio.lowlevel.checkpoint()
        return groups.section()

    def _everything(self) -> bytes:
        last = self._last
        if self._whole is None or self._whole[0] != last.seq:
            assert last.nodes is not None
            raw = {name: msgspec.Raw(body) for name, body in last.sections.items()}
            log = self._observer.decision_log
            timeline = {"total": log.number, "entries": log.newest(MOST_DECISIONS)}
            nodes = {
                "lines": LINES,
                "names": last.nodes.names,
                "facets": last.nodes.facets,
                "numbers": last.nodes.numbers.tolist(),
            }
            everything = {"seq": last.seq, "nodes": nodes, **raw, "timeline": timeline}
            self._whole = last.seq, _encode(everything)
        return self._whole[1]
