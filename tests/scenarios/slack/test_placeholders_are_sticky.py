"""Placeholders stay where they are: over a hundred loops with one pod in a hundred replaced, hardly any moves for nothing."""

import random

import pytest
from msgspec import structs

from slackwater.model.eviction_facts import EvictionFacts, Owner
from slackwater.model.ids import NodeName
from slackwater.model.objects import Pod
from slackwater.model.resources import NOTHING, Amounts
from tests.support.builders import a_pod
from tests.support.slackening import Cluster, a_machine, a_rule

NODES, PODS, LOOPS = 50, 400, 100


def a_replica(name: str, rng: random.Random) -> Pod:
    pod = a_pod(name, cpu=rng.choice(["100m", "250m", "500m"]), memory="512Mi")
    return structs.replace(pod, eviction_facts=EvictionFacts(owner=Owner("apps", "ReplicaSet", "web")))


def placed(cluster: Cluster, pod: Pod, rng: random.Random) -> Pod:
    """Where a scheduler that knows nothing of placeholders puts it: anywhere with room."""
    taken: dict[str | None, Amounts] = {}
    for other in cluster.pods:
        taken[other.node] = taken.get(other.node, NOTHING).plus(other.kind.requests)
    fitting = [
        node.name for node in cluster.nodes if taken.get(node.name, NOTHING).plus(pod.kind.requests).within(node.allocatable)
    ]
    return structs.replace(pod, node=NodeName(rng.choice(fitting)))


def moved_without_a_cause(cluster: Cluster, before: dict[int, str | None]) -> int:
    """Placeholders that stand elsewhere now, though their node has room for them still."""
    has = {node.name: node.allocatable for node in cluster.nodes}
    sizes = {each.number: each.pod.kind.requests for each in cluster.placeholders}
    return sum(
        1
        for number, place in cluster.places().items()
        if (old := before.get(number)) is not None
        and place != old
        and cluster.used(old).plus(sizes[number]).within(has[NodeName(old)])
    )


@pytest.mark.parametrize("seed", range(3))
def test_fewer_than_two_in_a_hundred_move_without_a_cause(seed: int) -> None:
    rng = random.Random(seed)
    cluster = Cluster(nodes=[a_machine(f"n{number}") for number in range(NODES)], rules=[a_rule(0.15, sizing="v2")])
    for number in range(PODS):
        cluster.pods.append(placed(cluster, a_replica(f"p{number}", rng), rng))
    cluster.loop()
    moved = stood = pushed = 0
    for loop in range(LOOPS):
        for which in range(PODS // 100):
            cluster.pods.pop(rng.randrange(len(cluster.pods)))
            cluster.pods.append(placed(cluster, a_replica(f"p{loop}-{which}-new", rng), rng))
        before = cluster.places()
        found = cluster.loop()
        assert found.slack is not None
        pushed += len(found.slack.pushed)
        stood += len(before)
        moved += moved_without_a_cause(cluster, before)
    assert pushed > 0, "nothing was in anybody's way: this shows nothing"
    assert moved < 0.02 * stood / LOOPS, f"{moved} of {stood // LOOPS} placeholders moved in {LOOPS} loops"
