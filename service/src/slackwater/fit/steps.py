"""The limits of a plan: its work is counted in steps, so where it ends does not depend on the machine's load.

A step is one question of the plan whether to go on (about one equivalence group placed or judged), or `_ROWS` rows judged by
one predicate; each takes a quarter of a millisecond or so. The time limit is a last resort, for a machine on which this is not
so. `cut` says which of the two has ended a part of the plan.
"""

from collections.abc import Callable
from typing import Final, Literal

from slackwater.snapshot.cluster_snapshot import ClusterSnapshot

CutBy = Literal["steps", "time"]
#: The most steps of one plan of the service: about 15 s of CPU. 1,060 nodes in 20 pools with 2,170 pending pods take 1,900.
MOST_STEPS: Final = 50_000
_ROWS: Final = 5_000


class PlanSteps:
    """The steps of one plan on a snapshot. `most`: 0 for no limit. `is_late`: the time limit; it is asked at each step, also
    without a limit, since there the planning process answers questions."""

    def __init__(self, snapshot: ClusterSnapshot, *, most: int, is_late: Callable[[], bool]) -> None:
        self._snapshot, self._most, self._is_late = snapshot, most, is_late
        self._before, self._asked = snapshot.rows_judged, 0
        self.cut: CutBy | None = None

    @property
    def used(self) -> int:
        return self._asked + (self._snapshot.rows_judged - self._before) // _ROWS

    def late(self, part: bool = False) -> bool:
        """Has the time limit ended the plan? `part`: that of a part of it has."""
        ended = part or self._is_late()
        self.cut = "time" if ended else self.cut
        return ended

    def past(self, share: int) -> bool:
        """Has the plan used the `share`-th part of its steps?"""
        return 0 < self._most <= share * self.used

    def over(self, share: int = 1) -> bool:
        """Takes a step. Does the plan have to end, or the part of it that may take the `share`-th part of the steps?"""
        self._asked += 1
        if self.late():
            return True
        ended = self.past(share)
        if ended and self.cut is None:
            self.cut = "steps"
        return ended
