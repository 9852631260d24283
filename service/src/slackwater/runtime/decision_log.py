"""Keeps the newest decisions with their results, for the dashboard.

It receives the outcome of each attempt of an effect (`Telling` wraps the writer) and each record of the autoscaler's loop. The
newest of each kind are kept, so that a thousand binds do not push out the only drain. No decision reads this log, and it is not
persisted.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from slackwater.model.effects import (
    ApiEffect,
    Bind,
    CreateMigration,
    DeleteVictim,
    Evict,
    MarkNode,
    Nominate,
    OpenGate,
    Resize,
    Steer,
    UnmarkNode,
    WritePermit,
)
from slackwater.model.permit_annotation import read_written
from slackwater.model.resources import Amounts
from slackwater.ports.protocols import Outcome, Writer
from slackwater.runtime.autoscaler.record import LoopRecord

#: Decisions kept of each kind.
_KEPT: Final = 100
#: The kind of decision of each effect type. Effects of other types (activations, reads, Kubernetes events) decide nothing.
_KINDS: Final[dict[type, str]] = {
    Bind: "bind",
    Nominate: "nominate",
    Steer: "nominate",
    OpenGate: "open gate",
    WritePermit: "permit",
    Resize: "resize",
    CreateMigration: "migrate",
    DeleteVictim: "preempt",
    Evict: "evict",
    MarkNode: "mark node",
    UnmarkNode: "unmark node",
}


#: Number, Unix seconds, the effect and its outcome; formatted only when the log is read.
_Note = tuple[int, float, ApiEffect, Outcome]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One decision as the dashboard shows it. `at` is Unix seconds; `number` increases with each decision. `about` is the kind
    of object for a link to /explain: "pods", "nodes", "groups", or "" for none."""

    number: int
    at: float
    kind: str
    about: str
    name: str
    text: str
    verdict: str


class DecisionLog:
    """The newest decisions, a bounded number of each kind. `wall` returns Unix seconds."""

    def __init__(self, wall: Callable[[], float]) -> None:
        self._wall = wall
        self._number = 0
        self._effects: dict[str, deque[_Note]] = {kind: deque(maxlen=_KEPT) for kind in _KINDS.values()}
        self._loops: deque[Decision] = deque(maxlen=_KEPT)

    @property
    def number(self) -> int:
        """The number of the newest decision; 0 if there is none."""
        return self._number

    def note(self, effect: ApiEffect, outcome: Outcome) -> None:
        """Notes one ended attempt of an effect; cheap, because formatting happens in `newest`."""
        kind = _KINDS.get(type(effect))
        if kind is not None:
            self._number += 1
            self._effects[kind].append((self._number, self._wall(), effect, outcome))

    def loop(self, record: LoopRecord) -> None:
        """Notes the decisions of one ended autoscaler loop: node group size changes, and drains that began or ended."""
        for call, problem in record.asked:
            text = f"from {call.seen} to {call.to} nodes" + (f": {problem}" if problem is not None else "")
            self._told(record, "grow", ("groups", call.group), text, done=problem is None)
        scale_down = record.scale_down
        for node in () if scale_down is None else scale_down.begun:
            self._told(record, "remove node", ("nodes", node), "removal begins", done=True)
        for end in () if scale_down is None else scale_down.ended:
            why = "" if end.unremovable_reason is None else f": {end.unremovable_reason} {end.detail}".rstrip()
            text = f"{end.outcome} after {end.seconds:.0f} s, {end.evicted} pods evicted{why}"
            self._told(record, "remove node", ("nodes", end.order.node), text, done=end.outcome != "rolled-back")

    def _told(self, record: LoopRecord, kind: str, what: tuple[str, str], text: str, *, done: bool) -> None:
        self._number += 1
        (about, name), verdict = what, "done" if done else "refused"
        decision = Decision(number=self._number, at=record.at, kind=kind, about=about, name=name, text=text, verdict=verdict)
        self._loops.append(decision)

    def newest(self, most: int) -> list[Decision]:
        """The newest `most` decisions, the newest first."""
        noted = [[_decision(kind, note) for note in notes] for kind, notes in self._effects.items()]
        every = (decision for decisions in (*noted, self._loops) for decision in decisions)
        return sorted(every, key=lambda decision: -decision.number)[:most]


class Telling:
    """A writer that passes each effect to another writer and notes the outcome in the decision log."""

    def __init__(self, writer: Writer, decision_log: DecisionLog) -> None:
        self._writer = writer
        self._note = decision_log.note

    async def perform(self, effect: ApiEffect, *, timeout_seconds: float | None) -> Outcome:
        outcome = await self._writer.perform(effect, timeout_seconds=timeout_seconds)
        self._note(effect, outcome)
        return outcome


def _decision(kind: str, note: _Note) -> Decision:
    number, at, effect, outcome = note
    of_node = isinstance(effect, MarkNode | UnmarkNode)
    of_machine = isinstance(effect, WritePermit) and effect.on == "machine"
    about = "nodes" if of_node else "" if of_machine else "pods"
    name = effect.key.name if of_node else str(effect.key)
    text = _text(effect)
    if outcome.verdict != "done" and outcome.detail:
        text = f"{text}: {outcome.detail}".lstrip(": ")
    return Decision(number=number, at=at, kind=kind, about=about, name=name, text=text, verdict=outcome.verdict)


def _text(effect: ApiEffect) -> str:
    match effect:
        case Bind() | Nominate() | Steer():
            text = f"to {effect.node}"
        case OpenGate():
            text = effect.why
        case WritePermit():
            text = _permit(effect.text)
        case Resize():
            text = f"{effect.container} to {_amounts(effect.to)}"
        case CreateMigration():
            text = f"{effect.machine} to {effect.target_node}"
        case DeleteVictim():
            text = f"makes way for {effect.preemptor}"
        case Evict():
            text = f"from {effect.node}"
        case MarkNode():
            text = f"taint {effect.taint.key}"
        case UnmarkNode():
            text = f"no taint {effect.taint_key}"
        case _:
            text = ""
    return text


def _permit(text: str) -> str:
    found = read_written(text)
    return text if found is None else f"{_amounts(found.permit)}, limit {_amounts(found.permit_limit)}"


def _amounts(amounts: Amounts) -> str:
    return f"{amounts.cpu / 1000:g} CPU and {amounts.memory / 2**30:.4g} GiB"
