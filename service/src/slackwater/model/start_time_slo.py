"""Start-time SLOs of pods: the class of pods that each applies to, its target, and what was observed of the class. Values
only."""

from dataclasses import dataclass, field

import numpy as np

from slackwater.model.columns import Int64
from slackwater.model.objects import Labels, Pod
from slackwater.model.pod_constraints import Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class PodClass:
    """A class of pods with a start-time SLO: `share_ppm` millionths of its new pods have a node within `within_seconds` of
    creation.

    A pod belongs to the class if its namespace is one of `namespaces` (empty: any), its labels contain all of `labels`, and its
    priority is within both bounds. Pods of DaemonSets and mirror pods belong to none (`controllers.slack.pod_arrivals`).
    """

    name: str
    share_ppm: int
    within_seconds: float
    namespaces: tuple[str, ...] = ()
    labels: Labels = ()
    least_priority: int | None = None
    most_priority: int | None = None

    def holds(self, pod: Pod) -> bool:
        if self.namespaces and pod.key.namespace not in self.namespaces:
            return False
        if self.least_priority is not None and pod.priority < self.least_priority:
            return False
        if self.most_priority is not None and pod.priority > self.most_priority:
            return False
        return not self.labels or set(self.labels) <= set(pod.labels)


@dataclass(frozen=True, slots=True)
class KindShare:
    """How many of a class's newest pods were of one equivalence group; `labels` are those of the newest."""

    kind: Kind
    labels: Labels
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SLOAttainment:
    """How well a start-time SLO was met: over the last day, and since the process began. `waiting` pods may still be in
    time."""

    in_time: int = 0
    late: int = 0
    waiting: int = 0
    all_in_time: int = 0
    all_late: int = 0

    @property
    def share(self) -> float | None:
        """The share of the last day's pods that were in time; None where there were none."""
        judged = self.in_time + self.late
        return None if not judged else self.in_time / judged


def _nothing() -> Int64:
    return np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Observed:
    """What is known of a class.

    `arrivals`, `departures`, `in_time` and `late` count pods in each whole minute, the newest last, up to `minute` (of Unix
    time), shapes (n,). `moved` is how many more pods arrived than departed since. `mix` has the equivalence groups of its pods,
    and `kept` how well the SLO was met.
    """

    of: PodClass
    minute: int
    arrivals: Int64 = field(default_factory=_nothing)
    departures: Int64 = field(default_factory=_nothing)
    in_time: Int64 = field(default_factory=_nothing)
    late: Int64 = field(default_factory=_nothing)
    moved: int = 0
    mix: tuple[KindShare, ...] = ()
    kept: SLOAttainment = SLOAttainment()
