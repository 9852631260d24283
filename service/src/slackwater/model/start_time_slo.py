"""Start-time SLOs: the class of pods that each applies to, its target, and what was observed of the class. Values only."""

from dataclasses import dataclass, field

import numpy as np

from slackwater.model.columns import Int64
from slackwater.model.ids import Seconds
from slackwater.model.objects import Labels, Pod
from slackwater.model.pod_constraints import Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class PodClass:
    """A class of pods with a start-time SLO: of its new pods, `share_ppm` millionths are to have a node within `within`
    of their creation.

    A pod belongs to the class if its namespace is one of `namespaces` (empty: any), its labels contain all of `labels`, and its
    priority is within both bounds. Pods of DaemonSets and mirror pods belong to no class (`controllers.slack.pod_arrivals`).
    """

    name: str
    share_ppm: int
    within: Seconds
    namespaces: tuple[str, ...] = ()
    labels: Labels = ()
    min_priority: int | None = None
    max_priority: int | None = None

    def holds(self, pod: Pod) -> bool:
        if self.namespaces and pod.key.namespace not in self.namespaces:
            return False
        if self.min_priority is not None and pod.priority < self.min_priority:
            return False
        if self.max_priority is not None and pod.priority > self.max_priority:
            return False
        return not self.labels or set(self.labels) <= set(pod.labels)


@dataclass(frozen=True, slots=True)
class KindShare:
    """One equivalence group's part of a class: how many of the class's newest pods belong to the group. `labels` are those of
    the group's newest pod."""

    kind: Kind
    labels: Labels
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SLOAttainment:
    """How well a start-time SLO was met. `in_time` pods got a node within the SLO's time and `late` ones did not, both over the
    last day; `all_in_time` and `all_late` count since the process began. `waiting` pods have no node yet, and their time is not
    over."""

    in_time: int = 0
    late: int = 0
    waiting: int = 0
    all_in_time: int = 0
    all_late: int = 0

    @property
    def share(self) -> float | None:
        """The share of the last day's pods that got a node in time, 0 to 1; None if there were no such pods."""
        judged = self.in_time + self.late
        return None if not judged else self.in_time / judged


def _nothing() -> Int64:
    return np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Observed:
    """What was observed of one class of pods.

    `arrivals`, `departures`, `in_time` and `late` count the class's pods in each whole minute before `minute` (of Unix time),
    the newest minute last; shapes (n,). `moved` is the arrivals minus the departures since `minute` began. `mix` has the
    equivalence groups of the class's newest pods. `kept` says how well the SLO was met.
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
