"""What may never be true while nodes are removed, asked of every single moment of a history.

A moment is the state after one change, in the order of etcd: budgets, drains and removals under way, pods without room.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.cluster.support.removals import Change, History


@dataclass(slots=True)
class Judgement:
    """Found of the moments from a version on. `drains` are nodes tainted for removal with pods on them."""

    below: list[str] = field(default_factory=list)
    most_drains: int = 0
    most_removals: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    added: list[str] = field(default_factory=list)
    given_up: list[str] = field(default_factory=list)
    #: Drains whose last pod left before the first drain was given up.
    emptied: list[str] = field(default_factory=list)


def judged(history: History, *, since: int) -> Judgement:
    """Goes through all changes; those before `since` only lead to the state then. `refused` pods found no room: the version."""
    moment, found = _Moment(), Judgement()
    for change in sorted(history.changes, key=lambda change: change.version):
        before = moment.take(change)
        if change.version >= since:
            _judge(change, before, moment, found)
    return found


@dataclass(slots=True)
class _Moment:
    nodes: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    pods: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    budgets: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    #: How many pods stand on each node.
    running_pods: Counter[str] = field(default_factory=Counter)
    #: How many pods of each budget are healthy.
    healthy: Counter[str] = field(default_factory=Counter)

    def take(self, change: Change) -> Mapping[str, Any] | None:
        """The object as it was before."""
        of = {"node": self.nodes, "pod": self.pods, "budget": self.budgets}[change.kind]
        before = of.get(change.name)
        if change.now is None:
            of.pop(change.name, None)
        else:
            of[change.name] = change.now
        if change.kind == "pod":
            self._count(change.name, before, -1)
            self._count(change.name, change.now, 1)
        elif change.kind == "budget":
            self._count_all(change.name, change.now)
        return before

    def _count(self, name: str, pod: Mapping[str, Any] | None, by: int) -> None:
        if pod is None:
            return
        if pod["node"]:
            self.running_pods[pod["node"]] += by
        for budget, said in self.budgets.items():
            if _guards(budget, said, name, pod) and _healthy(pod):
                self.healthy[budget] += by

    def _count_all(self, budget: str, said: Mapping[str, Any] | None) -> None:
        guarded = (pod for name, pod in self.pods.items() if said is not None and _guards(budget, said, name, pod))
        self.healthy[budget] = sum(map(_healthy, guarded))

    def removals(self) -> tuple[int, int]:
        """Nodes on their way out, and those among them with pods."""
        tainted = [name for name, node in self.nodes.items() if node["tainted"]]
        return len(tainted), sum(self.running_pods[name] > 0 for name in tainted)


def _guards(budget: str, said: Mapping[str, Any], name: str, pod: Mapping[str, Any]) -> bool:
    same = budget.partition("/")[0] == name.partition("/")[0]
    return same and all(pod["labels"].get(key) == value for key, value in said["selector"].items())


def _healthy(pod: Mapping[str, Any]) -> bool:
    return pod["ready"] and not pod["deleting"]


def _judge(change: Change, before: Mapping[str, Any] | None, moment: _Moment, found: Judgement) -> None:
    if change.kind == "pod":
        _judge_pod(change, before, moment, found)
    elif change.kind == "node":
        _judge_node(change, before, found)
        removals, drains = moment.removals()
        found.most_removals, found.most_drains = max(found.most_removals, removals), max(found.most_drains, drains)


def _judge_node(change: Change, before: Mapping[str, Any] | None, found: Judgement) -> None:
    if before is None and change.now is not None:
        found.added.append(change.name)
    if before is not None and before["tainted"] and change.now is not None and not change.now["tainted"]:
        found.given_up.append(change.name)


def _judge_pod(change: Change, before: Mapping[str, Any] | None, moment: _Moment, found: Judgement) -> None:
    if before is not None and _healthy(before) and (change.now is None or not _healthy(change.now)):
        for budget, said in moment.budgets.items():
            if _guards(budget, said, change.name, before) and moment.healthy[budget] < said["least"]:
                found.below.append(f"{budget}: {moment.healthy[budget]} healthy, at least {said['least']}: {change.name}")
    left = before["node"] if before is not None and change.now is None else None
    tainted = left in moment.nodes and moment.nodes[left]["tainted"]
    if left is not None and tainted and not moment.running_pods[left] and not found.given_up:
        found.emptied.append(left)
    if change.now is not None and change.now["refused"] and not change.now["node"]:
        found.refused.setdefault(change.name, change.version)
