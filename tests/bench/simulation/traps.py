"""Inputs on which a plan once took a minute: many groups, many sizes under one rule, many budgets. None may cost more than its
output asks for.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from msgspec import structs

from slackwater.controllers.scaleup.groups import GrowableGroup, Template
from slackwater.controllers.scaleup.pending import pending_demand
from slackwater.controllers.scaleup.plan import plan_scale_up
from slackwater.model.ids import NodeName, UnixTime
from slackwater.model.nodegroups import GroupName, NodeGroup
from slackwater.model.objects import DisruptionBudget, Pod
from slackwater.model.pod_constraints import Kind, PodConstraints, PodTerm
from slackwater.model.resources import amounts_of
from slackwater.model.selectors import Requirement
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.node_facts import HOSTNAME
from tests.bench.simulation.case import Case, Outcome
from tests.bench.simulation.inputs import GIB, a_node, a_pod
from tests.bench.simulation.removal import removal
from tests.support import installed

_NOW: Final = UnixTime(1.8e9)
_RULES: Final = replace(installed.PENDING, after_scheduler=False)
_POLICY: Final = replace(installed.SCALE_UP, pending=_RULES, max_nodes_per_scale_up=0)


def cases(quick: bool) -> Iterator[Case]:
    """`quick`: at a tenth of the size."""
    by = 10 if quick else 1
    own, plain, apart, budgets = 1000 // by, 2000 // by, 8000 // by, 800 // by
    yield _plan(f"{own:,} groups with a pod of its own each", _of_groups(own), _groups(own), want=own)
    for most in (1, 30_000):
        name = f"{plain:,} groups of at most {most:,} nodes, 10 plain pods for each"
        want = None if most == 1 else -(-10 * plain // 32)
        yield _plan(name, _plain(10 * plain), _groups(plain, most), want=want)
    yield _plan(f"{apart:,} pods of as many sizes that keep apart", _apart(apart), _groups(1), want=apart)
    yield Case(
        name=f"{budgets:,} budgets in a namespace, {budgets // 2:,} nodes: scale-down's whole plan",
        run=_removal(budgets, budgets // 2),
        counted="nodes can go",
        goal_seconds=2.0,
    )


def _plan(name: str, pods: list[Pod], groups: Sequence[GrowableGroup], *, want: int | None) -> Case:
    return Case(name=f"plan: {name}", run=_scale_up(pods, groups), counted="nodes", want=want, goal_seconds=2.0)


def _scale_up(pods: list[Pod], groups: Sequence[GrowableGroup]) -> Callable[[], Outcome]:
    def run() -> Outcome:
        began = time.perf_counter()
        snapshot = ClusterSnapshot.build([], pods)
        with snapshot.fork():
            plan = plan_scale_up(
                snapshot, pending_demand(pods, rules=_RULES, now=_NOW), groups, policy=_POLICY, clock=time.perf_counter
            )
        return Outcome(seconds=time.perf_counter() - began, count=plan.n_nodes)

    return run


def _groups(count: int, most: int = 30_000) -> list[GrowableGroup]:
    """Groups that differ by a label, so that none is like another."""
    found = []
    for number in range(count):
        node = a_node(number)
        group = NodeGroup(name=GroupName(f"g-{number:05}"), provider="bench", min_size=0, max_size=most, target=0, instances=())
        found.append(
            GrowableGroup(
                group=group, template=Template(node=structs.replace(node, labels={**node.labels, "of": f"v{number}"}))
            )
        )
    return found


def _of_groups(count: int) -> list[Pod]:
    """Each for the nodes of one group."""
    size = amounts_of((1000, GIB))
    kinds = [Kind(namespace="default", requests=size, node_selector=(("of", f"v{number}"),)) for number in range(count)]
    return [a_pod(f"p-{number}", kind, f"app-{number}") for number, kind in enumerate(kinds)]


def _plain(count: int) -> list[Pod]:
    kind = Kind(namespace="default", requests=amounts_of((1000, GIB)))
    return [a_pod(f"p-{number}", kind, "app") for number in range(count)]


def _apart(count: int) -> list[Pod]:
    """One label, and every pod keeps away from all that have it."""
    term = PodTerm(topology_key=HOSTNAME, selector=(Requirement("app", "In", ("x",)),), namespaces=("default",))
    asks = PodConstraints(anti_affinity=(term,))
    return [
        a_pod(f"p-{n}", Kind(namespace="default", requests=amounts_of((1000 + n, GIB)), pod_constraints=asks), "x")
        for n in range(count)
    ]


def _removal(n_budgets: int, nodes: int, each: int = 30) -> Callable[[], Outcome]:
    """Every pod has labels of its own, as those of a StatefulSet do."""
    machines = [a_node(number) for number in range(nodes)]
    kind = Kind(namespace="default", requests=amounts_of((400, GIB)))
    running = []
    for number in range(nodes * each):
        pod = a_pod(f"r-{number}", kind, f"app-{number % n_budgets}", node=NodeName(f"n-{number // each}"))
        running.append(structs.replace(pod, labels=(*pod.labels, ("pod", pod.key.name))))
    return removal(machines, running, budgets=tuple(map(_budget, range(n_budgets))))


def _budget(number: int) -> DisruptionBudget:
    return DisruptionBudget(
        namespace="default",
        name=f"b-{number}",
        uid=f"b-{number}",
        resource_version=1,
        selector=(Requirement("app", "In", (f"app-{number}",)),),
        disruptions_allowed=1000,
    )
