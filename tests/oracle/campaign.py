"""Judges many generated clusters on both sides and gathers what differs."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.oracle.compare import Difference, differences
from tests.oracle.counts import EventCounts
from tests.oracle.generator import SMALL, Size, generate
from tests.oracle.generator.draw import Draw, Obj
from tests.oracle.generator.versions import COMPARISONS, add_comparisons, add_room, drop_allocations, make_scorable
from tests.oracle.real import Line, Mode, OracleFailed, Real, running
from tests.oracle.scorecounts import ScoreCounts
from tests.oracle.shrink import smallest

#: Kinds of which a file without any says nothing to us, where kube-scheduler would see that there are none: without the
#: last object a cluster might differ for that reason.
_KNOWN_BY_ONE: Final = frozenset({"CSIStorageCapacity", "PersistentVolume", "PersistentVolumeClaim", "StorageClass"})

Ours = Callable[[Obj], Iterable[Line]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A cluster on which both sides disagree."""

    index: int
    cluster: Obj
    first: Difference


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What a campaign found."""

    event_counts: EventCounts = field(default_factory=EventCounts)
    scores: ScoreCounts = field(default_factory=ScoreCounts)
    #: The first cluster of each kind of difference.
    failures: dict[tuple[str, str, str], Failure] = field(default_factory=dict)
    differing: int = 0  #: clusters
    left_out: int = 0  #: clusters that are not valid, or of which a plug-in cannot say anything

    def add(self, index: int, cluster: Obj, want: list[Line], *, mode: Mode, size: Size, ours: Ours | None) -> None:
        """Counts what the real side says of a cluster, and keeps the first of each kind of difference."""
        if not size.unsure and mode != "sequential":
            (self.event_counts if mode == "placement" else self.scores).add(want)
        found = _compare(mode, cluster, want, ours) if ours else []
        self.differing += bool(found)
        for difference in found:
            self.failures.setdefault(difference.kind, Failure(index=index, cluster=cluster, first=difference))


def run(
    program: Path,
    *,
    mode: Mode,
    seed: int,
    indices: range,
    ours: Ours | None,
    size: Size = SMALL,
    kinds: int = 1,
    tell: Callable[[int], None] = lambda _: None,
    config: Path | None = None,
    gates: Mapping[str, bool] | None = None,
) -> Outcome:
    """Judges the clusters of `indices`, stops after `kinds` kinds of differences; `ours` None only counts the real side.
    `config` is a KubeSchedulerConfiguration with a profile of its own, `gates` are feature gates."""
    outcome = Outcome(event_counts=EventCounts(devices=size.devices))

    def change(index: int, cluster: Obj) -> None:
        if mode == "scores":
            make_scorable(cluster)
            if size.device_limits.unallocated_scores:
                drop_allocations(cluster)
            add_room(Draw(seed, index, "/scores"), cluster)
        if gates and gates.get(COMPARISONS):
            add_comparisons(Draw(seed, index, "/comparisons"), cluster)

    with running(program, mode, validate=size.unsure, config=config, gates=gates) as real:
        for index, cluster, want in _answered(real, seed, indices, size, change):
            if size.unsure and any("invalid" in line or (size.mutated and "failed" in line) for line in want):
                outcome.left_out += 1
            else:
                outcome.add(index, cluster, want, mode=mode, size=size, ours=ours)
            tell(index)
            if len(outcome.failures) >= kinds:
                break
    return outcome


def _answered(
    real: Real, seed: int, indices: range, size: Size, change: Callable[[int, Obj], None]
) -> Iterator[tuple[int, Obj, list[Line]]]:
    """One cluster ahead: the real side judges the next while ours judges this one. `change` is called with each cluster."""
    waiting: deque[tuple[int, Obj]] = deque()
    for index in indices:
        cluster = generate(seed, index, size)
        change(index, cluster)
        real.ask(cluster)
        waiting.append((index, cluster))
        if len(waiting) > 1:
            yield *waiting.popleft(), _lines(real, size)
    while waiting:
        yield *waiting.popleft(), _lines(real, size)


def _lines(real: Real, size: Size) -> list[Line]:
    try:
        return real.answer()
    except OracleFailed as err:
        if not size.unsure:
            raise
        return [{"failed": str(err)}]


def _compare(mode: Mode, cluster: Obj, want: list[Line], ours: Ours) -> list[Difference]:
    try:
        got = list(ours(cluster))
    except Exception as err:  # whatever our side raises is a difference, to be shrunk like any other
        return [Difference(pod="", what=f"raised {type(err).__name__}", want="an answer", got=str(err))]
    return list(differences(mode, want, got))


def shrunk(program: Path, failure: Failure, *, mode: Mode, ours: Ours, gates: Mapping[str, bool] | None = None) -> Failure:
    """The smallest cluster that both sides judge as differently, and that an API server would hold."""
    with running(program, mode, validate=True, gates=gates) as real:

        def first_alike(cluster: Obj) -> Difference | None:
            try:
                want = real.judge(cluster)
            except OracleFailed:
                return None
            if any("invalid" in line for line in want):
                return None
            found = _compare(mode, cluster, want, ours)
            return next((difference for difference in found if difference.kind == failure.first.kind), None)

        kept = _needed(failure.cluster)

        def still_fails(fewer: Obj) -> bool:
            return _needed(fewer) == kept and first_alike(fewer) is not None

        cluster = smallest(failure.cluster, still_fails)
        first = first_alike(cluster) or failure.first
    return Failure(index=failure.index, cluster=cluster, first=first)


def _needed(cluster: Obj) -> frozenset[str]:
    return _KNOWN_BY_ONE & {str(item.get("kind")) for item in cluster["items"]}
