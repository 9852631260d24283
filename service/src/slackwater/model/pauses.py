"""The activities that a person can pause, and those that are paused now.

People pause activities in a ConfigMap: each key names a paused activity, and its text is a note for people (since when, by
whom, why).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, get_args

#: - scale-down: removing nodes. Drains under way are rolled back.
#: - scale-up: adding nodes, also those for slack.
#: - preemption: deleting pods for more important ones, also by kube-scheduler through our preempt verb.
#: - migration: starting live migrations.
#: - nomination: nominating nodes for pods, apart from preemptors. Filter still names one node.
Activity = Literal["scale-down", "scale-up", "preemption", "migration", "nomination"]
ACTIVITIES: Final[tuple[Activity, ...]] = get_args(Activity)
#: Characters of a note in a line: more than `slackwater pause` writes. Whoever writes the ConfigMap by hand may write more.
_LONGEST_NOTE: Final = 700
#: The key that pauses every activity.
ALL: Final = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """One paused activity. `note` is free text."""

    activity: Activity
    note: str


def pauses_of(data: Mapping[str, str]) -> tuple[Pause, ...]:
    """The pauses that the ConfigMap's data asks for, in the order of `ACTIVITIES`. Unknown keys are ignored."""
    notes = {activity: data.get(activity, data.get(ALL)) for activity in ACTIVITIES}
    return tuple(Pause(activity=activity, note=note) for activity, note in notes.items() if note is not None)


def pause_text(pauses: Iterable[Pause]) -> str:
    """What is paused, in one line for people; empty if nothing is. A note that is very long is cut, and ends with dots then."""
    by_note: dict[str, list[Activity]] = {}
    for pause in pauses:
        note = pause.note if len(pause.note) <= _LONGEST_NOTE else f"{pause.note[:_LONGEST_NOTE]}..."
        by_note.setdefault(note, []).append(pause.activity)
    named = {note: "everything" if tuple(found) == ACTIVITIES else ", ".join(found) for note, found in by_note.items()}
    parts = (f"{activities} {note}".rstrip() for note, activities in named.items())
    return f"Paused: {'; '.join(parts)}. `slackwater resume` ends it." if by_note else ""


def unknown_keys(data: Iterable[str]) -> list[str]:
    """The keys of the ConfigMap's data that name no activity, sorted."""
    return sorted(set(data) - {ALL, *ACTIVITIES})
