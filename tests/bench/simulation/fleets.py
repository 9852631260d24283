"""What consolidation makes of generated clusters: money over the least possible, beside a rival that replaces node after node.

    python -m tests.bench.simulation.fleets --fleets 10 --seed 1            # a table; seeds 1 to 10
    python -m tests.bench.simulation.fleets -o json                         # each cluster as a line

Every plan is checked: each pod is on one node, nodes hold their pods, no pod moves twice, and the service's own verdict on a
sample of the moved pods in the cluster after the plan. The bound is what the pods cost if they could be divided
(`least_cost.divisible_cost`). `--ratio`: autoscaler.consolidation.minSavingRatio. `--oracle`: kube-scheduler's plug-ins judge a
moved pod on each node that got any. The rival is looked at after a day, on which it moves no pod twice, as the plan; and at
rest, after at most `--days`, on each of which every pod may move again.

The last savings are the dearest, so whoever saves more saves less for each eviction. That is why the plan, in the order of its
moves, is also compared where it has saved as much as the rival, and where it has evicted as many pods.
"""

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from math import inf
from statistics import median
from typing import Final

import numpy as np
from msgspec import structs

from slackwater.app.policies import consolidation_rules_of
from slackwater.controllers.consolidation.outcome import ConsolidationPlan
from slackwater.controllers.consolidation.plan import plan_consolidation
from slackwater.controllers.scaledown.planning_input import PlanningInput
from slackwater.controllers.scaledown.state import ScaleDownState
from slackwater.fit.feasible_nodes import feasible
from slackwater.model.ids import NodeName, PodUid, UnixTime
from slackwater.model.objects import Node, Pod
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.node_facts import HOSTNAME
from slackwater.snapshot.running_pods import RunningPods
from tests.bench.options import BenchFailed
from tests.bench.simulation.grown_clusters import Generated, generated
from tests.bench.simulation.least_cost import divisible_cost
from tests.bench.simulation.one_by_one import OneByOne, one_by_one
from tests.bench.simulation.placement_oracle import refused
from tests.oracle.program import build
from tests.oracle.real import Real, running
from tests.support import installed

_NOW: Final = UnixTime(1.8e9)
#: Of how many moved pods of each cluster the verdict is asked.
_SAMPLE: Final = 1000
#: At most so many days until the rival rests, and until plans find nothing more.
MOST_DAYS: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """The rival, and the plan beside it. `over`: its money after over the bound. `saved`: what the plan saves for an eviction,
    over what the rival does. `equal`: evictions until the plan saves what the rival saves, over the rival's; None if it saves
    less. `more`: what the plan saves with at most the rival's evictions, over what the rival saves."""

    over: float
    evictions: int
    saved: float
    equal: float | None
    more: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A cluster's plan. Money in dollars an hour. `over`: money after over the bound. `saved`: dollars an hour for each
    eviction. `least`: the smallest ratio of a move. `judged`: pods whose new place was judged again; `oracle`: by
    kube-scheduler's plug-ins. `day`, `rest`: beside the rival after a day, and at rest."""

    seed: int
    shape: str
    nodes: int
    pods: int
    cost: float
    after: float
    bound: float
    over: float
    saved: float
    evictions: int
    moves: int
    coming: int
    least: float
    cpu: float
    steps: int
    judged: int
    oracle: int
    day: Beside
    rest: Beside


def result(case: Generated, ratio: float, *, allow_spot: bool, days: int = MOST_DAYS, oracle: Real | None = None) -> Result:
    """Plans and checks."""
    plan, cpu = planned(case, ratio, allow_spot=allow_spot)
    nodes, pods, to = _after(case, case.nodes(), case.pods(), plan)
    judged = checked(case, nodes, pods, to)
    asked = _oracle_checked(case, nodes, pods, to, oracle) if oracle is not None else 0
    rivals = one_by_one(case, ratio, allow_spot=allow_spot, days=days)
    bound = divisible_cost(case.mix)
    return Result(
        seed=case.mix.seed, shape=case.shape, nodes=len(case.on), pods=int(case.held.sum()), cost=plan.cost / 1e6,
        after=plan.cost_after / 1e6, bound=bound / 1e6, over=plan.cost_after / bound,
        saved=plan.saved / 1e6 / max(plan.evictions, 1), evictions=plan.evictions, moves=len(plan.moves),
        coming=sum(len(move.coming) for move in plan.moves), least=min((move.ratio for move in plan.moves), default=0.0),
        cpu=cpu, steps=plan.steps, judged=judged, oracle=asked, day=_beside(plan, rivals[0], bound),
        rest=_beside(plan, rivals[-1], bound),
    )  # fmt: skip


