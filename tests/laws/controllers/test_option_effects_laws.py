"""An option that is taken into the plan changes the estimates of no bundle but those that it is said to affect."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs

from slackwater.controllers.scaleup.added_nodes import AddedNodes
from slackwater.controllers.scaleup.estimate import Option
from slackwater.controllers.scaleup.groups import GrowableGroup, counted
from slackwater.controllers.scaleup.option_effects import OptionEffects
from slackwater.model.objects import Node, Pod
from slackwater.model.pod_constraints import DiskMount
from slackwater.model.resources import NOTHING
from slackwater.model.selectors import Requirement
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.node_facts import HOSTNAME
from tests.laws.controllers.test_optimistic_laws import Choice, spread_pods
from tests.support.builders import a_node
from tests.support.scalingup import a_group, a_template, demand_of
from tests.support.smallclusters import SmallCluster, small_clusters

LAW = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
POOLS = ("a", "b", "c")


def of_pools(pods: Sequence[Pod], pools: Sequence[str | None]) -> list[Pod]:
    """The pods, each of which goes only to nodes of the pool at its place, in turn; None: to all nodes."""
    return [
        pod if pool is None else structs.replace(pod, kind=replace(pod.kind, node_selector=(("pool", pool),)))
        for pod, pool in zip(pods, tuple(pools) * len(pods), strict=False)
    ]


def pool_groups(zones: Sequence[str]) -> list[GrowableGroup]:
    return [
        a_group(f"g-{pool}", a_template(f"t-{pool}", cpu=str(3 + at), labels={"pool": pool, "zone": zones[at % len(zones)]}))
        for at, pool in enumerate(POOLS)
    ]


def at(option: Option) -> tuple[list[int], list[int], list[int]]:
    return option.groups.tolist(), option.pods.tolist(), option.at.tolist()


def unaffected(snapshot: ClusterSnapshot, pods: Sequence[Pod], groups: Sequence[GrowableGroup]) -> int:
    """Takes the best option of each bundle's first one into the snapshot. Checks those that are not affected, and returns their
    number."""
    demand = demand_of(pods).counted
    choice = Choice(snapshot, demand, groups, ("least-waste",))
    effects = OptionEffects(choice.of, choice.bundles)
    before = {bundle: choice.estimated(bundle) for bundle in choice.bundles}
    taken = min((each for each in before.values() if each.n_pods), key=choice.merit, default=None)
    if taken is None:
        return 0
    kinds = np.zeros(len(demand), np.intp)
    for run in choice.runs.values():
        kinds[run.pods] = run.kind
    new = AddedNodes(snapshot=snapshot, groups=groups, pods=demand)
    first = new.open(taken.groups.tolist(), system=NOTHING, shown=True)
    new.assign(taken.pods, taken.at, first)
    new.show(taken.pods, kinds)
    for group, count in counted(taken.groups):
        choice.budget.take(group, count)
    choice.spared.forget()
    affected, present, found = effects.of(taken), taken.at[taken.at < 0], 0
    for bundle, known in before.items():
        if bundle not in affected and not np.isin(known.at, present).any():
            assert at(choice.estimated(bundle)) == at(known)
            found += 1
    return found


@LAW
@given(
    small_clusters(),
    st.lists(st.sampled_from((*POOLS, None)), min_size=1, max_size=4),
    st.lists(st.sampled_from(("z0", "z1", "z2")), min_size=1, max_size=3),
    st.booleans(),
)
def test_a_bundle_that_is_not_affected_gets_the_same_estimate(
    cluster: SmallCluster, pools: list[str | None], zones: list[str], labelled: bool
) -> None:
    nodes: list[Node] = [
        structs.replace(node, labels={**node.labels, "pool": POOLS[at % 3]}) if labelled else node
        for at, node in enumerate(cluster.nodes)
    ]
    snapshot = ClusterSnapshot.build(
        nodes,
        [*cluster.running_pods, *of_pools(cluster.pending, pools)],
        namespaces={"default": {"team": "x"}, "other": {}},
        storage=cluster.storage,
    )
    with snapshot.fork():
        unaffected(snapshot, of_pools(cluster.pending, pools), pool_groups(zones))


def ruled(pod: Pod, rules: str) -> Pod:
    asks = pod.kind.pod_constraints
    assert asks is not None
    (spread,) = asks.spread
    match rules:
        case "every node counts":
            asks = replace(asks, spread=(replace(spread, honor_affinity=False),))
        case "every pod counts":
            every = (Requirement("app", "Exists", ()),)
            asks = replace(asks, spread=(replace(spread, honor_affinity=False, selector=every),))
        case "disks":
            asks = replace(asks, disks=(DiskMount(source="gce", disk=(pod.key.name,), read_only=False),))
        case _:
            assert rules == "own"
    return structs.replace(pod, kind=replace(pod.kind, pod_constraints=asks))


ZONES = ("z0", "z1", "z2")


@pytest.mark.parametrize(
    ("present", "rules", "want"),
    [
        (ZONES, "own", 2),
        ((), "own", 2),
        (ZONES, "every node counts", 2),
        ((), "every node counts", 0),  # the first node of a zone: the pods of other pools are spread over it, too
        (ZONES, "every pod counts", 0),
        (ZONES, "disks", 0),
    ],
)
def test_pools_with_workloads_of_their_own_do_not_affect_one_another(present: tuple[str, ...], rules: str, want: int) -> None:
    nodes = [a_node(f"n{zone}", cpu="0", labels={HOSTNAME: f"n{zone}", "zone": zone}) for zone in present]
    pods = of_pools([ruled(pod, rules) for pod in spread_pods(3)], [pool for pool in POOLS for _ in range(6)])
    snapshot = ClusterSnapshot.build(nodes, pods)
    with snapshot.fork():
        assert unaffected(snapshot, pods, pool_groups(ZONES)) == want
