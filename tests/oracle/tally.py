"""What the real plug-ins said, counted: who was first to reject how often, and which reasons occurred."""

from collections import Counter
from collections.abc import Iterable, Iterator

from tests.oracle.real import Line
from tests.oracle.reasons import PLUGINS, WANTED, known

#: Fewer clusters than this say nothing about what the generator exercises.
ENOUGH_CLUSTERS = 2000
_SHARE = 0.01
_TIMES = 500


class EventCounts:
    """Counts placement lines of the real side."""

    def __init__(self) -> None:
        self.clusters = 0
        self.pairs = 0
        self.feasible = 0
        self.failed = 0
        self.first: Counter[str] = Counter()
        self.reasons: Counter[tuple[str, str]] = Counter()
        self.unknown: Counter[tuple[str, str]] = Counter()

    def add(self, lines: Iterable[Line]) -> None:
        """Counts the answer about one cluster."""
        self.clusters += 1
        for line in lines:
            self.failed += "failed" in line
            self.feasible += len(line["feasible"])
            self.pairs += len(line["feasible"]) + len(line["rejected"])
            for verdict in line["rejected"].values():
                self._count(verdict["plugin"], verdict["reasons"])

    def _count(self, plugin: str, reasons: Iterable[str]) -> None:
        self.first[plugin] += 1
        for reason in reasons:
            if member := known(plugin, reason):
                self.reasons[member] += 1
            else:
                self.unknown[plugin, reason] += 1

    def problems(self) -> Iterator[str]:
        """What the generator ought to have exercised and did not; nothing below `ENOUGH_CLUSTERS`."""
        for (plugin, reason), times in sorted(self.unknown.items()):
            yield f"{plugin} gave a reason that tests/oracle/reasons.py does not know, {times} times: {reason}"
        if self.failed:
            yield f"a plug-in failed for {self.failed} pods; the generator is to avoid what no verdict follows from"
        if self.clusters < ENOUGH_CLUSTERS:
            return
        for plugin in PLUGINS:
            times = self.first[plugin]
            if times < _TIMES * self.clusters / ENOUGH_CLUSTERS and times < _SHARE * self.pairs:
                yield f"{plugin} was the first to reject {times} of {self.pairs} pairs, want 1 % or 500 in 2,000 clusters"
        for plugin, reason in sorted(WANTED - set(self.reasons)):
            yield f"{plugin} never said: {reason}"

    def table(self) -> str:
        """The counts as text; NodeName is left out, see tests/oracle/reasons.py."""
        rows = [
            f"{self.clusters:,} clusters, {self.pairs:,} node-pod pairs, {self.feasible:,} feasible "
            f"({_share(self.feasible, self.pairs)})"
        ]
        for plugin in PLUGINS:
            rows.append(f"{self.first[plugin]:>9,} {_share(self.first[plugin], self.pairs):>7}  {plugin}")
            rows += [f"{self.reasons[member]:>9,} {'':>7}    {member[1]}" for member in sorted(WANTED) if member[0] == plugin]
        return "\n".join(rows)


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.2f} %" if whole else "-"
