"""Keeps the newest decisions with their results, for the dashboard.

It receives the outcome of each attempt of an effect (`DecisionLoggingWriter` wraps the writer), each record of the
autoscaler's loop, and what `dashboard.observer` sees of pods and nodes. Each kind of decision has its own limit, so that a
thousand binds do not push out the only drain. A decision that is withheld and made again by the next loop is one decision, with
the times of the first and the last loop. `story` returns what happened to one object. No decision reads this log, and it
is not persisted.
"""

from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, replace
from heapq import merge
from itertools import islice, takewhile
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
    UnmarkNode,
    WritePermit,
)
from slackwater.model.permits import read_written
from slackwater.model.resources import Amounts
from slackwater.ports.protocols import Outcome, Writer
from slackwater.runtime.autoscaler.loop_record import LoopRecord
from slackwater.runtime.autoscaler.withheld import needed_by_text, pods_of, withheld_by

#: Decisions kept of each kind.
_KEPT: Final = 500
#: Groups or reasons named in one sentence.
_MOST_NAMED: Final = 6
#: The kind of decision of each effect type. Effects of other types (activations, reads, Kubernetes events) decide nothing.
_KINDS: Final[dict[type, str]] = {
    Bind: "bind",
    Nominate: "nominate",
    OpenGate: "open gate",
    WritePermit: "permit",
    Resize: "resize",
    CreateMigration: "migrate",
    DeleteVictim: "preempt",
    Evict: "evict",
    MarkNode: "mark node",
    UnmarkNode: "unmark node",
}
#: All kinds, with those of what happened to pods and nodes, and of the autoscaler's loop.
KINDS: Final = (*dict.fromkeys(_KINDS.values()), "wait", "node", "grow", "remove node")

#: Number, Unix seconds, the effect and its outcome; formatted only when the log is read.
_Note = tuple[int, float, ApiEffect, Outcome]


@dataclass(frozen=True, slots=True)
class Decision:
    """One decision as the dashboard shows it. `at` is Unix seconds; `number` increases with each decision. `times` says how
    often it was made, and `until` when last (0.0: once). `about` is the kind of object for a link to /explain: "pods", "nodes",
    "groups", or "" for none. `instead` says what else was considered. `related` are further objects that the decision concerns,
    such as "nodes node-1" or "pods default/web"."""

    number: int
    at: float
    kind: str
    about: str
    name: str
    text: str
    verdict: str
    instead: str = ""
    related: tuple[str, ...] = ()
    times: int = 1
    until: float = 0.0

    def concerns(self, about: str, name: str) -> bool:
        return (self.about == about and self.name == name) or f"{about} {name}" in self.related


