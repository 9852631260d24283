"""Counts of the autoscaler's loops, as numbers that only grow; the metrics endpoint reads them."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Final, Literal, get_args

from slackwater.controllers.scaledown.loop import ScaleDownRecord
from slackwater.model.ids import UnixTime
from slackwater.model.spread import Spread
from slackwater.runtime.autoscaler.record import LoopRecord

#: Parts of a loop, in the words of Cluster Autoscaler.
Function = Literal["main", "cloudProviderRefresh", "scaleUp", "findUnneeded", "scaleDown:empty", "scaleDown:drain"]
FUNCTIONS: Final[tuple[Function, ...]] = get_args(Function)
#: Upper bounds of the buckets in seconds; one more bucket has no bound.
_SECONDS: Final = tuple(0.01 * 2**power for power in range(18))
_LATE: Final = "timeout"


def _spreads() -> dict[Function, Spread]:
    return {name: Spread(_SECONDS) for name in FUNCTIONS}


@dataclass(slots=True)
class LoopCounts:
    """Counts over all loops. `errors` is by Cluster Autoscaler's error types, `failed_scale_ups` and `failed_nodes` by the code
    of the provider or ours. `last_activity` is the Unix time of each activity's last run."""

    loops: int = 0
    failed_loops: int = 0
    nodes_asked: int = 0
    late_removed: int = 0
    #: By the state of the node before: empty, underutilized or unready.
    nodes_removed: Counter[str] = field(default_factory=Counter)
    gpu_nodes_removed: Counter[str] = field(default_factory=Counter)
    #: Rolled-back drains, by reason.
    removals_given_up: Counter[str] = field(default_factory=Counter)
    pods_evicted: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    failed_scale_ups: Counter[str] = field(default_factory=Counter)
    failed_nodes: Counter[str] = field(default_factory=Counter)
    last_activity: dict[str, UnixTime] = field(default_factory=dict)
    durations: dict[Function, Spread] = field(default_factory=_spreads)

    def begun(self, at: UnixTime) -> None:
        self.last_activity["main"] = at

    def failed(self) -> None:
        self.failed_loops += 1
        self.errors["internalError"] += 1

    def ended(self, record: LoopRecord) -> None:
        self.loops += 1
        for name in ("mainSuccessful", "autoscaling", "scaleUp"):
            self.last_activity[name] = record.at
        spent = record.spent
        self.durations["main"].note(spent.whole)
        self.durations["cloudProviderRefresh"].note(spent.sense)
        self.durations["scaleUp"].note(spent.plan)
        self.errors["cloudProviderError"] += len(record.problems)
        self.failed_nodes.update(record.failed)
        self.late_removed += record.failed.get(_LATE, 0)
        if record.scale_down is not None:
            self._shrunk(record.scale_down)
        for call, problem in record.asked:
            if problem is None:
                self.nodes_asked += 0 if call.again else call.nodes
            else:
                self.failed_scale_ups[problem.kind] += 1

    def _shrunk(self, scale_down: ScaleDownRecord) -> None:
        self.durations["findUnneeded"].note(scale_down.seconds)
        self.last_activity["scaleDown"] = self.last_activity["main"]
        for end in scale_down.ended:
            self.pods_evicted += end.evicted
            if end.outcome == "rolled-back":
                self.removals_given_up[str(end.unremovable_reason)] += 1
                continue
            order = end.order
            what = "empty" if order.empty else "underutilized" if order.ready else "unready"
            self.nodes_removed[what] += 1
            self.gpu_nodes_removed[what] += order.gpu
            self.durations["scaleDown:empty" if order.empty else "scaleDown:drain"].note(end.seconds)
