"""What plans for generated mixes cost an hour, over the least possible cost; the plans by price beside simpler ones.

    python -m tests.bench.simulation.bills --mixes 200 --seed 1     # a table; seeds 1 to 200
    python -m tests.bench.simulation.bills -o json                  # each mix as a line

Every plan is checked: each pod is on one node, nodes hold their pods, and the service's own verdict on a sample. Exit status 1
where a plan by price is not within MEDIAN, WORST and NODES. Mixes with pods that spread over zones have a line of their own and
do not count for these: columns cannot say spread. A mix of which a plan leaves pods without a node is a miss too, and in no
line. `--bounds FILE` keeps the bounds, which take most of the time.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Final

import numpy as np
from msgspec import structs

from slackwater.controllers.scaleup.expanders import ExpanderName
from slackwater.controllers.scaleup.outcome import ScaleUpPlan
from slackwater.controllers.scaleup.pending import pending_demand
from slackwater.controllers.scaleup.plan import plan_scale_up
from slackwater.fit.feasible_nodes import feasible
from slackwater.model.columns import Int64, Rows
from slackwater.model.ids import NodeName, UnixTime
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.node_facts import HOSTNAME
from tests.bench.options import BenchFailed
from tests.bench.simulation.least_cost import LeastCost, least_cost
from tests.bench.simulation.mixes import UNLIMITED, Mix, burst, mix
from tests.support import installed

#: The most that plans by price cost, over the bound: in the median; at worst where the bound uses at least LARGE nodes; and in
#: nodes of the plan's mean price where it uses fewer.
MEDIAN, WORST, NODES, LARGE = 1.03, 1.08, 2.0, 50
_RULES: Final = replace(installed.PENDING, after_scheduler=False)
_SAMPLE: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """A mix's plans. Costs over the bound; `nodes`: of the plan by price, `over`: how much dearer it is in its nodes; `cpu`:
    seconds of planning by price, with the snapshot; `bound_nodes`: of the bound; `own`: the cost over the plan's own bound.
    `skew`: by how many pods zones differ, of a workload that spreads: more than 1 if nodes came in a zone that had none.
    `left`: the most pods without a node in one of the plans; their costs are not comparable then."""

    seed: int
    family: str
    trait: str
    pods: int
    variants: int
    price: float
    greedy: float
    least_waste: float
    one_type: float
    nodes: int
    over: float
    bound_nodes: float
    sharp: bool
    own: float
    cpu: float
    greedy_cpu: float
    steps: int
    cut: bool
    dollars: float
    skew: int
    left: int = 0

    @property
    def good(self) -> bool:
        if self.left:
            return False
        return self.over <= NODES if self.bound_nodes < LARGE else self.price <= WORST


def bill(case: Mix, known: LeastCost | None = None) -> tuple[Bill, LeastCost]:
    """Plans and checks the mix. `known`: its bound."""
    plan, cpu = _planned(case, "price")
    greedy, greedy_cpu = _planned(case, "price", solver=False)
    today, _ = _planned(case, "least-waste")
    fillings = [_fillings(case, each) for each in (plan, greedy, today)]
    costs = [sum(case.variants[variant].price for variant, _ in each) for each in fillings]
    left = max(len(case.pods()) - sum(int(counts.sum()) for _, counts in each) for each in fillings)
    bound = known or least_cost(case, [one for each in fillings for one in each])
    if costs[0] < bound.micros * (1 - 1e-6) and not left:
        raise BenchFailed(f"bills: seed {case.seed}: a plan of {costs[0]} is below the bound, {bound.micros:.0f}")
    packed, nodes = plan.packed, len(fillings[0])
    found = Bill(
        seed=case.seed, family=case.family, trait=case.trait, pods=sum(each.count for each in case.workloads),
        variants=len(case.variants), price=costs[0] / bound.micros, greedy=costs[1] / bound.micros,
        least_waste=costs[2] / bound.micros, one_type=_first_fit(case) / bound.micros, nodes=nodes,
        over=(costs[0] - bound.micros) * nodes / costs[0], bound_nodes=bound.nodes, sharp=bound.sharp,
        own=0.0 if packed is None or not packed.bound else packed.cost / packed.bound, cpu=cpu, greedy_cpu=greedy_cpu,
        steps=0 if packed is None else packed.steps, cut=packed is not None and packed.cut, dollars=costs[0] / 1e6,
        skew=_skew(case, fillings[0]), left=left,
    )  # fmt: skip
    return found, bound


@contextmanager
def _without_solver() -> Iterator[None]:
    """As if the extra `solver` were not installed."""
    module = sys.modules.pop("highspy", None)
    sys.modules["highspy"] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules["highspy"]
        if module is not None:
            sys.modules["highspy"] = module


def _planned(case: Mix, expander: ExpanderName, *, solver: bool = True) -> tuple[ScaleUpPlan, float]:
    """The plan without limits of time, and CPU seconds."""
    pods, groups = case.pods(), [variant.group() for variant in case.variants]
    policy = replace(installed.SCALE_UP, pending=_RULES, max_nodes_per_scale_up=0, expanders=(expander,))
    with nullcontext() if solver else _without_solver():
        began = time.process_time()
        snapshot = ClusterSnapshot.build([], pods)
        demand = pending_demand(pods, rules=_RULES, now=UnixTime(1.8e9))
        with snapshot.fork():
            plan = plan_scale_up(snapshot, demand, groups, policy=policy, clock=lambda: 0.0)
        return plan, time.process_time() - began


def _fillings(case: Mix, plan: ScaleUpPlan) -> list[tuple[int, Int64]]:
    """Each node of the plan as its variant and how many pods of each workload it has. Raises BenchFailed if it does not hold
    them, or a pod is on two."""
    at = {variant.name: number for number, variant in enumerate(case.variants)}
    found: list[tuple[int, Int64]] = []
    uids: list[str] = []
    for scale_up in plan.scale_ups:
        variant = at[scale_up.group]
        for pods in scale_up.nodes:
            uids += [pod.uid for pod in pods]
            kinds = [int(pod.uid.split("-")[1]) for pod in pods]
            found.append((variant, np.bincount(kinds, minlength=len(case.workloads)).astype(np.int64)))
        if scale_up.count > case.variants[variant].most:
            raise BenchFailed(f"bills: seed {case.seed}: {scale_up.count} nodes of {scale_up.group}")
    if len(set(uids)) < len(uids):
        raise BenchFailed(f"bills: seed {case.seed}: {len(set(uids))} of {len(uids)} pods once, want every one")
    most = np.array([1 if each.apart else UNLIMITED for each in case.workloads])
    for variant, counts in found:
        room = (counts @ case.asked <= case.offered[variant]).all() and (counts <= most).all()
        if not room or not case.takes[variant][counts > 0].all():
            raise BenchFailed(f"bills: seed {case.seed}: a node of {case.variants[variant].name} cannot hold its pods")
    _judge(case, plan)
    return found


def _skew(case: Mix, fillings: list[tuple[int, Int64]]) -> int:
    """By how many pods zones differ at most, of a workload that spreads."""
    zones = {each.zone: np.zeros(len(case.workloads), np.int64) for each in case.variants}
    for variant, counts in fillings:
        zones[case.variants[variant].zone] += counts
    of = np.array(list(zones.values()))
    return int(((of.max(axis=0) - of.min(axis=0)) * [each.spread for each in case.workloads]).max())


def _judge(case: Mix, plan: ScaleUpPlan) -> None:
    """Takes pods of a sample off their nodes, one at a time, and asks the verdict on their return."""
    groups = {variant.name: variant.group().template for variant in case.variants}
    nodes, pods = [], []
    for scale_up in plan.scale_ups:
        template = groups[scale_up.group]
        assert template is not None
        for number, of in enumerate(scale_up.nodes):
            name = NodeName(f"{scale_up.group}/{number}")
            nodes.append(structs.replace(template.node, name=name, labels={**template.node.labels, HOSTNAME: name}))
            pods += [structs.replace(pod, node=name, uid=f"{pod.uid}@{name}") for pod in (*template.running_pods, *of)]
    snapshot = ClusterSnapshot.build(nodes, pods)
    rows = {node.name: row for row, node in enumerate(nodes)}
    spread = {f"app-{at}" for at, each in enumerate(case.workloads) if each.spread}  # see `Bill.skew`
    placed = [pod for pod in pods if pod.kind.namespace == "default" and dict(pod.labels)["app"] not in spread]
    for pod in placed[:: max(len(placed) // _SAMPLE, 1)]:
        kind, row = snapshot.kind_id(pod.kind, pod.labels), rows[pod.node or NodeName("")]
        snapshot.remove(kind, row)
        if row not in feasible(snapshot, kind).rows:
            raise BenchFailed(f"bills: seed {case.seed}: {pod.key.name} does not fit its node {pod.node}")
        snapshot.place(kind, row)


def _first_fit(case: Mix) -> int:
    """Micros an hour of first-fit decreasing on one type, the cheapest, for pods with the same selectors; it regards neither
    limits nor spread."""
    classes: dict[tuple[object, ...], list[int]] = {}
    for at, each in enumerate(case.workloads):
        classes.setdefault((each.zone, each.on_demand, bool(each.amounts[3])), []).append(at)
    total = 0
    for kinds in classes.values():
        able = np.flatnonzero(case.takes[:, kinds].all(axis=1))
        parts = [kinds] if len(able) else [[kind] for kind in kinds]
        for part in parts:
            able = np.flatnonzero(case.takes[:, part].all(axis=1))
            cheapest = {case.offered[at].tobytes(): at for at in sorted(able.tolist(), key=lambda at: -case.prices[at])}
            total += min(case.variants[at].price * _nodes_of(case, at, np.array(part)) for at in cheapest.values())
    return total


def _nodes_of(case: Mix, variant: int, kinds: Rows) -> int:
    offered, free = case.offered[variant], np.zeros((0, 4), np.int64)
    largest = (case.asked[kinds] / np.maximum(offered, 1)).max(axis=1)
    for kind in kinds[np.argsort(-largest, kind="stable")].tolist():
        asked, each = case.asked[kind], case.workloads[kind]
        used, most = asked > 0, 1 if each.apart else UNLIMITED
        fit = np.minimum((free[:, used] // asked[used]).min(axis=1), most)
        put = np.clip(each.count - (np.cumsum(fit) - fit), 0, fit)
        free = free - put[:, None] * asked
        left, full = each.count - int(put.sum()), min(int((offered[used] // asked[used]).min()), most)
        counts = [min(full, left - done) for done in range(0, left, full)]
        free = np.concatenate([free, offered - np.array(counts, np.int64).reshape(-1, 1) * asked])
    return len(free)


def missed(bills: Sequence[Bill]) -> list[str]:
    """What is worse than it has to be, a sentence each."""
    without = [f"seed {each.seed}: {each.left} pods without a node" for each in bills if each.left]
    counted = [each for each in bills if each.trait != "spread" and not each.left]
    middle = median(each.price for each in counted) if counted else 1.0
    found = [f"median {middle:.4f}, want at most {MEDIAN}"] if middle > MEDIAN else []
    return (
        without
        + found
        + [
            f"seed {each.seed}: {each.price:.4f}, {each.over:.1f} nodes over a bound of {each.bound_nodes:.1f} nodes"
            for each in counted
            if not each.good
        ]
    )


def table(bills: Sequence[Bill]) -> str:
    """Markdown; a line for each family and each trait."""
    heads = ["number", "by price, median", "worst, 50 nodes and more", "most nodes above, fewer than 50"]
    heads += [f"{plan}, {what}" for plan in ("without solver", "least-waste", "one type") for what in ("median", "worst")]
    heads += ["CPU s, median", "CPU s, most", "steps, most"]
    bills = [each for each in bills if not each.left]
    counted = [each for each in bills if each.trait != "spread"]
    named = [("all but spread", counted)]
    named += [(name, [each for each in counted if each.family == name]) for name in sorted({each.family for each in counted})]
    named += [(name, [each for each in bills if each.trait == name]) for name in sorted({each.trait for each in bills})]
    lines = [_line(name, some) for name, some in named if some]
    return "\n".join([f"| mixes | {' | '.join(heads)} |", "|---|" + "---:|" * len(heads), *lines])


def _line(name: str, some: Sequence[Bill]) -> str:
    large = [each.price for each in some if each.bound_nodes >= LARGE]
    small = [each.over for each in some if each.bound_nodes < LARGE]
    pairs = [[each.greedy for each in some], [each.least_waste for each in some], [each.one_type for each in some]]
    cells = [str(len(some)), f"{median(each.price for each in some):.3f}", f"{max(large):.3f}" if large else ""]
    cells += [f"{max(small):.1f}" if small else "", *(f"{each:.3f}" for pair in pairs for each in (median(pair), max(pair)))]
    cells += [f"{median(each.cpu for each in some):.2f}", f"{max(each.cpu for each in some):.2f}"]
    return f"| {name} | {' | '.join(cells)} | {max(each.steps for each in some)} |"


def main(arguments: Sequence[str] | None = None) -> int:
    """See the module's text."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.simulation.bills", description=__doc__)
    parser.add_argument("--mixes", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1, help="of the first mix; the next have the next")
    parser.add_argument("--bounds", type=Path, help="a JSON file of known bounds by seed, read and written")
    parser.add_argument("--burst", action="store_true", help="only 1,000 pods and Karpenter's 33 types")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    asked = parser.parse_args(arguments)
    known = json.loads(asked.bounds.read_text()) if asked.bounds and asked.bounds.exists() else {}
    bills = []
    for case in [burst()] if asked.burst else map(mix, range(asked.seed, asked.seed + asked.mixes)):
        before = known.get(str(case.seed))
        found, bound = bill(case, LeastCost(**before) if before else None)
        known[str(case.seed)] = asdict(bound)
        bills.append(found)
        print(json.dumps(asdict(found)), file=sys.stdout if asked.output == "json" else sys.stderr, flush=True)
        if asked.bounds:
            asked.bounds.write_text(json.dumps(known))
    if asked.output == "table":
        print(table(bills))
    problems = missed(bills)
    for problem in problems:
        print(f"FAILED bills: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
