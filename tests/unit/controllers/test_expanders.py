"""Each expander by itself, the chain, and Cluster Autoscaler's ConfigMap."""

import json
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from msgspec import structs

from slackwater.adapters.kube.config_maps import decode_priorities
from slackwater.controllers.scaleup.estimate import Option
from slackwater.controllers.scaleup.expanders import (
    CPU_AND_MEMORY,
    NO_PRIORITIES,
    BadPriorities,
    ExpanderName,
    Measure,
    chain_of,
    draw,
    largest_of,
    least_nodes,
    most_pods,
    node_size,
    rank,
    read_priorities,
    waste,
    weights_of,
)
from slackwater.model.nodegroups import GroupName
from slackwater.model.objects import Node
from tests.support.builders import a_node


def option(
    name: str,
    *,
    nodes: int = 1,
    pods: int = 1,
    asked: tuple[int, int] = (1, 1),
    offered: tuple[int, int] = (2, 2),
    devices: dict[str, int] | None = None,
    has: dict[str, int] | None = None,
) -> Option:
    """`devices` are asked beside CPU and memory, `has` is offered."""
    return Option(
        bundle=(0,),
        names=(GroupName(name),),
        groups=np.zeros(nodes, np.intp),
        kinds=(),
        pods=np.arange(pods),
        at=np.zeros(pods, np.intp),
        asked={"cpu": asked[0], "memory": asked[1], **(devices or {})},
        offered={"cpu": offered[0], "memory": offered[1], **(has or {})},
        left_out=False,
        cut=False,
        moving=False,
    )


def named(options: list[Option]) -> list[str]:
    return [each.names[0] for each in options]


def best(measure: Measure, options: list[Option]) -> list[Option]:
    """All that are best by a measure."""
    least = min(map(measure, options))
    return [each for each in options if measure(each) == least]


def test_most_pods() -> None:
    assert named(best(most_pods, [option("a", pods=2), option("b", pods=3), option("c", pods=3)])) == ["b", "c"]


def test_least_nodes() -> None:
    assert named(best(least_nodes, [option("a", nodes=2), option("b", nodes=1), option("c", nodes=1)])) == ["b", "c"]


def test_least_waste_adds_the_unused_shares_of_cpu_and_memory() -> None:
    tight, half = option("tight", asked=(3, 9), offered=(4, 10)), option("half", asked=(2, 10), offered=(4, 10))
    assert (waste(tight, CPU_AND_MEMORY), waste(half, CPU_AND_MEMORY)) == (Fraction(7, 20), Fraction(1, 2))
    assert named(best(partial(waste, weights=CPU_AND_MEMORY), [half, tight])) == ["tight"]


def test_equal_waste_is_equal_whatever_the_sizes() -> None:
    thirds = [option("a", asked=(1, 1), offered=(3, 3)), option("b", asked=(10, 10), offered=(30, 30))]
    assert named(best(partial(waste, weights=CPU_AND_MEMORY), thirds)) == ["a", "b"]


GPU = "nvidia.com/gpu"


def machine(cpu: str, **scalars: int) -> Node:
    return structs.replace(a_node("n", cpu=cpu, memory="64Gi"), scalars=tuple(scalars.items()))


def test_a_resource_weighs_the_more_the_scarcer_it_is_beside_cores_or_memory() -> None:
    nodes = [machine("16", pods=110, kvm=1000), machine("96", pods=250, **{GPU: 8, "ephemeral-storage": 1 << 40})]
    nodes.append(machine("16", **{"hugepages-1Gi": 16 << 30, "attachable-volumes-csi-x": 25}))
    assert weights_of(nodes) == {
        "cpu": 1,
        "memory": 1,
        GPU: 16,  # 128 cores
        "kvm": Fraction(128, 1000),
        "hugepages-1Gi": 12,  # 192 GiB of memory
    }


def test_an_idle_gpu_outweighs_idle_cpu_and_memory() -> None:
    weights = weights_of([machine("96", **{GPU: 8}), machine("16")])
    full = option("gpus", asked=(96, 64), offered=(96, 64), has={GPU: 8})
    idle = option("plain", asked=(1, 1), offered=(96, 64))
    assert named(best(partial(waste, weights=weights), [full, idle])) == ["plain"]
    one = option("one", asked=(1, 1), offered=(96, 64), devices={GPU: 1}, has={GPU: 1})
    eight = option("eight", asked=(1, 1), offered=(1, 1), devices={GPU: 1}, has={GPU: 8})
    assert named(best(partial(waste, weights=weights), [eight, one])) == ["one"]


