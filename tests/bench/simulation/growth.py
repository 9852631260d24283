"""Scale-up plans of many pods and many groups: pods that no group helps, and pods whose verdicts move with those before them.

    python -m tests.bench.simulation.growth            # all, each with its CPU seconds and its memory
    python -m tests.bench.simulation.growth zone       # those whose name has the word

Each case runs in a process of its own, so that the peak of its resident memory is known.
"""

import multiprocessing
import resource
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from msgspec import structs

from slackwater.controllers.scaleup.groups import GrowableGroup, Template
from slackwater.controllers.scaleup.outcome import ScaleUpPlan
from slackwater.controllers.scaleup.pending import pending_demand
from slackwater.controllers.scaleup.plan import plan_scale_up
from slackwater.model.ids import NodeName, UnixTime
from slackwater.model.nodegroups import GroupName, NodeGroup
from slackwater.model.objects import Pod
from slackwater.model.pod_constraints import ClaimMount, Kind, PodConstraints, PodTerm, SpreadConstraint
from slackwater.model.resources import amounts_of
from slackwater.model.selectors import Requirement, Selector
from slackwater.model.storage import Claim, Storage, StorageClass
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.node_facts import HOSTNAME
from tests.bench.simulation.case import Case, Outcome
from tests.bench.simulation.inputs import GIB, ZONE, a_node, a_pod
from tests.support import installed

_NOW: Final = UnixTime(1.8e9)
_RULES: Final = replace(installed.PENDING, after_scheduler=False)
_POLICY: Final = replace(installed.SCALE_UP, pending=_RULES, max_nodes_per_scale_up=0)


class Growth(NamedTuple):
    """An input and its goals: CPU seconds of the plan, the nodes that it should add, the pods that no group should help."""

    name: str
    seconds: float
    nodes: int | None
    unhelpable: int
    pods: Callable[[], list[Pod]]
    groups: Callable[[], Sequence[GrowableGroup]]
    nodes_full: int = 0


