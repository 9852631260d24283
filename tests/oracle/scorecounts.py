"""What the real score plug-ins said, counted: how often each told the feasible nodes of a pod apart."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from slackwater.model.kubernetes_rules import DEFAULT_VERSION, KubernetesVersion, Rule
from tests.oracle.counts import ENOUGH_CLUSTERS
from tests.oracle.real import Line

#: The default profile's. DynamicResources scores only claims of devices, which `--devices` alone has.
PLUGINS: Final = (
    "TaintToleration",
    "NodeAffinity",
    "NodeResourcesFit",
    "PodTopologySpread",
    "InterPodAffinity",
    "NodeResourcesBalancedAllocation",
    "ImageLocality",
)
#: Of the versions that follow `Rule.STORAGE_CAPACITY_SCORING`.
_OF_VOLUMES: Final = "VolumeBinding"
_SHARE = 0.01


class ScoreCounts:
    """Counts scores lines of the real side; a pod with one feasible node tells nothing."""

    def __init__(self) -> None:
        self.clusters = 0
        self.pods = 0
        self.distinguished: Counter[str] = Counter()

    def add(self, lines: Iterable[Line]) -> None:
        """Counts the answer about one cluster."""
        self.clusters += 1
        for line in lines:
            self.pods += any(len(nodes) > 1 for nodes in line["scores"].values())
            for plugin, nodes in line["scores"].items():
                self.distinguished[plugin] += len(set(nodes.values())) > 1

    def problems(self, version: KubernetesVersion = DEFAULT_VERSION) -> Iterator[str]:
        """Plug-ins that the generator exercised too little; nothing below `ENOUGH_CLUSTERS`."""
        plugins = (*PLUGINS, _OF_VOLUMES) if version.follows(Rule.STORAGE_CAPACITY_SCORING) else PLUGINS
        for plugin in plugins if self.clusters >= ENOUGH_CLUSTERS else ():
            if self.distinguished[plugin] < _SHARE * self.pods:
                yield f"{plugin} told the nodes of {self.distinguished[plugin]} of {self.pods} pods apart, want 1 %"

    def table(self) -> str:
        """The counts as text."""
        rows = [
            f"{self.distinguished[plugin]:>9,} {100 * self.distinguished[plugin] / max(1, self.pods):>6.2f} %  {plugin}"
            for plugin in sorted({*PLUGINS, *self.distinguished})
        ]
        return "\n".join([f"{self.clusters:,} clusters, {self.pods:,} pods with a choice of nodes; told apart by", *rows])
