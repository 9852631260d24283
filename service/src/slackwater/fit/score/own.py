"""Our own score, as kube-scheduler counts the score of an extender."""

from collections.abc import Callable

from slackwater.fit.node_scores import RoomScore
from slackwater.fit.score.room import Room, Value
from slackwater.fit.score_curve import MAX_EXTENDER_SCORE, ScoreCurve, fractions_of, tenths
from slackwater.snapshot.equivalence_groups import NumberedGroup
from slackwater.snapshot.node_facts import CPU, MEMORY


def own_score(curve: Callable[[], ScoreCurve], weight: int) -> RoomScore:
    """Makes the function for our own score, as kube-scheduler counts an extender's score: 0..10, times ten, times the weight.

    The score reads requests, which equal Reserved except for pods that grow in place."""

    def own(room: Room, kind: NumberedGroup) -> Value:
        requests, used = kind.kind.requests, room.used
        after = used[CPU] + requests.cpu, used[MEMORY] + requests.memory
        return weight * MAX_EXTENDER_SCORE * tenths(fractions_of(after, room.capacity, room.largest, curve(), room.of), room.of)

    return own