def planned(case: Generated, ratio: float, *, allow_spot: bool) -> tuple[ConsolidationPlan, float]:
    """The plan, and CPU seconds."""
    nodes, pods, groups, prices = case.nodes(), case.pods(), case.groups(), case.prices()
    rules = consolidation_rules_of(installed.SETTINGS, replace(installed.SCALE_UP, prices=prices, plan_steps=0))
    rules = replace(rules, policy=replace(rules.policy, min_saving_ratio=ratio, allow_spot=allow_spot))
    snapshot = ClusterSnapshot.build(nodes, pods)
    planning_input = PlanningInput(
        snapshot=snapshot,
        running_pods=RunningPods(snapshot, pods),
        groups={group.name: group.group for group in groups},
        group_of=case.group_of(),
        budgets=(),
    )
    began = time.process_time()
    plan = plan_consolidation(ScaleDownState(), planning_input, groups, rules, prices, now=_NOW)
    return plan, time.process_time() - began


def continued(case: Generated, plan: ConsolidationPlan) -> Generated:
    """The nodes and pods after the plan."""
    at = {variant.name: number for number, variant in enumerate(case.mix.variants)}
    coming = [new for move in plan.moves for new in move.coming]
    on = np.concatenate([case.on, np.array([at[new.group] for new in coming], np.int64)])
    held = np.vstack([case.held, np.zeros((len(coming), case.held.shape[1]), np.int64)])
    number = {new.name: len(case.on) + place for place, new in enumerate(coming)}
    number.update((NodeName(f"n-{place}"), place) for place in range(len(case.on)))
    for each in (each for move in plan.moves for each in move.pods):
        workload = int(each.uid.split("-")[1])
        held[number[each.of], workload] -= 1
        held[number[each.to], workload] += 1
    stays = np.ones(len(on), np.bool_)
    stays[[number[each.name] for move in plan.moves for each in move.leaving]] = False
    return replace(case, on=on[stays], held=held[stays])


def at_rest(case: Generated, ratio: float, *, allow_spot: bool) -> tuple[Generated, int, int]:
    """The nodes and pods once a plan a day finds nothing more, and every pod may move again each day; with all evictions, and
    the number of plans."""
    evictions = 0
    for day in range(1, MOST_DAYS):
        plan, _ = planned(case, ratio, allow_spot=allow_spot)
        if not plan.moves:
            return case, evictions, day
        case, evictions = continued(case, plan), evictions + plan.evictions
    return case, evictions, MOST_DAYS


def _beside(plan: ConsolidationPlan, rival: OneByOne, bound: float) -> Beside:
    saved, rival_saved = np.cumsum([0, *(move.saved for move in plan.moves)]), max(plan.cost - rival.cost, 1)
    evictions, rival_evictions = np.cumsum([0, *(move.evictions for move in plan.moves)]), max(rival.evictions, 1)
    enough = np.flatnonzero(saved >= rival_saved)
    return Beside(
        over=rival.cost / bound,
        evictions=rival.evictions,
        saved=float(saved[-1] / max(evictions[-1], 1) / (rival_saved / rival_evictions)),
        equal=float(evictions[enough[0]] / rival_evictions) if len(enough) else None,
        more=float(saved[evictions <= rival.evictions].max() / rival_saved),
    )


