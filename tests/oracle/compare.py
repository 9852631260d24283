"""Sets our lines beside the real ones; what is compared, and what may differ.

May differ: the order of reasons (Go's own order of extended resources is random), and the text for device claims,
which we refuse in our own words. A score plug-in that skipped the pod is the same as one that gave every node 0.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tests.oracle.real import Line, Mode

_OWN_WORDS: Final = frozenset({"DynamicResources"})


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
    same = want["plugin"] in _OWN_WORDS or sorted(want["reasons"]) == sorted(got["reasons"])
    return None if same else "reasons"


def _scores(real: Line, ours: Line) -> Iterator[Difference]:
    for plugin in sorted({*real["scores"], *ours["scores"]}):
        want, got = real["scores"].get(plugin, {}), ours["scores"].get(plugin, {})
        for node in sorted({*want, *got}):
            if want.get(node, 0) != got.get(node, 0):
                yield Difference(
                    pod=real["pod"], node=node, what=f"score {plugin}", want=want.get(node, 0), got=got.get(node, 0)
                )
