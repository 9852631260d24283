"""NodeResourcesBalancedAllocation: prefers nodes where the pod makes the use of CPU and memory more even; before 1.36, nodes
where the use is most even with the pod."""

from slackwater.fit.score.normalizing import HIGHEST
from slackwater.fit.score.room import Arithmetic, Pair, Room, Value
from slackwater.snapshot.equivalence_groups import NumberedGroup
from slackwater.snapshot.node_facts import CPU, MEMORY


def score_balanced_allocation(room: Room, kind: NumberedGroup, *, by_improvement: bool = True) -> Value:
    """The score of each row. `by_improvement`: `Rule.BALANCE_BY_IMPROVEMENT` holds."""
    requests, used = kind.kind.requests, room.used
    if not any(requests):
        return 0 * used[CPU]
    after = _evenness((used[CPU] + requests.cpu, used[MEMORY] + requests.memory), room.capacity, room.of)
    if not by_improvement:
        return after
    half = HIGHEST // 2
    return half + (half + after - _evenness(used, room.capacity, room.of)) // 2


def _evenness(used: Pair, capacity: Pair, of: Arithmetic) -> Value:
    """How evenly CPU and memory of each row are used: 100 if both shares are equal, 50 if one is full and the other empty. A
    node that lacks one of the resources counts as even."""
    cpu = of.smaller(used[CPU] / of.larger(capacity[CPU], 1), 1.0)
    memory = of.smaller(used[MEMORY] / of.larger(capacity[MEMORY], 1), 1.0)
    deviation = of.where((capacity[CPU] > 0) & (capacity[MEMORY] > 0), abs((cpu - memory) / 2), 0.0)
    return of.whole((1 - deviation) * float(HIGHEST))
