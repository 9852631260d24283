"""One cluster: our plan is carried out in its order, and the real plug-ins say whether each pod fits where it is to go.

Budgets are counted beside it, the strict way: pods of the nodes before are all down at the same time, and none that is made
again is ready yet. Then the next node may still give up one pod of each of its budgets; the rest of its pods wait for the API.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from slackwater.app.offline import read_cluster
from slackwater.app.offline.scaledown import scale_down_answer
from slackwater.app.settings import Settings, loads
from tests.oracle.drains.clusters import asks_budgets, budgets_of, guards, healthy, pods_of
from tests.oracle.generator.draw import Obj
from tests.oracle.real import Real
from tests.support.answers import json_of
from tests.support.configuration import HEAD


def settings() -> Settings:
    """Every node may be tried, however full, and for as long as it takes."""
    scale_down = {"utilizationThreshold": 1.0, "simulationTimeout": "0s"}
    return loads(yaml.safe_dump({**HEAD, "vertical": {"missingRequests": "zero"}, "autoscaler": {"scaleDown": scale_down}}))


@dataclass(slots=True, kw_only=True)
class StatusSources:
    """What was asked, over many clusters, and what was wrong."""

    clusters: int = 0
    nodes: int = 0
    removable: int = 0
    moves: int = 0
    guarded: int = 0
    problems: list[str] = field(default_factory=list)
    kept: Counter[str] = field(default_factory=Counter)

    def add(self, answer: Obj, cluster: Obj, problems: list[str]) -> None:
        self.clusters += 1
        self.removable += len(answer["removable"])
        self.nodes += len(answer["removable"]) + len(answer["kept"])
        self.moves += sum(len(found["destinations"]) for found in answer["removable"])
        self.kept.update(one["reason"] for one in answer["kept"])
        budgets = budgets_of(cluster)
        by_name = {named(pod): pod for pod in pods_of(cluster)}
        movers = (by_name[name] for found in answer["removable"] for name in found["destinations"])
        self.guarded += sum(any(guards(budget, pod) for budget in budgets) for pod in movers)
        self.problems += problems

    def table(self) -> str:
        stay = ", ".join(f"{count:,} {reason}" for reason, count in self.kept.most_common())
        return (
            f"{self.clusters:,} clusters, {self.removable:,} of {self.nodes:,} nodes removable, {self.moves:,} pods moved, "
            f"{self.guarded:,} of them with a budget; kept: {stay}"
        )


def named(pod: Obj) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def answer_of(cluster: Obj, settings: Settings) -> Obj:
    answer: Obj = json_of(scale_down_answer(read_cluster(cluster), settings))
    return answer


def steps_of(answer: Obj) -> list[Obj]:
    """What the oracle is to carry out."""
    return [
        {"node": found["node"], "moves": [{"pod": pod, "to": to} for pod, to in found["destinations"].items()]}
        for found in answer["removable"]
    ]


def violations(real: Real, cluster: Obj, answer: Obj) -> Iterator[str]:
    """What is wrong with the plan, in words."""
    yield from _misfits(real.judge({**cluster, "steps": steps_of(answer)}), answer)
    yield from _overspent(cluster, answer)
    yield from _left_behind(cluster, answer)


def _misfits(lines: list[dict[str, Any]], answer: Obj) -> Iterator[str]:
    wanted = sum(len(found["destinations"]) for found in answer["removable"])
    if len(lines) != wanted:
        yield f"got {len(lines)} lines, want one for each of {wanted} moves"
    for line in lines:
        if line.get("failed") or not line["fits"]:
            why = line.get("failed") or line.get("verdict") or "the node has gone"
            yield f"{line['pod']} of {line['node']} does not fit on {line['to']}: {why}"


def _overspent(cluster: Obj, answer: Obj) -> Iterator[str]:
    by_name = {named(pod): pod for pod in pods_of(cluster)}
    for budget in budgets_of(cluster):
        up, least, down = budget["status"]["currentHealthy"], budget["status"]["desiredHealthy"], 0
        for found in answer["removable"]:
            own = [by_name[pod] for pod in found["destinations"] if guards(budget, by_name[pod]) and healthy(by_name[pod])]
            if up - down - 1 < least and any(asks_budgets(pod) for pod in own):
                yield f"{found['node']}: {budget['metadata']['name']} has {up - down} healthy left, needs {least}"
            down += len(own)


def _left_behind(cluster: Obj, answer: Obj) -> Iterator[str]:
    """Healthy pods of a removable node that a controller would make again, and that the plan says nothing of."""
    moved = {pod for found in answer["removable"] for pod in found["destinations"]}
    gone = {found["node"] for found in answer["removable"]}
    for pod in pods_of(cluster):
        owners = pod["metadata"].get("ownerReferences", [])
        daemon = any(owner["kind"] == "DaemonSet" for owner in owners)
        if pod["spec"]["nodeName"] in gone and healthy(pod) and not daemon and named(pod) not in moved:
            yield f"{named(pod)} of {pod['spec']['nodeName']} has no destination"
