"""The arithmetic of scores: 0..100 for each row, in whole numbers as in kube-scheduler; and the room that some scores read.

    score(room_on_row(snapshot, row), group)    # one int
    score(room_on(snapshot, rows), group)       # an array, shape (len(rows),)

A score that reads nothing but a row's own room is written once, with the operations of `Room.of`: Python's numbers for one row,
numpy's arrays for many. Both ways give the same numbers. For one row Python's numbers take an eighth of the time of numpy's
calls.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

from slackwater.model.columns import Int64, Rows
from slackwater.model.ids import Row
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.equivalence_groups import NumberedGroup
from slackwater.snapshot.node_facts import CPU, MEMORY

HIGHEST: Final = 100


def by_the_highest(raw: Int64, *, reverse: bool = False) -> Int64:
    """Scales scores so that the highest becomes 100; with `reverse` the highest becomes 0, and a score of 0 becomes 100."""
    highest = int(raw.max(initial=0))
    if highest == 0:
        return np.full(len(raw), HIGHEST if reverse else 0, np.int64)
    scaled: Int64 = HIGHEST * raw // highest
    return HIGHEST - scaled if reverse else scaled


#: One number, or an array with a number for each row.
Value = Any
#: An amount of CPU (milliCPU) and of memory (bytes), by the indexes `CPU` and `MEMORY`.
Pair = tuple[Value, Value]


class Arithmetic(NamedTuple):
    """The operations that Python's numbers and numpy's arrays write differently. `whole` truncates to int64, `rounded` rounds
    halves to even, `where` chooses by a condition; both of its values are computed."""

    larger: Callable[[Value, Value], Value]
    smaller: Callable[[Value, Value], Value]
    where: Callable[[Value, Value, Value], Value]
    whole: Callable[[Value], Value]
    rounded: Callable[[Value], Value]


ONE_ROW: Final = Arithmetic(
    larger=max,
    smaller=min,
    where=lambda condition, value, other: value if condition else other,
    whole=int,
    rounded=round,
)
MANY_ROWS: Final = Arithmetic(
    larger=np.maximum,
    smaller=np.minimum,
    where=np.where,
    whole=lambda values: np.asarray(values).astype(np.int64),
    rounded=np.rint,
)


class Room(NamedTuple):
    """`capacity` is the rows' allocatable, `used` what pods take of it, `scored` what scores assume that pods take. `largest`
    is the largest capacity of all rows."""

    capacity: Pair
    used: Pair
    scored: Pair
    largest: tuple[int, int]
    of: Arithmetic


#: Scores one row or many by their room alone.
RoomScore = Callable[[Room, NumberedGroup], Value]


def room_on(snapshot: ClusterSnapshot, rows: Rows) -> Room:
    """The room of each of the rows."""
    capacity, used, scored = snapshot.facts.allocatable, snapshot.used, snapshot.scored
    return Room(
        (capacity[CPU].take(rows), capacity[MEMORY].take(rows)),
        (used[CPU].take(rows), used[MEMORY].take(rows)),
        (scored[CPU].take(rows), scored[MEMORY].take(rows)),
        snapshot.facts.largest,
        MANY_ROWS,
    )


def room_on_row(snapshot: ClusterSnapshot, row: Row) -> Room:
    """The room of one row."""
    capacity, used, scored = snapshot.facts.allocatable.item, snapshot.used.item, snapshot.scored.item
    return Room(
        (capacity(CPU, row), capacity(MEMORY, row)),
        (used(CPU, row), used(MEMORY, row)),
        (scored(CPU, row), scored(MEMORY, row)),
        snapshot.facts.largest,
        ONE_ROW,
    )
