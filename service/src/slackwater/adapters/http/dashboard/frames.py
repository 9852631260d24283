"""Builds the dashboard's frames, once for all open dashboards: a frame with everything (`board`), then changes.

    frames = Frames(state_machine, about=..., clock=..., decision_log=...)
    for seq, event, data in await frames.after(seen): ...      # empty: nothing new yet

A frame is built only when a stream asks and the last frame is older than `PERIOD_SECONDS`. Nodes are columns of integers, and a
change has only the nodes that differ; every other section is sent whole if it differs. Pods are scanned in slices, so that
the event loop is never occupied for long. `stream` has the connections.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import anyio
import anyio.lowlevel
import msgspec
import numpy as np

from slackwater.model.columns import Rows
from slackwater.model.ids import Instant
from slackwater.model.objects import Pod
from slackwater.runtime import dashboard_view
from slackwater.runtime.dashboard_nodes import LINES, DashboardNodes, changed, take_nodes
from slackwater.runtime.decision_log import DecisionLog
from slackwater.runtime.state_machine import StateMachine

#: Seconds between two frames.
PERIOD_SECONDS: Final = 1.0
#: Limit of decisions in a frame.
MOST_DECISIONS: Final = 300
#: Pods scanned before other tasks get a turn: about half a millisecond.
_SLICE: Final = 8192
#: Frames whose changes are kept for streams that are behind; a stream that is further behind gets everything.
_KEPT: Final = 4

_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One frame. `seq` grows by one with each.

    `change` is the JSON of what differs from the frame before; empty if only the whole frame can be sent.
    """

    seq: int
    change: bytes


@dataclass(slots=True)
class _Last:
    """The content of the last frame."""

    nodes: DashboardNodes | None = None
    sections: dict[str, bytes] = field(default_factory=dict)
    at: Instant = Instant(float("-inf"))
    seq: int = 0


class Frames:
    """Builds the frames that all streams share.

    `about` returns the sections that do not come from the state machine, as JSON values: the service's status and the
    autoscaler's last loop."""

    def __init__(
        self,
        state_machine: StateMachine,
        *,
        about: Callable[[], dict[str, Any]],
        clock: Callable[[], Instant],
        decision_log: DecisionLog,
        period_seconds: float = PERIOD_SECONDS,
    ) -> None:
        self._state_machine = state_machine
        self._about = about
        self._clock = clock
        self._decision_log = decision_log
        self._period = period_seconds
        self._last = _Last()
        self._kept: deque[Frame] = deque(maxlen=_KEPT)
        self._whole: tuple[int, bytes] | None = None
        self._one = anyio.Lock()

    async def after(self, seen: int) -> list[tuple[int, str, bytes]]:
        """Returns the events after frame `seen` (0: none was seen) as (seq, event, data), in order. `data` is JSON.

        Builds a new frame if the last one is older than the period.
        """
        async with self._one:
            if self._clock() - self._last.at >= self._period:
                await self._make()
            if seen == self._last.seq:
                return []
            missed = [frame for frame in self._kept if frame.seq > seen]
            if seen and missed and missed[0].seq == seen + 1 and all(frame.change for frame in missed):
                return [(frame.seq, "change", frame.change) for frame in missed]
            return [(self._last.seq, "board", self._everything())]

    async def _make(self) -> None:
        state_machine, last = self._state_machine, self._last
        nodes = take_nodes(state_machine, last.nodes)
        await anyio.lowlevel.checkpoint()
        told = await self._sections()
        rows = None if last.nodes is None else changed(last.nodes, nodes)
        seq = last.seq + 1
        differ = {name: msgspec.Raw(body) for name, body in told.items() if last.sections.get(name) != body}
        change = b"" if rows is None else _encode({"seq": seq, "nodes": _changed_nodes(nodes, rows), **differ})
        self._last = _Last(nodes=nodes, sections=told, at=self._clock(), seq=seq)
        self._kept.append(Frame(seq=seq, change=change))

    async def _sections(self) -> dict[str, bytes]:
        """Returns each section's JSON by name."""
        waiting = await self._waiting()
        told = dashboard_view.sections(self._state_machine, self._clock())
        told |= {"pending": dashboard_view.pending(waiting), **self._about()}
        await anyio.lowlevel.checkpoint()
        told["timeline"] = {
            "total": self._decision_log.number,
            "entries": self._decision_log.newest(MOST_DECISIONS),
        }
        return {name: _encode(section) for name, section in told.items()}

    async def _waiting(self) -> list[Pod]:
        every = list(self._state_machine.pods)
        found: list[Pod] = []
        for start in range(0, len(every), _SLICE):
            found += filter(dashboard_view.waits, every[start : start + _SLICE])
            await anyio.lowlevel.checkpoint()
        return found

    def _everything(self) -> bytes:
        last = self._last
        if self._whole is None or self._whole[0] != last.seq:
            assert last.nodes is not None
            raw = {name: msgspec.Raw(body) for name, body in last.sections.items()}
            self._whole = last.seq, _encode({"seq": last.seq, "nodes": _all_nodes(last.nodes), **raw})
        return self._whole[1]


def _all_nodes(nodes: DashboardNodes) -> dict[str, Any]:
    return {
        "lines": LINES,
        "names": nodes.names,
        "groups": nodes.groups,
        "group": nodes.group,
        "numbers": nodes.numbers.tolist(),
    }


def _changed_nodes(nodes: DashboardNodes, rows: Rows) -> dict[str, Any]:
    numbers: Sequence[Sequence[int]] = np.ascontiguousarray(nodes.numbers[:, rows]).tolist()
    return {"rows": rows.tolist(), "numbers": numbers}