def checked(case: Generated, after: Sequence[Node], running: Sequence[Pod], to: Mapping[PodUid, NodeName]) -> int:
    """Checks the nodes and pods after the plan. Returns of how many moved pods the verdict was asked. Raises BenchFailed."""
    seed = case.mix.seed
    snapshot = ClusterSnapshot.build(after, running)
    over = snapshot.used[:, : snapshot.n_rows] > snapshot.facts.allocatable[: len(snapshot.used), : snapshot.n_rows]
    if over.any():
        raise BenchFailed(f"fleets: seed {seed}: {int(over.any(axis=0).sum())} nodes hold more than they have")
    moved = [pod for pod in running if pod.uid in to]
    some = moved[:: max(len(moved) // _SAMPLE, 1)]
    for pod in some:
        kind, row = snapshot.kind_id(pod.kind, pod.labels), snapshot.facts.row_of[pod.node or NodeName("")]
        snapshot.remove(kind, row)
        if row not in feasible(snapshot, kind).rows:
            raise BenchFailed(f"fleets: seed {seed}: {pod.key} does not fit {pod.node}")
        snapshot.place(kind, row)
    return len(some)


def _oracle_checked(
    case: Generated, nodes: Sequence[Node], pods: Sequence[Pod], to: Mapping[PodUid, NodeName], oracle: Real
) -> int:
    """Of how many moved pods kube-scheduler's plug-ins were asked. Raises BenchFailed if they refuse one."""
    judged, found = refused(oracle, nodes, pods, to)
    if found:
        raise BenchFailed(f"fleets: seed {case.mix.seed}: kube-scheduler refuses {len(found)} of {judged}: {found[0]}")
    return judged


def _after(
    case: Generated, nodes: Sequence[Node], pods: Sequence[Pod], plan: ConsolidationPlan
) -> tuple[list[Node], list[Pod], dict[PodUid, NodeName]]:
    """The nodes and pods after the plan, and the new nodes of the moved pods."""
    templates = {variant.name: variant.group().template for variant in case.mix.variants}
    gone = {each.name for move in plan.moves for each in move.leaving}
    after, running, to = [node for node in nodes if node.name not in gone], list[Pod](), dict[PodUid, NodeName]()
    for new in (new for move in plan.moves for new in move.coming):
        template = templates[new.group]
        assert template is not None
        after.append(structs.replace(template.node, name=new.name, labels={**template.node.labels, HOSTNAME: new.name}))
        running += [pod.on(new.name) for pod in template.running_pods]
    for each in (each for move in plan.moves for each in move.pods):
        if each.uid in to:
            raise BenchFailed(f"fleets: seed {case.mix.seed}: {each.key} moves twice")
        to[each.uid] = each.to
    names = {node.name for node in after}
    for pod in pods:
        there = to.get(pod.uid, pod.node or NodeName(""))
        if there in names:
            running.append(pod.on(there))
        elif pod.kind.namespace != "kube-system":
            raise BenchFailed(f"fleets: seed {case.mix.seed}: {pod.key} is on {there}, which is gone")
    return after, running, to


def table(results: Sequence[Result]) -> str:
    """Markdown: the plans, and the plans beside the rival; a line for each shape."""
    shapes = [("all", results)]
    shapes += [(shape, [each for each in results if each.shape == shape]) for shape in sorted({each.shape for each in results})]
    heads = ["shape", "clusters", "money before / bound", "after / bound, median", "worst", "CPU s, median", "most"]
    lines = [f"| {' | '.join(heads)} |", "|---|" + "---:|" * (len(heads) - 1)]
    for name, some in shapes:
        cells = [name, str(len(some)), f"{median(each.cost / each.bound for each in some):.2f}"]
        cells += [f"{median(each.over for each in some):.3f}", f"{max(each.over for each in some):.3f}"]
        cells += [f"{median(each.cpu for each in some):.1f}", f"{max(each.cpu for each in some):.1f}"]
        lines.append(f"| {' | '.join(cells)} |")
    heads = ["one by one", "shape", "its money / bound, median", "saved an eviction / by it, median", "least", "more in"]
    heads += ["evictions for the same money / its, median", "most", "fewer in", "money for the same evictions / its, median"]
    heads += ["least", "more in"]
    lines += ["", f"| {' | '.join(heads)} |", "|---|---|" + "---:|" * (len(heads) - 2)]
    lines += [f"| a day | {name} | {_line([each.day for each in some])} |" for name, some in shapes]
    lines += [f"| at rest | {name} | {_line([each.rest for each in some])} |" for name, some in shapes]
    return "\n".join(lines)


def _line(some: Sequence[Beside]) -> str:
    equal = [inf if each.equal is None else each.equal for each in some]
    saved, more = [each.saved for each in some], [each.more for each in some]
    cells = [f"{median(each.over for each in some):.3f}"]
    cells += [f"{median(saved):.2f}", f"{min(saved):.2f}", str(sum(each >= 1 for each in saved))]
    cells += [f"{median(equal):.2f}", f"{max(equal):.2f}", str(sum(each <= 1 for each in equal))]
    cells += [f"{median(more):.2f}", f"{min(more):.2f}", str(sum(each >= 1 for each in more))]
    return " | ".join(cells)


def main(arguments: Sequence[str] | None = None) -> int:
    """See the module's text."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.simulation.fleets", description=__doc__)
    parser.add_argument("--fleets", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1, help="of the first cluster; the next have the next")
    parser.add_argument("--ratio", type=float, default=0.5)
    parser.add_argument("--rest", action="store_true", help="a plan a day until nothing changes; no rival, no checks")
    parser.add_argument("--no-spot", action="store_true", help="pods of on-demand nodes get no new spot nodes")
    parser.add_argument("--days", type=int, default=MOST_DAYS, help="of the rival, at most")
    parser.add_argument("--oracle", action="store_true", help="ask kube-scheduler's plug-ins; built on first use")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    asked = parser.parse_args(arguments)
    results, seeds, allow_spot = [], range(asked.seed, asked.seed + asked.fleets), not asked.no_spot
    for case in map(generated, seeds if asked.rest else ()):
        rest, evictions, days = at_rest(case, asked.ratio, allow_spot=allow_spot)
        line = {"seed": case.mix.seed, "shape": case.shape, "over": rest.cost / divisible_cost(case.mix), "days": days}
        print(json.dumps({**line, "evictions": evictions}), flush=True)
    with running(build()) if asked.oracle else nullcontext() as oracle:
        for case in map(generated, () if asked.rest else seeds):
            results.append(result(case, asked.ratio, allow_spot=allow_spot, days=asked.days, oracle=oracle))
            out = sys.stdout if asked.output == "json" else sys.stderr
            print(json.dumps(asdict(results[-1])), file=out, flush=True)
    if asked.output == "table" and results:
        print(table(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