class DecisionLog:
    """The newest decisions, a bounded number of each kind. `wall` returns Unix seconds. `counts` is the number of decisions of
    each kind since this process started, `n_evicted` that of the pods among them that were evicted or deleted as victims."""

    def __init__(self, wall: Callable[[], float]) -> None:
        self._wall = wall
        self._number = 0
        self._effects: dict[str, deque[_Note]] = {kind: deque(maxlen=_KEPT) for kind in _KINDS.values()}
        self._others: dict[str, deque[Decision]] = {kind: deque(maxlen=_KEPT) for kind in KINDS}
        self.counts: Counter[str] = Counter()
        self.n_evicted = 0
        #: What the last loop withheld: the decision for each of these effects.
        self._withheld: dict[Hashable, Decision] = {}

    @property
    def number(self) -> int:
        """The number of the newest decision; 0 if there is none."""
        return self._number

    def note(self, effect: ApiEffect, outcome: Outcome) -> None:
        """Notes one ended attempt of an effect; cheap, because formatting happens when the log is read."""
        kind = _KINDS.get(type(effect))
        if kind is not None:
            self._number += 1
            self.counts[kind] += 1
            self.n_evicted += isinstance(effect, Evict | DeleteVictim) and outcome.verdict == "done"
            self._effects[kind].append((self._number, self._wall(), effect, outcome))

    def seen(
        self,
        kind: str,
        about: str,
        name: str,
        text: str,
        *,
        at: float | None = None,
        done: bool = True,
        related: tuple[str, ...] = (),
        instead: str = "",
    ) -> None:
        """Notes what happened to a pod or node (it was placed, found unschedulable, added or removed), or what the autoscaler's
        loop decided. `kind` is one of `KINDS`. `at`: when, if not now."""
        self._number += 1
        self.counts[kind] += 1
        number, at, verdict = self._number, self._wall() if at is None else at, "done" if done else "refused"
        self._others[kind].append(Decision(number, at, kind, about, name, text, verdict, instead=instead, related=related))

    def loop(self, record: LoopRecord) -> list[Decision]:
        """Notes the decisions of one ended autoscaler loop: node group size changes, and drains that began or ended. Returns
        the withheld ones that the loop before had not made."""
        for call, problem in record.asked:
            text = f"from {call.seen} to {call.to} nodes{needed_by_text(record.needed_by.get(call.group))}"
            text += f": {problem}" if problem is not None else ""
            instead = _other_groups(record, call.group)
            pods = pods_of(record.needed_by.get(call.group))
            done = problem is None
            self.seen("grow", "groups", call.group, text, at=record.at, done=done, instead=instead, related=pods)
        scale_down = record.scale_down
        for node in () if scale_down is None else scale_down.begun:
            self.seen("remove node", "nodes", node, "removal begins", at=record.at, instead=_nodes_kept(record))
        for end in () if scale_down is None else scale_down.ended:
            why = "" if end.unremovable_reason is None else f": {end.unremovable_reason} {end.detail}".rstrip()
            text = f"{end.outcome} after {end.seconds:.0f} s, {end.evicted} pods evicted{why}"
            done = end.outcome != "rolled-back"
            self.seen("remove node", "nodes", end.order.node, text, at=record.at, done=done)
        return self._note_withheld(record)

    def _note_withheld(self, record: LoopRecord) -> list[Decision]:
        before, self._withheld, new = self._withheld, {}, []
        for found in withheld_by(record):
            instead = _other_groups(record, found.name) if found.kind == "grow" else _nodes_kept(record)
            if (last := before.get(found.key)) is None:
                self._number += 1
                self.counts[found.kind] += 1
                named = (found.kind, found.about, found.name, found.text)
                decision = Decision(self._number, record.at, *named, "withheld", related=found.related)
                new.append(decision)
            else:
                decision = replace(last, text=found.text, times=last.times + 1, until=record.at)
            self._keep(found.kind, last, replace(decision, instead=instead))
            self._withheld[found.key] = decision
        return new

    def _keep(self, kind: str, last: Decision | None, decision: Decision) -> None:
        """Keeps the decision in the place of `last`, or as the newest of its kind."""
        kept = self._others[kind]
        place = next((at for at, each in enumerate(kept) if last is not None and each.number == last.number), None)
        if place is not None:
            kept[place] = decision
        elif last is None:
            kept.append(decision)

    def newest(self, most: int, *, after: int = 0) -> list[Decision]:
        """The newest `most` decisions with a number above `after`, the newest first."""
        return list(islice(takewhile(lambda decision: decision.number > after, self._newest_first()), most))

    def story(self, about: str, name: str, most: int) -> list[Decision]:
        """The newest `most` decisions that concern an object, the oldest first."""
        found = (decision for decision in self._newest_first() if decision.concerns(about, name))
        return list(islice(found, most))[::-1]

    def _newest_first(self) -> Iterator[Decision]:
        noted = (_decisions(kind, notes) for kind, notes in self._effects.items())
        others = (reversed(decisions) for decisions in self._others.values())
        return merge(*noted, *others, key=lambda decision: -decision.number)


def _decisions(kind: str, notes: deque[_Note]) -> Iterator[Decision]:
    """The decisions of one kind, the newest first; formatted one by one."""
    return (_decision(kind, note) for note in reversed(notes))


def _other_groups(record: LoopRecord, group: str) -> str:
    """Why each other node group did not grow, or that it grew too; explains why `group` grew."""
    found = []
    for name, status in record.group_status.items():
        if name != group:
            closed, planned = status.closed(record.instant), record.planned.get(name, 0)
            found.append(f"{name}: {closed or (f'{planned} nodes planned too' if planned else 'not chosen')}")
    return "; ".join(found[:_MOST_NAMED])


def _nodes_kept(record: LoopRecord) -> str:
    """Why other nodes were not removed instead: the most frequent reasons, with the number of nodes of each."""
    kept: Iterable[tuple[object, int]] = () if record.scale_down is None else record.scale_down.reasons.items()
    ordered = sorted(kept, key=lambda item: -item[1])[:_MOST_NAMED]
    return "kept: " + ", ".join(f"{count} {reason}" for reason, count in ordered) if ordered else ""


class DecisionLoggingWriter:
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
    related = _related(effect)
    return Decision(number, at, kind, about, name, text, outcome.verdict, related=related)


def _related(effect: ApiEffect) -> tuple[str, ...]:
    match effect:
        case Bind() | Nominate() | Evict():
            return (f"nodes {effect.node}",)
        case CreateMigration():
            return (f"nodes {effect.target_node}",)
        case DeleteVictim():
            return (f"pods {effect.preemptor}",)
        case _:
            return ()


def _text(effect: ApiEffect) -> str:
    match effect:
        case Bind() | Nominate():
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
