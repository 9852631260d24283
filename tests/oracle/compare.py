"""Sets our lines beside the real ones; what is compared, and what may differ.

May differ: the order of reasons (Go's own order of extended resources is random), the text of an error that ends a pod's cycle,
and which of several missing CSI drivers is named (Go's own order again). A score plug-in that skipped the pod is the same as
one that gave every node 0.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tests.oracle.real import Line, Mode

_ANY_DRIVER: Final = re.compile(r"^\S+ (?=CSI driver is not installed)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One thing about which both sides disagree."""

    pod: str
    what: str  #: "feasibility", "plugin", "code", "reasons", "node", "score NAME", "lines", "raised"
    want: Any  #: what the real plug-ins say
    got: Any
    node: str = ""

    @property
    def kind(self) -> tuple[str, str, str]:
        """Differences of the same kind have, most likely, the same cause."""
        return self.what, _named(self.want), _named(self.got)

    def __str__(self) -> str:
        where = f" on {self.node}" if self.node else ""
        return f"{self.pod}{where}: {self.what}: got {self.got}, want {self.want}"


def _named(side: Any) -> str:
    return str(side.get("plugin", "")) if isinstance(side, dict) else ""


def differences(mode: Mode, want: Sequence[Line], got: Sequence[Line]) -> Iterator[Difference]:
    """All differences between the lines of one cluster, in the order of the pods."""
    want_pods, got_pods = [line["pod"] for line in want], [line["pod"] for line in got]
    if want_pods != got_pods:
        yield Difference(pod="", what="lines", want=want_pods, got=got_pods)
        return
    for real, ours in zip(want, got, strict=True):
        if real.get("failed") or ours.get("failed"):
            if bool(real.get("failed")) != bool(ours.get("failed")):
                yield Difference(pod=real["pod"], what="failed", want=real.get("failed"), got=ours.get("failed"))
        elif mode == "sequential":
            if real["node"] != ours["node"]:
                yield Difference(pod=real["pod"], what="node", want=real["node"], got=ours["node"])
            elif real.get("devices", []) != ours.get("devices", []):
                yield Difference(pod=real["pod"], what="devices", want=real.get("devices"), got=ours.get("devices"))
        else:
            yield from _placements(real, ours) if mode == "placement" else _scores(real, ours)


def _placements(real: Line, ours: Line) -> Iterator[Difference]:
    want, got = _by_node(real), _by_node(ours)
    for node in want | got:
        if what := _disagree(want.get(node), got.get(node)):
            yield Difference(pod=real["pod"], node=node, what=what, want=want.get(node), got=got.get(node))
            continue
    if real["feasible"] != ours["feasible"] and sorted(real["feasible"]) == sorted(ours["feasible"]):
        yield Difference(pod=real["pod"], what="order of feasible nodes", want=real["feasible"], got=ours["feasible"])


def _by_node(line: Line) -> dict[str, Any]:
    return {**dict.fromkeys(line["feasible"], "feasible"), **line["rejected"]}


def _disagree(want: Any, got: Any) -> str | None:
    if not isinstance(want, dict) or not isinstance(got, dict):
        return None if want == got else "feasibility"
    for part in ("plugin", "code"):
        if want[part] != got[part]:
            return part
    return None if _words(want) == _words(got) else "reasons"


def _words(side: Any) -> list[str]:
    return sorted(_ANY_DRIVER.sub("", reason) for reason in side["reasons"])


def _scores(real: Line, ours: Line) -> Iterator[Difference]:
    for plugin in sorted({*real["scores"], *ours["scores"]}):
        want, got = real["scores"].get(plugin, {}), ours["scores"].get(plugin, {})
        for node in sorted({*want, *got}):
            if want.get(node, 0) != got.get(node, 0):
                yield Difference(
                    pod=real["pod"], node=node, what=f"score {plugin}", want=want.get(node, 0), got=got.get(node, 0)
                )
