"""A virtual machine with the annotation do-not-disrupt does not leave a crowded node; another leaves instead."""

import math

from msgspec import structs

from slackwater.model.eviction_facts import EvictionFacts
from tests.scenarios.test_the_life_of_a_migration import TWO, created, crowded


def test_the_protected_machine_stays_and_holds_no_other_up() -> None:
    cluster, pods = crowded()
    cluster.store(structs.replace(pods[0], eviction_facts=EvictionFacts(do_not_disrupt=math.inf)))
    for load, pod in enumerate(pods, 1):
        cluster.decide(pod, TWO, load=load)
    assert created(cluster) == ["m1"]