def test_a_placeholder_gets_no_node_with_a_gpu_where_another_one_does() -> None:
    machines = [machine("8", **{GPU: 1}), machine("16")]
    size = partial(node_size, weights=weights_of(machines), largest=largest_of(machines))
    small, large = (
        option("gpu", offered=(8000, 64 << 30), has={GPU: 1}),
        option("plain", offered=(16000, 64 << 30)),
    )
    assert named(best(size, [small, large])) == ["plain"]


def test_the_random_choice_is_the_same_for_the_same_seed_and_reaches_every_option() -> None:
    options = [option(name) for name in "abc"]
    assert best(partial(draw, seed=5), options) == best(partial(draw, seed=5), options[::-1])
    assert {named(best(partial(draw, seed=seed), options))[0] for seed in range(50)} == {"a", "b", "c"}


PRIORITIES = """\
10:
  - .*t2\\.large.*
  - .*t3\\.large.*
50:
  - .*m4\\.4xlarge.*
"""


def config_map(text: str) -> bytes:
    return json.dumps({"kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"priorities": text}}).encode()


def test_the_config_map_of_cluster_autoscaler_is_read() -> None:
    found = decode_priorities(config_map(PRIORITIES))
    names = ["a-t2.large-b", "m4.4xlarge", "other"]
    assert [found.of(GroupName(name)) for name in names] == [10, 50, None]


def test_the_highest_priority_wins_and_unmatched_groups_come_last() -> None:
    found = decode_priorities(config_map(PRIORITIES))
    options = [option("t2.large"), option("m4.4xlarge-a"), option("m4.4xlarge-b"), option("other")]
    assert named(best(partial(rank, priority_of=found.of), options)) == ["m4.4xlarge-a", "m4.4xlarge-b"]
    assert named(best(partial(rank, priority_of=found.of), [option("other"), option("t3.large")])) == ["t3.large"]
    assert named(best(partial(rank, priority_of=found.of), [option("x"), option("y")])) == ["x", "y"]
    assert named(best(partial(rank, priority_of=NO_PRIORITIES.of), [option("x")])) == ["x"]


def test_an_expression_is_searched_for_anywhere_unless_it_says_otherwise() -> None:
    found = read_priorities({2: [r"^spot\z"], 1: ["spot"]})
    assert [found.of(GroupName(name)) for name in ("spot", "my-spot-1")] == [2, 1]


BROKEN = [
    (b"[]", "Expected `object`"),
    (b'{"data": {}}', "got no key priorities"),
    (config_map("a: ["), "is no YAML"),
    (config_map("- a"), "want a map of numbers"),
    (config_map("high: [a]"), "got key 'high', want a whole number"),
    (config_map("1: a"), "want a list of expressions"),
    (config_map("1: [[a]]"), "want an expression"),
    (config_map("1: ['(']"), "priorities[1]: '('"),
]


@pytest.mark.parametrize(("raw", "want"), BROKEN, ids=[want for _, want in BROKEN])
def test_a_broken_config_map_says_what_is_wrong(raw: bytes, want: str) -> None:
    with pytest.raises(BadPriorities) as caught:
        decode_priorities(raw)
    assert want in str(caught.value)


CHAINS: list[tuple[list[ExpanderName], str]] = [
    (["most-pods", "least-nodes"], "c"),
    (["priority", "most-pods"], "a"),
]


@pytest.mark.parametrize(("names", "want"), CHAINS, ids=[" ".join(names) for names, _ in CHAINS])
def test_a_chain_filters_one_after_another(names: list[ExpanderName], want: str) -> None:
    options = [option("c", pods=3, nodes=1), option("b", pods=3, nodes=2), option("a", pods=1, nodes=1)]
    chain = chain_of(names, seed=0, priority_of=read_priorities({5: ["a"]}).of, weights=CPU_AND_MEMORY, largest={})
    assert min(options, key=chain).names == (want,)


def test_the_random_choice_decides_among_equals_and_reaches_every_option() -> None:
    options = [option(name) for name in "abc"]

    def won(seed: int) -> str:
        chain = chain_of(["least-waste"], seed=seed, priority_of=NO_PRIORITIES.of, weights=CPU_AND_MEMORY, largest={})
        return min(options, key=chain).names[0]

    assert {won(seed) for seed in range(50)} == {"a", "b", "c"}
    assert won(7) == won(7)
