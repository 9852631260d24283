"""Alike equivalence groups that an estimate places together get the nodes that they would get one after another."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from msgspec import structs

from slackwater.controllers.scaleup.estimate import Run, estimate, largest_first
from slackwater.controllers.scaleup.groups import Budget, GrowableGroup
from slackwater.controllers.scaleup.inter_pod_constraints import representatives
from slackwater.controllers.scaleup.new_nodes import NewNodes, TrackedNodes
from slackwater.controllers.scaleup.pending import place_existing
from slackwater.controllers.scaleup.template_nodes import TemplateNodes
from slackwater.fit.binpacking import NOWHERE
from slackwater.model.objects import Node, Pod
from slackwater.model.pod_constraints import ClaimMount, Kind, PodConstraints, PodTerm, SpreadConstraint
from slackwater.model.resources import NOTHING
from slackwater.model.selectors import Requirement, Selector
from slackwater.model.storage import Claim, CsiNode, Storage, StorageClass, Volume
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.equivalence_groups import KindId
from slackwater.snapshot.node_facts import HOSTNAME
from tests.support.builders import a_node, a_pod, amounts
from tests.support.scalingup import a_group, a_template

LAW = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
DRIVER = "ebs.csi.aws.com"
CLASSES = {"late": StorageClass(name="late", provisioner=DRIVER, binding_mode="WaitForFirstConsumer")}
RULES = ("plain", "spread", "near", "near-host", "apart", "apart-host", "spread-apart", "claim", "claim-spread")


class Workload(NamedTuple):
    """`pods` pods of `cpu` CPU under these rules about their own pods. `common`: their rules are about all pods instead."""

    rules: str
    pods: int
    cpu: int
    common: bool


def a_term(key: str, own: Selector) -> PodTerm:
    return PodTerm(topology_key=key, selector=own, namespaces=("default",))


def pods_of(number: int, workload: Workload) -> list[Pod]:
    app: Selector = (Requirement("app", "In", (f"a{number}",)),)
    own: Selector = (Requirement("every", "In", ("pod",)),) if workload.common else app
    spread = [
        SpreadConstraint(hard=hard, max_skew=1, topology_key="zone", selector=own if hard else app) for hard in (True, False)
    ]
    near = {"near": "zone", "near-host": HOSTNAME}.get(workload.rules)
    apart = {"apart": "zone", "apart-host": HOSTNAME, "spread-apart": HOSTNAME}.get(workload.rules)
    asks = PodConstraints(
        spread=tuple(spread if "spread" in workload.rules else spread[1:]),
        affinity=(a_term(near, own),) if near else (),
        anti_affinity=(a_term(apart, own),) if apart else (),
        claims=(ClaimMount(f"c{number}"),) if "claim" in workload.rules else (),
    )
    kind = Kind(namespace="default", requests=amounts(str(workload.cpu)), pod_constraints=asks)
    labels = {"app": f"a{number}", "every": "pod"}
    return [structs.replace(a_pod(f"p{number}-{at}", labels=labels), kind=kind) for at in range(workload.pods)]


def storage(count: int, volumes: int) -> Storage:
    claims = [Claim(namespace="default", name=f"c{at}", uid=f"u{at}", storage_class="late", size=1) for at in range(count)]
    made = [Volume(name=f"v{at}", labels={}, storage_class="late", phase="Available", capacity=1) for at in range(volumes)]
    return Storage(
        claims={("default", claim.name): claim for claim in claims},
        volumes={volume.name: volume for volume in made},
        classes=CLASSES,
        csi_nodes={},
    )


def limited(node: Node, limit: int | None) -> Node:
    return structs.replace(node, csi=CsiNode(name=node.name, drivers=((DRIVER, limit),)))


@st.composite
def workloads(draw: st.DrawFn) -> list[Workload]:
    """Series of workloads, most of them alike, some with another between them."""
    found: list[Workload] = []
    for _ in range(draw(st.integers(1, 3))):
        rules = draw(st.sampled_from(RULES))
        workload = Workload(rules, draw(st.integers(1, 4)), draw(st.integers(1, 2)), draw(st.integers(0, 3)) == 0)
        found += [workload] * draw(st.integers(2, 7))
    return draw(st.permutations(found)) if draw(st.booleans()) else found


@st.composite
def groups(draw: st.DrawFn) -> list[GrowableGroup]:
    limit = draw(st.sampled_from((None, None, 1, 3)))
    cpu, largest = draw(st.integers(2, 20)), draw(st.sampled_from((2, 4, 100)))
    return [
        a_group(
            f"g{at}", limited(a_template(f"t{at}", cpu=str(cpu + at), labels={"zone": f"z{at % 3}"}), limit), largest=largest
        )
        for at in range(draw(st.integers(1, 4)))
    ]


def one_by_one(template_nodes: TemplateNodes, budget: Budget, bundle: Sequence[int], runs: Sequence[Run]) -> list[int]:
    nodes = NewNodes(template_nodes, budget.copy(), bundle)
    with template_nodes.snapshot.fork():
        tracked = TrackedNodes(nodes, lambda: False, together=True)
        found = [tracked.fill(run.kind, len(run.pods)) for run in largest_first(template_nodes, bundle[0], runs)]
    return [at for placed in found for at in placed.tolist()]


def three_zones(limit: int | None = None) -> list[GrowableGroup]:
    return [a_group(f"g{at}", limited(a_template(f"t{at}", cpu="9", labels={"zone": f"z{at}"}), limit)) for at in range(3)]


@LAW
@example([Workload("spread", 1, 1, common=True)] * 9, three_zones(), 3, "0", 0)
@example([Workload("claim", 1, 1, common=False)] * 9, three_zones(2), 3, "0", 0)
@example([Workload("claim-spread", 2, 1, common=False)] * 9, three_zones(), 3, "0", 4)
@example(
    [Workload(rules, 2, 1, common=False) for rules in ("spread", "apart-host", "spread", "near")] * 2, three_zones(), 0, "0", 0
)
@given(workloads(), groups(), st.sampled_from((0, 3)), st.sampled_from("003"), st.sampled_from((0, 0, 3)))
def test_alike_pods_get_the_nodes_that_they_would_get_one_by_one(
    all_workloads: list[Workload], some: list[GrowableGroup], n_nodes: int, cpu: str, volumes: int
) -> None:
    pods = [pod for number, workload in enumerate(all_workloads) for pod in pods_of(number, workload)]
    nodes = [a_node(f"n{at}", cpu=cpu, labels={HOSTNAME: f"n{at}", "zone": f"z{at}"}) for at in range(n_nodes)]
    snapshot = ClusterSnapshot.build(nodes, pods, storage=storage(len(all_workloads), volumes))
    kinds = representatives(snapshot, snapshot.number(pods))
    with snapshot.fork():
        left = np.flatnonzero(place_existing(snapshot, pods, kinds, hints={}) == NOWHERE)
        runs = [Run(kind=KindId(kind), pods=left[kinds[left] == kind]) for kind in np.unique(kinds[left]).tolist()]
        template_nodes = TemplateNodes(snapshot, some, [run.kind for run in runs], system=NOTHING)
        budget, bundle = Budget.of(some, nodes=[]), tuple(range(len(some)))
        priorities = np.zeros(len(pods), np.intp)
        option = estimate(template_nodes, budget, bundle, runs, priorities=priorities, stop=lambda: False)
        want = one_by_one(template_nodes, budget, bundle, runs)
    if option.moving:
        assert option.at.tolist() == want


def test_a_plan_for_a_hundred_alike_workloads_judges_few_rows() -> None:
    series = [Workload(rules, 2, 1, common=False) for rules in ("spread", "near", "claim", "apart-host") for _ in range(25)]
    pods = [pod for number, workload in enumerate(series) for pod in pods_of(number, workload)]
    snapshot = ClusterSnapshot.build([], pods, storage=storage(len(series), 0))
    kinds = representatives(snapshot, snapshot.number(pods))
    runs = [Run(kind=KindId(kind), pods=np.flatnonzero(kinds == kind)) for kind in np.unique(kinds).tolist()]
    group = [a_group("g", limited(a_template("t", cpu="300", memory="1Ti", pods=500, labels={"zone": "z"}), 500))]
    template_nodes = TemplateNodes(snapshot, group, [run.kind for run in runs], system=NOTHING)
    before = snapshot.rows_judged
    priorities = np.zeros(len(pods), np.intp)
    option = estimate(template_nodes, Budget.of(group, nodes=[]), (0,), runs, priorities=priorities, stop=lambda: False)
    assert option.n_pods == len(pods)
    assert option.n_nodes == 2
    assert snapshot.rows_judged - before < len(pods) // 2
