"""Generated mixes of pods and node groups, from a seed: for comparing bills.

Families of pods: web, JVM, cache, batch, tiny and GPU. Types: AWS's c, m and r of 2 to 32 vCPU in five generations and g4dn,
on-demand in us-east-1 (https://aws.amazon.com/ec2/pricing/on-demand/: c5 0.0425, m5 0.048, r5 0.063 USD for a vCPU and hour;
c6i as c5, c6a 0.9, c7i 1.05 and c7a 1.207 times as much), on spot at 0.28 to 0.45 of that, by type and zone. Each node gives
GKE's kube-reserved and 100 MiB for eviction (https://cloud.google.com/kubernetes-engine/docs/concepts/plan-node-sizes) and
runs three DaemonSets. Amounts are milliCPU, bytes, pods and GPUs in this order.
"""

import random
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, Literal

import numpy as np
from msgspec import structs

from slackwater.controllers.scaleup.groups import GrowableGroup, Template
from slackwater.model.columns import Int64, Mask
from slackwater.model.ids import NodeName
from slackwater.model.nodegroups import GroupName, NodeGroup
from slackwater.model.objects import Pod, Taint
from slackwater.model.pod_constraints import Kind, PodConstraints, PodTerm, SpreadConstraint, Toleration
from slackwater.model.prices import Price
from slackwater.model.resources import amounts_of
from slackwater.model.selectors import Requirement
from slackwater.snapshot.node_facts import HOSTNAME
from tests.bench.simulation.inputs import GIB, ZONE, a_node, a_pod

_MIB: Final = 1 << 20
_GPU: Final = "nvidia.com/gpu"
_CAPACITY_TYPE: Final = "karpenter.sh/capacity-type"
_DAEMONS: Final = ((100, 128 * _MIB), (50, 64 * _MIB), (200, 300 * _MIB))
_ANY_TAINT: Final = (Toleration("", "Exists", "", ""),)
#: The most nodes of a variant without a limit.
UNLIMITED: Final = 10_000
#: Family: micros for a vCPU and hour, GiB for a vCPU.
_FAMILIES: Final = {"c": (42_500, 2), "m": (48_000, 4), "r": (63_000, 8)}
_GENERATIONS: Final = {"5": 1.0, "6i": 1.0, "6a": 0.9, "7i": 1.05, "7a": 1.207}
_SIZES: Final = (2, 4, 8, 16, 32)
#: vCPU, GiB, GPUs, micros an hour.
_G4DN: Final = ((4, 16, 1, 526_000), (8, 32, 1, 752_000), (16, 64, 1, 1_204_000), (48, 192, 4, 3_912_000))
#: Family of pods: milliCPU and MiB from which each workload draws.
WORKLOADS: Final = {
    "web": ((100, 200, 250, 500), (128, 256, 512)),
    "jvm": ((500, 1000, 2000), (2048, 3072, 4096, 6144, 8192)),
    "cache": ((250, 500, 1000), (4096, 8192, 13_312, 16_384, 26_624)),
    "batch": ((1000, 2000, 3500, 4000, 7000), (1024, 2048, 4096, 7168)),
    "tiny": ((10, 20, 50), (16, 32, 64)),
    "gpu": ((1000, 3000, 6000), (4096, 12_288, 24_576)),
}
#: milliCPU and MiB of each Deployment of the burst.
_BURST: Final = (
    (250, 256), (250, 960), (500, 960), (500, 3840), (500, 256), (750, 2880), (1000, 960), (1000, 2880), (1000, 7680),
    (1500, 2880), (1500, 704), (2000, 11_456), (2000, 1920), (2500, 2368), (3000, 11_456), (4000, 1920), (4000, 7680),
    (6000, 5760), (8000, 15_296), (9990, 9536),
)  # fmt: skip
#: What makes a mix hard beside its sizes; plain twice as often.
Trait = Literal["plain", "selectors", "limits", "apart", "spread"]
TRAITS: Final[tuple[Trait, ...]] = ("plain", "plain", "selectors", "limits", "apart", "spread")


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One type in a zone as a capacity type. `amounts`: what a new node has for pods, its DaemonSets taken off. `price`: micros
    an hour."""

    name: str
    allocatable: tuple[int, int, int, int]
    zone: str
    spot: bool
    price: int
    most: int = UNLIMITED
    daemons: tuple[tuple[int, int], ...] = _DAEMONS

    @property
    def amounts(self) -> tuple[int, int, int, int]:
        cpu, memory, pods, gpus = self.allocatable
        daemons = sum(cpu for cpu, _ in self.daemons), sum(memory for _, memory in self.daemons)
        return cpu - daemons[0], memory - daemons[1], pods - len(self.daemons), gpus

    def group(self) -> GrowableGroup:
        name, (cpu, memory, pods, gpus) = NodeName(self.name), self.allocatable
        labels = {HOSTNAME: name, ZONE: self.zone, _CAPACITY_TYPE: "spot" if self.spot else "on-demand"}
        scalars = (("pods", pods), *(((_GPU, gpus),) if gpus else ()))
        taints = (Taint(key=_GPU, value="present", effect="NoSchedule"),) if gpus else ()
        amounts = amounts_of((cpu, memory))
        node = structs.replace(a_node(0), name=name, allocatable=amounts, labels=labels, scalars=scalars, taints=taints)
        kinds = [Kind(namespace="kube-system", requests=amounts_of(each), tolerations=_ANY_TAINT) for each in self.daemons]
        daemons = [a_pod(f"daemon-{at}", kind, f"daemon-{at}") for at, kind in enumerate(kinds)]
        group = NodeGroup(name=GroupName(name), provider="kwok", min_size=0, max_size=self.most, target=0, instances=())
        price = Price(micros=self.price, currency="USD", basis="table")
        return GrowableGroup(group=group, template=Template(node=node, running_pods=tuple(daemons)), price=price)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Equal pods. `zone`, `on_demand`: what they select. `apart`: none beside another on a node. `spread`: over zones."""

    amounts: tuple[int, int, int, int]
    count: int
    zone: str = ""
    on_demand: bool = False
    apart: bool = False
    spread: bool = False
    priority: int = 0

    def takes(self, variant: Variant) -> bool:
        """A node of the variant takes a pod: by room, selectors and taint."""
        fits = all(asked <= has for asked, has in zip(self.amounts, variant.amounts, strict=True))
        selected = self.zone in {"", variant.zone} and not (self.on_demand and variant.spot)
        return fits and selected and bool(self.amounts[3]) >= bool(variant.amounts[3])

    def pods(self, app: str) -> list[Pod]:
        cpu, memory, _, gpus = self.amounts
        own = (Requirement("app", "In", (app,)),)
        apart = (PodTerm(topology_key=HOSTNAME, selector=own, namespaces=("default",)),) if self.apart else ()
        spread = (SpreadConstraint(hard=True, max_skew=1, topology_key=ZONE, selector=own),) if self.spread else ()
        scalars = ((_GPU, gpus),) if gpus else ()
        asks = PodConstraints(anti_affinity=apart, spread=spread, scalars=scalars) if apart or spread or gpus else None
        selector = ((ZONE, self.zone),) if self.zone else ()
        kind = Kind(
            namespace="default",
            requests=amounts_of((cpu, memory)),
            node_selector=selector + (((_CAPACITY_TYPE, "on-demand"),) if self.on_demand else ()),
            tolerations=(Toleration(_GPU, "Exists", "", ""),) if gpus else (),
            pod_constraints=asks,
        )
        return [structs.replace(a_pod(f"{app}-{at}", kind, app), priority=self.priority) for at in range(self.count)]


