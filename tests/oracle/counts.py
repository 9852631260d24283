"""What the real plug-ins said, counted: who was first to reject how often, and which reasons occurred."""

from collections import Counter
from collections.abc import Iterable, Iterator

from slackwater.model.kubernetes_rules import DEFAULT_VERSION, KubernetesVersion
from tests.oracle.real import Line
from tests.oracle.reasons import known, wanted, wanted_with_devices

#: Fewer clusters than this say nothing about what the generator exercises.
ENOUGH_CLUSTERS = 800
_SHARE = 0.01
#: Of a plug-in that rejects first in fewer than `_SHARE` of the pairs, so often for each cluster.
_TIMES = 0.25


class EventCounts:
    """Counts placement lines of the real side. `devices`: the clusters have devices, and other texts have to occur."""

    def __init__(self, *, devices: bool = False) -> None:
        self.devices = devices
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

    def problems(self, version: KubernetesVersion = DEFAULT_VERSION) -> Iterator[str]:
        """What the generator ought to have exercised with this version and did not; nothing below `ENOUGH_CLUSTERS`."""
        for (plugin, reason), times in sorted(self.unknown.items()):
            yield f"{plugin} gave a reason that tests/oracle/reasons.py does not know, {times} times: {reason}"
        if self.failed and not self.devices:
            yield f"a plug-in failed for {self.failed} pods; the generator is to avoid what no verdict follows from"
        if self.clusters < ENOUGH_CLUSTERS:
            return
        wants = wanted_with_devices(version) if self.devices else wanted(version)
        for plugin in () if self.devices else dict.fromkeys(plugin for plugin, _ in sorted(wants)):
            times = self.first[plugin]
            if times < _TIMES * self.clusters and times < _SHARE * self.pairs:
                yield f"{plugin} was the first to reject {times} of {self.pairs} pairs, want 1 % or one in four clusters"
        for plugin, reason in sorted(wants - set(self.reasons)):
            yield f"{plugin} never said: {reason}"

    def table(self) -> str:
        """The counts as text."""
        rows = [
            f"{self.clusters:,} clusters, {self.pairs:,} node-pod pairs, {self.feasible:,} feasible "
            f"({_share(self.feasible, self.pairs)})"
        ]
        for plugin in sorted(self.first):
            rows.append(f"{self.first[plugin]:>9,} {_share(self.first[plugin], self.pairs):>7}  {plugin}")
            rows += [f"{times:>9,} {'':>7}    {reason}" for (of, reason), times in sorted(self.reasons.items()) if of == plugin]
        return "\n".join(rows)


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.2f} %" if whole else "-"
