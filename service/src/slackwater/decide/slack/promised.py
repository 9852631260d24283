"""A class's arrivals -> placeholders: how many pods should find room now, so that the promise is kept.

    found = promised(observed, leads, before, policy=policy)     # before: what the last plan remembered
    found.mirrored                                               # placeholders like the class's pods

A node that is asked for now is there one lead later, so the most that is needed from now until then is kept. The way of
telling what comes, and its correction, are chosen anew each hour, and when the lead has changed; the number changes by the
minute. Of several kinds of pods each gets its share of the newest pods. Deliberately absent: the arithmetic (`promise`,
`trim`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from slackwater.decide.slack.mirrored import Mirrored, like
from slackwater.decide.slack.promise import Promise, Traffic, Way, choose_way, room_ahead
from slackwater.decide.slack.trim import trim_percent
from slackwater.model.promises import KindShare, Observed

#: For so many minutes a way is used.
_CHOICE_MINUTES: Final = 60
#: More placeholders for one class are taken for a mistake.
MOST_PLACEHOLDERS: Final = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Foresight:
    """What is remembered of a class: the way that is used, since when, and what it said for `minute`. `trim` is
    the percentage of it that is kept."""

    promise: Promise
    way: Way
    trim: int
    chosen: int
    minute: int
    room: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PromisedRoom:
    """What a promise comes to. `problem` says why less is kept than is needed."""

    observed: Observed
    foresight: Foresight
    mirrored: tuple[Mirrored, ...] = ()
    problem: str | None = None

    @property
    def lead_seconds(self) -> int:
        return self.foresight.promise.lead_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Promised:
    """By the classes' names, in their order."""

    rooms: Mapping[str, PromisedRoom] = field(default_factory=dict)

    @property
    def mirrored(self) -> list[Mirrored]:
        return [each for room in self.rooms.values() for each in room.mirrored]

    @property
    def problems(self) -> list[str]:
        return [room.problem for room in self.rooms.values() if room.problem is not None]


NO_PROMISES: Final = Promised()


def source_of(name: str) -> str:
    """What the placeholders of a class are for, as people read it."""
    return f"promise {name}"


def promised(
    observed: Sequence[Observed], leads: Mapping[str, int], before: Promised, *, unneeded_seconds: float = 0.0
) -> Promised:
    """`leads`: by class, seconds from a loop that asks for a node until it takes pods."""
    rooms = {}
    for each in observed:
        known = before.rooms.get(each.of.name)
        promise = Promise(
            share_ppm=each.of.share_ppm,
            within_seconds=int(each.of.within_seconds),
            lead_seconds=leads[each.of.name],
            keep_seconds=int(unneeded_seconds),
        )
        foresight = _foresee(each, promise, None if known is None else known.foresight)
        rooms[each.of.name] = _room(each, foresight)
    return Promised(rooms=rooms)


def _foresee(seen: Observed, promise: Promise, before: Foresight | None) -> Foresight:
    if before is not None and before.promise != promise:
        before = None
    if before is not None and before.minute == seen.minute:
        return before
    traffic = Traffic.of(seen.arrivals, seen.departures)
    if before is None or seen.minute - before.chosen >= _CHOICE_MINUTES:
        way, chosen = choose_way(traffic, promise), seen.minute
        trim = trim_percent(seen.in_time, seen.late, promise.share_ppm)
    else:
        way, chosen, trim = before.way, before.chosen, before.trim
    # The most that is needed from this minute until one lead after it.
    most = int(room_ahead(traffic, promise, way, ahead=promise.lead + 1).max(initial=0))
    return Foresight(promise=promise, way=way, trim=trim, chosen=chosen, minute=seen.minute, room=-(-most * trim // 100))


def _room(seen: Observed, foresight: Foresight) -> PromisedRoom:
    count, problem = foresight.room, None
    if count > MOST_PLACEHOLDERS:
        problem = f"promise {seen.of.name}: {count} placeholders are needed, want at most {MOST_PLACEHOLDERS}"
        count = MOST_PLACEHOLDERS
    if count and not seen.mix:
        problem = f"promise {seen.of.name}: no pod of it was seen since the start: nobody knows what they ask for"
    mirrored = tuple(
        Mirrored(source=source_of(seen.of.name), kind=like(share.kind), labels=share.labels, count=some)
        for share, some in zip(seen.mix, _shared(count, seen.mix), strict=True)
        if some
    )
    return PromisedRoom(observed=seen, foresight=foresight, mirrored=mirrored, problem=problem)


def _shared(count: int, mix: Sequence[KindShare]) -> list[int]:
    """By largest remainders: the sum is the count; of equal ones the first."""
    total = sum(share.count for share in mix)
    if not total:
        return []
    parts = [divmod(count * share.count, total) for share in mix]
    left = count - sum(whole for whole, _ in parts)
    more = set(sorted(range(len(parts)), key=lambda at: -parts[at][1])[:left])
    return [whole + (at in more) for at, (whole, _) in enumerate(parts)]
