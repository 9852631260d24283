"""What consolidation makes of generated clusters: money over the least possible, beside a rival that replaces node after node.

    python -m tests.bench.simulation.fleets --fleets 10 --seed 1            # a table; seeds 1 to 10
    python -m tests.bench.simulation.fleets -o json                         # each cluster as a line

Every plan is checked: each pod is on one node, nodes hold their pods, no pod moves twice, and the service's own verdict on a
sample of the moved pods in the cluster after the plan. The bound is what the pods cost if they could be divided
(`least_cost.divisible_cost`). `--ratio`: autoscaler.consolidation.minSavingRatio. `--oracle`: kube-scheduler's plug-ins judge a
moved pod on each node that got any. `--days`: for how many days the rival goes on; each day every pod may move again.
"""

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
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
_MOST_DAYS: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A cluster's plan. Money in dollars an hour. `over`: money after over the bound; `rival_over`: the rival's. `saved`,
    `rival_saved`: dollars an hour for each eviction. `equal`: evictions until the plan saves what the rival saves, over the
    rival's; None if it saves less. `least`: the smallest ratio of a move. `judged`: pods whose new place was judged again;
    `oracle`: by kube-scheduler's plug-ins."""

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
    rival_over: float
    rival_saved: float
    rival_evictions: int
    equal: float | None
    cpu: float
    steps: int
    judged: int
    oracle: int


def result(case: Generated, ratio: float, *, allow_spot: bool, days: int = 1, oracle: Real | None = None) -> Result:
    """Plans and checks."""
    plan, cpu = planned(case, ratio, allow_spot=allow_spot)
    nodes, pods, to = _after(case, case.nodes(), case.pods(), plan)
    judged = checked(case, nodes, pods, to)
    asked = _oracle_checked(case, nodes, pods, to, oracle) if oracle is not None else 0
    rival = one_by_one(case, ratio, allow_spot=allow_spot, days=days)
    bound = divisible_cost(case.mix)
    return Result(
        seed=case.mix.seed, shape=case.shape, nodes=len(case.on), pods=int(case.held.sum()), cost=plan.cost / 1e6,
        after=plan.cost_after / 1e6, bound=bound / 1e6, over=plan.cost_after / bound,
        saved=plan.saved / 1e6 / max(plan.evictions, 1), evictions=plan.evictions, moves=len(plan.moves),
        coming=sum(len(move.coming) for move in plan.moves), least=min((move.ratio for move in plan.moves), default=0.0),
        rival_over=rival.cost / bound, rival_saved=(plan.cost - rival.cost) / 1e6 / max(rival.evictions, 1),
        rival_evictions=rival.evictions, equal=_equal(plan, rival), cpu=cpu, steps=plan.steps, judged=judged,
        oracle=asked,
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
    for day in range(1, _MOST_DAYS):
        plan, _ = planned(case, ratio, allow_spot=allow_spot)
        if not plan.moves:
            return case, evictions, day
        case, evictions = continued(case, plan), evictions + plan.evictions
    return case, evictions, _MOST_DAYS


def _equal(plan: ConsolidationPlan, rival: OneByOne) -> float | None:
    left, evictions = plan.cost - rival.cost, 0
    for move in plan.moves:
        if left <= 0:
            break
        left, evictions = left - move.saved, evictions + move.evictions
    return evictions / max(rival.evictions, 1) if left <= 0 else None


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
    """Markdown; a line for each shape."""
    heads = ["clusters", "money before / bound", "after / bound, median", "worst", "one by one, median"]
    heads += ["saved an eviction / that of one by one, median", "least", "evictions for the same money / those", "most"]
    heads += ["CPU s, median", "most"]
    shapes = [("all", results)]
    shapes += [(shape, [each for each in results if each.shape == shape]) for shape in sorted({each.shape for each in results})]
    lines = [f"| {' | '.join(['shape', *heads])} |", "|---|" + "---:|" * len(heads)]
    for name, some in shapes:
        times = [each.saved / max(each.rival_saved, 1e-9) for each in some]
        cells = [str(len(some)), f"{median(each.cost / each.bound for each in some):.2f}"]
        cells += [f"{median(each.over for each in some):.3f}", f"{max(each.over for each in some):.3f}"]
        cells += [f"{median(each.rival_over for each in some):.3f}", f"{median(times):.2f}", f"{min(times):.2f}"]
        equal = [each.equal for each in some if each.equal is not None]
        cells += [f"{median(equal):.2f}", f"{max(equal):.2f}"] if len(equal) == len(some) else ["", ""]
        cells += [f"{median(each.cpu for each in some):.1f}", f"{max(each.cpu for each in some):.1f}"]
        lines.append(f"| {' | '.join([name, *cells])} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """See the module's text."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.simulation.fleets", description=__doc__)
    parser.add_argument("--fleets", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1, help="of the first cluster; the next have the next")
    parser.add_argument("--ratio", type=float, default=0.5)
    parser.add_argument("--rest", action="store_true", help="a plan a day until nothing changes; no rival, no checks")
    parser.add_argument("--no-spot", action="store_true", help="pods of on-demand nodes get no new spot nodes")
    parser.add_argument("--days", type=int, default=1, help="of the rival")
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