def inputs(by: int = 1) -> Iterator[Growth]:
    """All inputs, at `1 / by` of their size."""

    def groups(count: int) -> Callable[[], Sequence[GrowableGroup]]:
        return lambda: _groups(count // by)

    for shape in ("size", "selector", "anti-affinity", "zone spread"):
        count = 20_000 // by
        yield Growth(
            f"unhelpable: {count:,} pods, as many shapes by {shape}, beside one that a group helps, {500 // by} groups",
            5.0,
            1,
            count,
            lambda shape=shape, count=count: [*_unhelpable(count, shape), _plain("p", 1000)],  # type: ignore[misc]
            groups(500),
        )
    for sizes in (1, 20, 200):
        yield from _moving(by, sizes)
    count = 4000 // by
    yield Growth(
        f"hostname self-affinity: {count:,} pods in workloads of 10, nodes with scraps of room, {10 // by or 1} groups",
        2.0,
        None,
        0,
        lambda: _workloads(400 // by, 10, affinity=(_near(HOSTNAME),)),
        lambda: _groups(10 // by or 1),
        500 // by,
    )


def _moving(by: int, sizes: int) -> Iterator[Growth]:
    """Pods whose verdicts move with those before them, and groups of so many different sizes in three zones."""

    def growth(what: str, groups: int, pods: Callable[[], list[Pod]], nodes: int | None = None) -> Growth:
        name = f"{what}, {groups // by} groups" + (f" of {sizes} sizes" if sizes > 1 else "")
        return Growth(name, 2.0, nodes if sizes == 1 else None, 0, pods, lambda: _groups(groups // by, sizes))

    pods, spreading, near = 500 // by, 100 // by, 200 // by
    for each in (100, 300):
        what = f"claims: {pods} pods with a claim of their own"
        yield growth(what, each, lambda: _claiming(pods), -(-pods // 32))
    for each in (100, 500):
        what = f"zone spread: {spreading} workloads of 10 pods"
        yield growth(what, each, lambda: _workloads(spreading, 10, spread=(_spread,)))
    what = f"zone self-affinity: {near} workloads of 5 pods"
    yield growth(what, 500, lambda: _workloads(near, 5, affinity=(_near(ZONE),)))


def cases(by: int) -> Iterator[Case]:
    for each in inputs(by):
        yield Case(
            name=f"plan: {each.name}",
            run=_run(each),
            counted="pods that no group helps",
            want=each.unhelpable,
            goal_seconds=each.seconds,
        )


def _run(growth: Growth) -> Callable[[], Outcome]:
    pods, groups = growth.pods(), growth.groups()

    def run() -> Outcome:
        began = time.process_time()
        plan = plan_of(pods, groups, growth.nodes_full)
        return Outcome(seconds=time.process_time() - began, count=sum(len(each.pods) for each in plan.unhelpable))

    return run


def plan_of(pods: list[Pod], groups: Sequence[GrowableGroup], scraps: int = 0) -> ScaleUpPlan:
    """The plan, with the building of the snapshot. `scraps`: nodes with room for three pods each."""
    nodes = [a_node(10**6 + number) for number in range(scraps)]
    running = [_plain(f"r-{node.name}", 29_000, on=node.name) for node in nodes]
    snapshot = ClusterSnapshot.build(nodes, [*running, *pods], storage=_storage(pods))
    with snapshot.fork():
        demand = pending_demand(pods, rules=_RULES, now=_NOW)
        return plan_scale_up(snapshot, demand, groups, policy=_POLICY, clock=time.perf_counter)


def _groups(count: int, sizes: int = 1) -> list[GrowableGroup]:
    """Groups in three zones that differ by a label, so that none is like another. With several `sizes`, the groups of a zone
    have these in turn: 8 CPU, 9 CPU and so on."""
    found = []
    for number in range(count):
        node = a_node(number)
        if sizes > 1:
            node = structs.replace(node, allocatable=amounts_of((1000 * (8 + number // 3 % sizes), 128 * GIB)))
        group = NodeGroup(
            name=GroupName(f"g-{number:05}"), provider="bench", min_size=0, max_size=30_000, target=0, instances=()
        )
        found.append(
            GrowableGroup(
                group=group, template=Template(node=structs.replace(node, labels={**node.labels, "of": f"v{number}"}))
            )
        )
    return found


def _plain(name: str, cpu: int, *, on: NodeName | None = None) -> Pod:
    kind = Kind(namespace="default", requests=amounts_of((cpu, GIB)))
    return structs.replace(a_pod(name, kind, "plain"), node=on)


def _unhelpable(count: int, shape: str) -> list[Pod]:
    """Pods that fit on no node: too large, or for nodes that nobody has."""
    made = []
    for number in range(count):
        selector: tuple[tuple[str, str], ...] = ()
        cpu, asks = 1000, PodConstraints()
        own: Selector = (Requirement("app", "In", (f"x-{number}",)),)
        if shape == "selector":
            selector = (("nobody", f"has-{number}"),)
        else:
            cpu = 100_000 + number
        if shape == "anti-affinity":
            asks = PodConstraints(anti_affinity=(PodTerm(topology_key=HOSTNAME, selector=own, namespaces=("default",)),))
        elif shape == "zone spread":
            asks = PodConstraints(spread=(SpreadConstraint(hard=True, max_skew=1, topology_key=ZONE, selector=own),))
        kind = Kind(namespace="default", requests=amounts_of((cpu, GIB)), node_selector=selector, pod_constraints=asks)
        made.append(a_pod(f"u-{number}", kind, f"x-{number}"))
    return made


def _claiming(count: int) -> list[Pod]:
    kinds = [PodConstraints(claims=(ClaimMount(f"c-{number}"),)) for number in range(count)]
    return [
        a_pod(f"c-{number}", Kind(namespace="default", requests=amounts_of((1000, GIB)), pod_constraints=asks), "db")
        for number, asks in enumerate(kinds)
    ]


def _spread(own: Selector) -> SpreadConstraint:
    return SpreadConstraint(hard=True, max_skew=1, topology_key=ZONE, selector=own)


def _near(key: str) -> Callable[[Selector], PodTerm]:
    return lambda own: PodTerm(topology_key=key, selector=own, namespaces=("default",))


def _workloads(count: int, each: int, **asks: Sequence[Callable[[Selector], object]]) -> list[Pod]:
    """Workloads whose rules select their own pods."""
    made = []
    for app in range(count):
        own = (Requirement("app", "In", (f"app-{app}",)),)
        rules = {name: tuple(make(own) for make in makes) for name, makes in asks.items()}
        kind = Kind(namespace="default", requests=amounts_of((1000, GIB)), pod_constraints=PodConstraints(**rules))  # type: ignore[arg-type]
        made += [a_pod(f"w-{app}-{number}", kind, f"app-{app}") for number in range(each)]
    return made


def _storage(pods: list[Pod]) -> Storage:
    names = [mount.claim for pod in pods if pod.kind.pod_constraints for mount in pod.kind.pod_constraints.claims]
    claims = [
        Claim(
            namespace="default",
            name=name,
            uid=f"uid-{name}",
            volume="",
            bound=False,
            storage_class="ebs",
            access_modes=("ReadWriteOnce",),
            size=10 * GIB,
        )
        for name in names
    ]
    return Storage(
        claims={(claim.namespace, claim.name): claim for claim in claims},
        volumes={},
        classes={"ebs": StorageClass(name="ebs", provisioner="ebs.csi.aws.com", binding_mode="WaitForFirstConsumer")},
        csi_nodes={},
        drivers={},
        capacities=(),
        attachments={},
    )


def _figures(name: str) -> None:
    growth = next(each for each in inputs() if each.name == name)
    pods, groups = growth.pods(), growth.groups()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.process_time()
    plan = plan_of(pods, groups, growth.nodes_full)
    seconds = time.process_time() - began
    more = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    left = sum(len(each.pods) for each in plan.unhelpable)
    print(
        f"{seconds:6.2f} s (goal {growth.seconds:.0f}) {more:6.0f} MiB {plan.n_nodes:6} nodes {left:6} unhelpable  {name}",
        flush=True,
    )


if __name__ == "__main__":
    words = sys.argv[1:]
    for each in inputs():
        if all(word in each.name for word in words):
            process = multiprocessing.Process(target=_figures, args=(each.name,))
            process.start()
            process.join()
