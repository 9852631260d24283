"""The history of pods and nodes: one entry of what is persisted, and its text for people.

Only decisions that somebody may ask about later become entries: who evicted, preempted, moved or refused a pod, and why.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Final, Literal, Self

from msgspec import Meta, MsgspecError, Raw, Struct
from msgspec.json import Decoder

from slackwater.model.json_answer import JsonAnswer

#: - acts: what disturbs running pods, and the removal of nodes.
#: - waits: why pods waited, and how that ended.
#: Each ring has a bound of its own, so that a thousand refused pods do not push out the one eviction.
Ring = Literal["acts", "waits"]
#: What the history can be asked about.
Remembered = Literal["pod", "node", "cluster"]


class HistoryAction(StrEnum):
    """The closed list of what an entry reports."""

    EVICTED = "evicted"
    PREEMPTED = "preempted"
    #: Somebody else evicted, preempted or ended the pod, as its condition DisruptionTarget says.
    DISRUPTED = "disrupted"
    MIGRATING = "migrating"
    MIGRATED = "migrated"
    MIGRATION_FAILED = "migration-failed"
    DRAIN_BEGAN = "drain-began"
    DRAIN_ENDED = "drain-ended"
    SCALE_UP = "scale-up"
    REFUSED = "refused"
    BOUND = "bound"
    #: The autoscaler decided this and did not do it.
    WITHHELD = "withheld"


#: The actions that end a pod's stay on a node.
ENDS: Final = frozenset({HistoryAction.EVICTED, HistoryAction.PREEMPTED, HistoryAction.DISRUPTED})
_WAITS: Final = frozenset({HistoryAction.SCALE_UP, HistoryAction.REFUSED, HistoryAction.BOUND})
_LONGEST_WHY: Final = 500
#: The end of a text that was shortened.
SHORTENED: Final = " ..."
#: Characters of a UID that are kept: enough to tell pods of one name apart.
_UID_CHARACTERS: Final = 8


class HistoryEntry(Struct, frozen=True, array_like=True):
    """One thing that happened to a pod or a node. `pod` and `other` are `namespace/name`; "" for none.

    `at_ms` is Unix milliseconds. `node` is where the pod was, is, or was tried; `target` the node of a migration. `other` is
    the preemptor of a victim, or the target pod of a migration. The entry is persisted as an array of these fields. A later
    version may only append fields: this one reads the entry without them.
    """

    at_ms: Annotated[int, Meta(ge=0, lt=2**43)]  #: before the year 2248
    action: HistoryAction
    pod: str = ""
    uid: str = ""
    node: str = ""
    target: str = ""
    other: str = ""
    why: str = ""

    @property
    def ring(self) -> Ring:
        return "waits" if self.action in _WAITS else "acts"


_ENTRY: Final = Decoder(HistoryEntry)


def readable(stored: Iterable[Raw]) -> list[HistoryEntry]:
    """The stored entries that this version can read. One of an action that only a later version knows costs no other entry."""
    found = []
    for each in stored:
        with suppress(MsgspecError, UnicodeDecodeError):
            found.append(_ENTRY.decode(each))
    return found


def short_uid(uid: str) -> str:
    """The first characters of a UID: history entries keep no more of it."""
    return uid[:_UID_CHARACTERS]


def fitting(why: str) -> str:
    """The text in one line, shortened to the length that an entry may have."""
    text = " ".join(why.split())
    return text if len(text) <= _LONGEST_WHY else text[: _LONGEST_WHY - len(SHORTENED)] + SHORTENED


def who(entry: HistoryEntry) -> str:
    """Who acted, for people: "slackwater", "scheduler", or who disrupted the pod."""
    match entry.action:
        case HistoryAction.REFUSED | HistoryAction.BOUND:
            return "scheduler"
        case HistoryAction.DISRUPTED:
            return _DISRUPTORS.get(entry.why.partition(":")[0], "somebody else")
        case _:
            return "slackwater"


#: Who sets the condition DisruptionTarget with which reason
#: (https://kubernetes.io/docs/concepts/workloads/pods/disruptions/#pod-disruption-conditions).
_DISRUPTORS: Final = {
    "PreemptionByScheduler": "a scheduler",
    "DeletionByTaintManager": "the taint manager",
    "EvictionByEvictionAPI": "a user of the Eviction API",
    "DeletionByPodGC": "the pod garbage collector",
    "TerminationByKubelet": "the kubelet",
}


#: The sentence for each action. `on`, `room` and `why` include the words that join them to the sentence; they are empty if
#: unknown.
_WORDS: Final[Mapping[HistoryAction, str]] = {
    HistoryAction.EVICTED: "evicted from {node}, because the node was being removed{why}",
    HistoryAction.PREEMPTED: "preempted{on} to make room for {other}{why}",
    HistoryAction.DISRUPTED: "disrupted{on} by {who}{room}{why}",
    HistoryAction.MIGRATING: "live migration from {node} to {target} began",
    HistoryAction.MIGRATED: "live migration to {target} succeeded; it is {other} now",
    HistoryAction.MIGRATION_FAILED: "live migration to {target} failed{why}",
    HistoryAction.DRAIN_BEGAN: "removal of {node} began{why}",
    HistoryAction.DRAIN_ENDED: "removal of {node} ended{why}",
    HistoryAction.SCALE_UP: "nodes were requested for it{why}",
    HistoryAction.REFUSED: "refused{why}",
    HistoryAction.BOUND: "placed on {node}",
    HistoryAction.WITHHELD: "decided and not done{why}",
}


def words(entry: HistoryEntry) -> str:
    """The entry as a sentence, without its time and its pod."""
    return _WORDS[entry.action].format(
        node=entry.node or "an unknown node",
        on=f" on {entry.node}" if entry.node else "",
        target=entry.target or "another node",
        other=entry.other or "another pod",
        who=who(entry),
        room=f" to make room for {entry.other}" if entry.other else "",
        why=f": {entry.why}" if entry.why else "",
    )


def time_text(at_ms: int) -> str:
    """The time in UTC, as RFC 3339 with milliseconds."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class HistoryLine(JsonAnswer, frozen=True, kw_only=True):
    """One entry of the history: something that happened to a pod or a node."""

    at: Annotated[str, Meta(description="When, in UTC (RFC 3339). What follows from the watch may be a few seconds late.")]
    action: HistoryAction
    by: Annotated[str, Meta(description="Who did it.")]
    pod: Annotated[str, Meta(description="namespace/name; empty in what concerns a node alone.")]
    uid: Annotated[str, Meta(description="The beginning of the pod's UID, to tell pods of one name apart.")]
    node: Annotated[str, Meta(description="Where the pod was or came to be, or the node itself. Empty where there is none.")]
    target: Annotated[str, Meta(description="The node to which a pod migrated.")]
    other: Annotated[str, Meta(description="The preemptor of a victim, or the pod that a migrated machine runs in now.")]
    why: str
    text: Annotated[str, Meta(description="All of it as a sentence for people, without time and pod.")]

    @classmethod
    def of(cls, entry: HistoryEntry) -> Self:
        kept = {name: getattr(entry, name) for name in ("action", "pod", "uid", "node", "target", "other", "why")}
        return cls(at=time_text(entry.at_ms), by=who(entry), text=words(entry), **kept)


class PastOfObject(JsonAnswer, frozen=True, kw_only=True):
    """What happened to the object, the oldest first."""

    object: str
    entries: tuple[HistoryLine, ...]
    reaches: Annotated[
        Mapping[Ring, str | None],
        Meta(
            description="From when on everything is kept: acts are evictions, preemptions, migrations and removals of nodes, "
            "waits are refusals, scale-ups and placements. null: from the beginning."
        ),
    ]
    notes: Annotated[tuple[str, ...], Meta(description="What is missing now, and why.")]
