"""Generated fleets, from a seed: 1,000 nodes, 30,000 pods, 100 variants, in three shapes.

- half-empty: a few types, from an eighth to four fifths full.
- wrong-sizes: any types, filled with any pods that they take, until CPU or memory runs out.
- grown: in six epochs, a type in each; then pods ended, more of them in the older epochs.

Sizes of pods are scaled until there are about 30,000. A fifth of the workloads select on-demand nodes, a tenth a zone, and of a
twentieth no two pods share a node.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np
from msgspec import structs

from slackwater.controllers.scaleup.groups import GrowableGroup
from slackwater.model.columns import Int64
from slackwater.model.eviction_facts import EvictionFacts, Owner
from slackwater.model.ids import NodeName, PodUid
from slackwater.model.nodegroups import GroupName
from slackwater.model.objects import Node, Pod
from slackwater.model.prices import PriceBook
from slackwater.snapshot.node_facts import HOSTNAME
from tests.bench.simulation.mixes import WORKLOADS, Mix, Variant, Workload, variants_of

Shape = Literal["half-empty", "wrong-sizes", "grown"]
SHAPES: Final[tuple[Shape, ...]] = ("half-empty", "wrong-sizes", "grown")
_MIB: Final = 1 << 20
_WORKLOADS: Final = 60
#: How near the number of pods comes to what is asked.
_NEAR: Final = 0.03


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated:
    """`on`: the variant of each node, shape (nodes,). `held`: pods of each workload on it, shape (nodes, workloads). The mix
    has as many pods of each workload."""

    shape: Shape
    mix: Mix
    on: Int64
    held: Int64

    @property
    def cost(self) -> int:
        """Micros an hour."""
        return int(self.mix.prices[self.on].sum())

    def nodes(self) -> list[Node]:
        found = []
        templates = [variant.group().template for variant in self.mix.variants]
        for number, variant in enumerate(self.on.tolist()):
            template, name = templates[variant], NodeName(f"n-{number}")
            assert template is not None
            found.append(structs.replace(template.node, name=name, labels={**template.node.labels, HOSTNAME: name}))
        return found

    def pods(self) -> list[Pod]:
        """All pods on their nodes, those of DaemonSets too."""
        found = []
        by_workload = [iter(workload.pods(f"app-{at}")) for at, workload in enumerate(self.mix.workloads)]
        daemons = [_daemons(variant) for variant in self.mix.variants]
        for number, (variant, held) in enumerate(zip(self.on.tolist(), self.held.tolist(), strict=True)):
            name = NodeName(f"n-{number}")
            found += [structs.replace(pod, node=name, uid=PodUid(f"{pod.uid}@{name}")) for pod in daemons[variant]]
            for at, count in enumerate(held):
                found += [next(by_workload[at]).on(name) for _ in range(count)]
        return found

    def groups(self) -> list[GrowableGroup]:
        """A group for each variant, with the nodes that it has."""
        found = []
        for at, variant in enumerate(self.mix.variants):
            group, target = variant.group(), int((self.on == at).sum())
            found.append(replace(group, group=replace(group.group, target=target)))
        return found

    def group_of(self) -> dict[NodeName, GroupName]:
        names = [GroupName(variant.name) for variant in self.mix.variants]
        return {NodeName(f"n-{number}"): names[at] for number, at in enumerate(self.on.tolist())}

    def prices(self) -> PriceBook:
        return PriceBook(configured={GroupName(variant.name): variant.price for variant in self.mix.variants})


def _daemons(variant: Variant) -> list[Pod]:
    template = variant.group().template
    assert template is not None
    return [
        structs.replace(pod, eviction_facts=EvictionFacts(owner=Owner("apps", "DaemonSet", pod.key.name)))
        for pod in template.running_pods
    ]


def generated(seed: int, *, nodes: int = 1000, pods: int = 30_000, variants: int = 100) -> Generated:
    """The nodes and pods of a seed."""
    draw = random.Random(seed)
    shape = SHAPES[seed % len(SHAPES)]
    offered = variants_of(draw, draw.randint(1, 3), variants, gpus=False, spot=draw.random() < 0.5)
    drawn = _workloads(draw, offered)
    choice = _types(draw, shape, offered, nodes)
    fill_seed, scale = draw.random(), 1.0
    while True:
        workloads = [_scaled(each, scale) for each in drawn]
        mix = Mix(seed=seed, family=shape, trait="plain", workloads=tuple(workloads), variants=offered)
        held = _filled(random.Random(fill_seed), shape, mix, choice)
        total = int(held.sum())
        if abs(total / pods - 1) <= _NEAR:
            break
        scale *= (total / pods) ** 0.9
    counted = tuple(replace(each, count=int(count)) for each, count in zip(workloads, held.sum(axis=0), strict=True))
    return Generated(shape=shape, mix=replace(mix, workloads=counted), on=np.array(choice, np.int64), held=held)


def _workloads(draw: random.Random, offered: Sequence[Variant]) -> list[Workload]:
    zones, names = sorted({each.zone for each in offered}), [name for name in WORKLOADS if name != "gpu"]
    weights = [draw.random() + 0.1 for _ in names]
    found = []
    for _ in range(_WORKLOADS):
        cpus, memories = WORKLOADS[draw.choices(names, weights)[0]]
        found.append(
            Workload(
                amounts=(draw.choice(cpus), draw.choice(memories) * _MIB, 1, 0),
                count=0,
                zone=draw.choice(zones) if draw.random() < 0.1 else "",
                on_demand=draw.random() < 0.2,
                apart=draw.random() < 0.05,
            )
        )
    return found


def _scaled(workload: Workload, scale: float) -> Workload:
    cpu, memory, pods, gpus = workload.amounts
    return replace(workload, amounts=(max(round(cpu * scale), 1), max(round(memory / _MIB * scale), 1) * _MIB, pods, gpus))


def _types(draw: random.Random, shape: Shape, offered: Sequence[Variant], nodes: int) -> list[int]:
    """The variant of each node."""
    large = [at for at, each in enumerate(offered) if each.allocatable[0] > 7000]
    if shape == "half-empty":
        few = draw.sample(large, 4)
        return [draw.choice(few) for _ in range(nodes)]
    if shape == "wrong-sizes":
        return [draw.randrange(len(offered)) for _ in range(nodes)]
    epochs = draw.sample(large, 6)
    return [epochs[6 * number // nodes] for number in range(nodes)]


def _filled(draw: random.Random, shape: Shape, mix: Mix, choice: Sequence[int]) -> Int64:
    """Pods of each workload on each node, shape (nodes, workloads)."""
    held = np.zeros((len(choice), len(mix.workloads)), np.int64)
    for number, variant in enumerate(choice):
        able = np.flatnonzero(mix.takes[variant]).tolist()
        most = {"half-empty": draw.uniform(0.13, 0.8), "wrong-sizes": draw.uniform(0.5, 1.0), "grown": 1.0}[shape]
        some = draw.sample(able, min(len(able), 8))
        free, wanted = mix.offered[variant].copy(), (mix.offered[variant] * (1 - most)).astype(np.int64)
        misses = 0
        while some and misses < 8:
            at = draw.choice(some)
            asked = mix.asked[at]
            if (free - asked < wanted).any() or (mix.workloads[at].apart and held[number, at]):
                misses += 1
                continue
            free -= asked
            held[number, at] += 1
        if shape == "grown":
            ended = 0.75 - 0.6 * number / len(choice)
            held[number] = [sum(draw.random() > ended for _ in range(count)) for count in held[number].tolist()]
    return held
