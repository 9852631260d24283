"""A promise about how soon pods start: for which pods it is, what it says, and what was observed of them. Values only."""

from dataclasses import dataclass, field

import numpy as np

from slackwater.model.columns import Int64
from slackwater.model.equivalence import Kind
from slackwater.model.objects import Labels, Pod


@dataclass(frozen=True, slots=True, kw_only=True)
class PodClass:
    """`share_ppm` millionths of its new pods have a node within `within_seconds` of their creation.

    A pod is of the class where its namespace is one of `namespaces` (empty: any), its labels hold all of `labels`, and its
    priority is within both bounds. Pods that come with a node, and those that a kubelet runs from a file, are of none.
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
    """So many of a class's newest pods were of this kind; `labels` are those of the newest."""

    kind: Kind
    labels: Labels
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """How a promise was kept: of the last day, and since the process began. `waiting` pods may still be in time."""

    in_time: int = 0
    late: int = 0
    waiting: int = 0
    all_in_time: int = 0
    all_late: int = 0

    @property
    def share(self) -> float | None:
        """Of the last day's pods; None where none came."""
        judged = self.in_time + self.late
        return None if not judged else self.in_time / judged


def _nothing() -> Int64:
    return np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Observed:
    """What is known of a class: how many pods came and went, were in time and late in each whole minute, the newest last, up
    to `minute` (of Unix time), shapes (n,); how many more came than went since (`moved`); which kinds of pods they are; and how
    the promise was kept."""

    of: PodClass
    minute: int
    arrivals: Int64 = field(default_factory=_nothing)
    departures: Int64 = field(default_factory=_nothing)
    in_time: Int64 = field(default_factory=_nothing)
    late: Int64 = field(default_factory=_nothing)
    moved: int = 0
    mix: tuple[KindShare, ...] = ()
    kept: Kept = Kept()
