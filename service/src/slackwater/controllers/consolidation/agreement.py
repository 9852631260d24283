"""For how long plans have agreed: a node goes only once they have for long enough.

While demand falls each plan saves more than the one before, by other nodes. A move that began then would evict pods whose
next node goes as well, and pods that were moved rest, so what is left could no longer be put right.
"""

from dataclasses import dataclass, field
from typing import Final

from slackwater.controllers.consolidation.outcome import ConsolidationPlan
from slackwater.model.ids import Instant, NodeName, Seconds

#: A plan that saves so much of all money more than one before it shows that demand falls.
MUCH_MORE: Final = 0.02
#: So many times the planned time a node waits, at most, for plans to stop saving more.
_LONGEST: Final = 4


@dataclass(slots=True, kw_only=True)
class Agreement:
    """`since`: since when every plan has had each node go. `saved`: the least that plans have saved, in micros an hour, since
    they last came to save much more; that was at `grew`."""

    since: dict[NodeName, Instant] = field(default_factory=dict)
    saved: int = 0
    grew: Instant = Instant(float("-inf"))

    def note(self, plan: ConsolidationPlan, now: Instant) -> None:
        """Notes a plan made now."""
        planned = [each.name for move in plan.moves for each in move.leaving]
        self.since = {name: self.since.get(name, now) for name in planned}
        saved = sum(move.saved for move in plan.moves if move.reason == "Underutilized")
        if saved > self.saved + MUCH_MORE * plan.cost:
            self.saved, self.grew = saved, now
        self.saved = min(self.saved, saved)

    def is_growing(self, now: Instant, planned_time: Seconds) -> bool:
        """Did plans come to save much more within the planned time?"""
        return now - self.grew < planned_time

    def ripe_at(self, plan: ConsolidationPlan, planned_time: Seconds) -> dict[NodeName, Instant]:
        """When each of the plan's nodes may go, if later plans are like this one. Those that are due do not wait for plans to
        stop saving more."""
        found: dict[NodeName, Instant] = {}
        for move in plan.moves:
            for each in move.leaving:
                since = self.since[each.name]
                steady = self.grew + planned_time if move.reason == "Underutilized" else since
                found[each.name] = Instant(max(since + planned_time, min(steady, since + _LONGEST * planned_time)))
        return found