@dataclass(frozen=True, kw_only=True)
class Mix:
    """What is asked and what is offered. `family`: of most pods. Arrays: what a pod takes, shape (workloads, 4); what a node
    has, shape (variants, 4); whether a node takes a pod, shape (variants, workloads)."""

    seed: int
    family: str
    trait: Trait
    workloads: tuple[Workload, ...]
    variants: tuple[Variant, ...]

    @cached_property
    def asked(self) -> Int64:
        return np.array([each.amounts for each in self.workloads], np.int64)

    @cached_property
    def offered(self) -> Int64:
        return np.array([each.amounts for each in self.variants], np.int64)

    @cached_property
    def takes(self) -> Mask:
        return np.array([[workload.takes(variant) for workload in self.workloads] for variant in self.variants])

    @cached_property
    def prices(self) -> Int64:
        return np.array([each.price for each in self.variants], np.int64)

    def pods(self) -> list[Pod]:
        return [pod for at, workload in enumerate(self.workloads) for pod in workload.pods(f"app-{at}")]


def mix(seed: int) -> Mix:
    """The mix of a seed: 60 to 2,000 pods, 5 to 400 variants in 1 to 3 zones."""
    draw = random.Random(seed)
    trait = draw.choice(TRAITS)
    family = draw.choice(tuple(WORKLOADS))
    zones = 3 if trait == "spread" else draw.randint(1, 3)
    count = draw.choice((5, 15, 30, 60, 120, 400))
    variants = variants_of(draw, zones, count, gpus=family == "gpu", spot=count > 60 or draw.random() < 0.5)
    workloads = tuple(_workloads(draw, family, trait, variants, draw.choice((60, 200, 500, 1000, 2000))))
    if trait == "limits":  # the cheapest for its CPU have few nodes
        cheapest = sorted(variants, key=lambda each: (each.price / each.allocatable[0], each.name))[: len(variants) // 3]
        plain = [each for each in variants if each.allocatable[3] == 0]
        few = {each.name for each in cheapest if each in plain}
        few -= {plain[0].name} if len(few) == len(plain) else set()
        variants = tuple(replace(each, most=draw.randint(1, 6)) if each.name in few else each for each in variants)
    return Mix(seed=seed, family=family, trait=trait, workloads=workloads, variants=variants)


def burst() -> Mix:
    """1,000 pods of 20 Deployments, 2,512 CPU and 4,475 GiB together, on the 33 types of 2 to 256 CPU of Karpenter's kwok
    provider 1.13 (kwok/cloudprovider: 25 mils for a CPU and 1 for a GB, 100m and 10Mi reserved, no DaemonSets)."""
    sizes = (2, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256)
    variants = [
        Variant(
            name=f"{family}-{cpu}x",
            zone="z0",
            spot=False,
            daemons=(),
            price=25_000 * cpu + cpu * gib * GIB // 10**6,
            allocatable=(1000 * cpu - 100, cpu * gib * GIB - 10 * _MIB, min(16 * cpu, 1024), 0),
        )
        for cpu in sizes
        for family, gib in (("c", 2), ("s", 4), ("m", 8))
    ]
    workloads = tuple(Workload(amounts=(cpu, mib * _MIB, 1, 0), count=50) for cpu, mib in _BURST)
    return Mix(seed=0, family="burst", trait="plain", workloads=workloads, variants=tuple(variants))


def _workloads(draw: random.Random, family: str, trait: Trait, variants: tuple[Variant, ...], pods: int) -> list[Workload]:
    names = [name for name in WORKLOADS if name != "gpu" or family == "gpu"]
    weights = [1.5 if name == family else 0.5 * draw.random() for name in names]
    zones = sorted({variant.zone for variant in variants})
    found: list[Workload] = []
    largest = min(pods // 4, 60)
    while pods:
        cpus, memories = WORKLOADS[(name := draw.choices(names, weights)[0])]
        amounts = (draw.choice(cpus), draw.choice(memories) * _MIB, 1, draw.choice((1, 1, 1, 2)) if name == "gpu" else 0)
        special = draw.random() < 0.3
        workload = Workload(
            amounts=amounts,
            count=min(pods, draw.randint(1, largest)),
            zone=draw.choice(zones) if special and trait == "selectors" else "",
            on_demand=trait == "selectors" and draw.random() < 0.2,
            apart=special and trait == "apart",
            spread=special and trait == "spread",
            priority=draw.choice((0, 1000)) if trait == "limits" else 0,
        )
        able = [variant for variant in variants if workload.takes(variant)]
        if len({variant.zone for variant in able}) >= (len(zones) if workload.spread else 1):
            found.append(workload)
            pods -= workload.count
    return found


def variants_of(draw: random.Random, zones: int, count: int, *, gpus: bool, spot: bool) -> tuple[Variant, ...]:
    """So many of all, among them the largest m5 and, if asked, the smallest and the largest g4dn, on-demand in each zone."""
    all_of = [
        (f"{family}{generation}-{cpu}", cpu, cpu * gib, 0, cpu * micros * factor)
        for generation, factor in _GENERATIONS.items()
        for family, (micros, gib) in _FAMILIES.items()
        for cpu in _SIZES
    ]
    all_of += [(f"g4dn-{cpu}", cpu, gib, gpu, float(micros)) for cpu, gib, gpu, micros in _G4DN if gpus]
    made = []
    for name, cpu, gib, gpu, micros in all_of:
        for zone in range(zones):
            for on_spot in (False, True)[: 1 + spot]:
                price = round(micros * (draw.uniform(0.28, 0.45) if on_spot else 1))
                made.append(
                    Variant(
                        name=f"{name}-z{zone}{'-spot' if on_spot else ''}",
                        allocatable=(*_allocatable(cpu, gib), 29 if cpu == 2 else 58 if cpu <= 8 else 110, gpu),
                        zone=f"z{zone}",
                        spot=on_spot,
                        price=price,
                    )
                )
    needed = ("m5-32", *(("g4dn-4", "g4dn-48") if gpus else ()))
    first = [each for each in made if not each.spot and each.name.rsplit("-", 1)[0] in needed]
    rest = [each for each in made if each not in first]
    return tuple(first + draw.sample(rest, min(max(count - len(first), 0), len(rest))))


def _allocatable(cpu: int, gib: int) -> tuple[int, int]:
    """GKE: 6 % of the first core, 1 % of the second, 0.5 % of the next two, 0.25 % of the others; 25 % of the first 4 GiB, 20 %
    of the next 4, 10 % of the next 8, 6 % of the next 112, 2 % of the others; and 100 MiB."""
    reserved = 60 + 10 * (cpu > 1) + 5 * min(max(cpu - 2, 0), 2) + 5 * max(cpu - 4, 0) // 2
    parts = ((4, 25), (4, 20), (8, 10), (112, 6), (10**6, 2))
    percent, left = 0, gib
    for size, share in parts:
        percent += share * min(left, size)
        left -= min(left, size)
    return 1000 * cpu - reserved, gib * GIB - percent * GIB // 100 - 100 * _MIB
