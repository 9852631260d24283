"""Pods with volumes: plans of growth and of removals where thousands of claims are bound, and where claims wait for a node."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from msgspec import structs

from slackwater.controllers.scaleup.groups import GrowableGroup, Template
from slackwater.controllers.scaleup.pending import pending_demand
from slackwater.controllers.scaleup.plan import plan_scale_up
from slackwater.model.ids import NodeName, UnixTime
from slackwater.model.nodegroups import GroupName, NodeGroup
from slackwater.model.objects import Node, Pod
from slackwater.model.pod_constraints import ClaimMount, Kind, NodeSelectorTerm, PodConstraints
from slackwater.model.resources import amounts_of
from slackwater.model.selectors import Requirement
from slackwater.model.storage import Claim, ClaimRef, CsiNode, Storage, StorageClass, Volume
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.node_facts import HOSTNAME
from tests.bench.simulation.case import Case, Outcome
from tests.bench.simulation.inputs import GIB, ZONE, a_node, a_pod
from tests.bench.simulation.removal import removal
from tests.support import installed

_NOW: Final = UnixTime(1.8e9)
_DRIVER: Final = "ebs.csi.aws.com"
_LIMIT: Final = 25
_RULES: Final = replace(installed.PENDING, after_scheduler=False)
_CPU: Final = 32_000


def cases(quick: bool) -> Iterator[Case]:
    """`quick`: at a tenth of the size."""
    by = 10 if quick else 1
    nodes, bound, pending, each = 1000 // by, 10_000 // by, 200 // by, 8
    for full in (False, True):
        yield Case(
            name=f"plan: {pending:,} pending with a claim each, {bound:,} bound claims, {nodes:,} {'full ' * full}nodes",
            run=_scale_up(nodes, bound, pending, full=full),
            counted="nodes",
            want=-(-pending // _LIMIT) if full else 0,
            goal_seconds=1.0,
        )
    yield Case(
        name=f"plan: {pending:,} pending with a claim each for one of {5 * nodes:,} local volumes, {nodes:,} nodes",
        run=_local(nodes, pending),
        counted="nodes",
        want=0,
        goal_seconds=1.0,
    )
    yield Case(
        name=f"{nodes:,} nodes with {each} pods with a claim each: scale-down's whole plan",
        run=_removal(nodes, each),
        counted="nodes can go",
        goal_seconds=3.0,
    )


def _scale_up(nodes: int, bound: int, pending: int, *, full: bool) -> Callable[[], Outcome]:
    machines = [a_node(number) for number in range(nodes)]
    cpu = _CPU * nodes // bound if full else 400
    running = [_user(f"b-{number}", cpu, on=machines[number % nodes].name) for number in range(bound)]
    waiting = [_user(f"w-{number}", 1000) for number in range(pending)]
    return _planned(machines, running, waiting, _storage(machines, running, waiting))


def _planned(machines: list[Node], running: list[Pod], waiting: list[Pod], storage: Storage) -> Callable[[], Outcome]:
    """Counts the nodes of a plan, and the pods that it cannot help."""

    def run() -> Outcome:
        snapshot = ClusterSnapshot.build(machines, [*running, *waiting], storage=storage)
        began = time.perf_counter()
        with snapshot.fork():
            demand = pending_demand(waiting, rules=_RULES, now=_NOW)
            plan = plan_scale_up(snapshot, demand, [_group(machines[0])], policy=_POLICY, clock=time.perf_counter)
        return Outcome(seconds=time.perf_counter() - began, count=plan.n_nodes + len(plan.unhelpable))

    return run


_POLICY: Final = replace(installed.SCALE_UP, pending=_RULES, max_nodes_per_scale_up=0)


def _local(nodes: int, pending: int) -> Callable[[], Outcome]:
    """Every node has five volumes that no other node reaches, and no class makes any."""
    machines = [a_node(number) for number in range(nodes)]
    waiting = [_user(f"w-{number}", 1000) for number in range(pending)]
    there = [_local_volume(node, number) for node in machines for number in range(5)]
    local = StorageClass(name="ebs", provisioner="kubernetes.io/no-provisioner", binding_mode="WaitForFirstConsumer")
    storage = replace(
        _storage(machines, [], waiting), volumes={volume.name: volume for volume in there}, classes={local.name: local}
    )
    return _planned(machines, [], waiting, storage)


def _removal(nodes: int, each: int) -> Callable[[], Outcome]:
    machines = [a_node(number) for number in range(nodes)]
    running = [_user(f"b-{number}", 1000, on=machines[number % nodes].name) for number in range(nodes * each)]
    return removal(machines, running, storage=_storage(machines, running, []))


def _group(like: Node) -> GrowableGroup:
    csi = CsiNode(name="", drivers=((_DRIVER, _LIMIT),))
    node = structs.replace(like, name=NodeName("template"), labels={**like.labels, HOSTNAME: "template"}, csi=csi)
    group = NodeGroup(name=GroupName("a"), provider="bench", min_size=0, max_size=10_000, target=0, instances=())
    return GrowableGroup(group=group, template=Template(node=node))


def _user(claim: str, cpu: int, *, on: NodeName | None = None) -> Pod:
    """A pod with a claim of its own."""
    asks = PodConstraints(claims=(ClaimMount(claim),))
    return a_pod(f"of-{claim}", Kind(namespace="default", requests=amounts_of((cpu, GIB)), pod_constraints=asks), "db", node=on)


def _storage(machines: list[Node], running: list[Pod], waiting: list[Pod]) -> Storage:
    zone_of = {node.name: node.labels[ZONE] for node in machines}
    volumes = [_bound_volume(pod, zone_of[pod.node]) for pod in running if pod.node]
    claims = [_claim(pod, volume.name) for pod, volume in zip(running, volumes, strict=True)]
    claims += [_claim(pod, "") for pod in waiting]
    return Storage(
        claims={(claim.namespace, claim.name): claim for claim in claims},
        volumes={volume.name: volume for volume in volumes},
        classes={"ebs": StorageClass(name="ebs", provisioner=_DRIVER, binding_mode="WaitForFirstConsumer")},
        csi_nodes={node.name: CsiNode(name=node.name, drivers=((_DRIVER, _LIMIT),)) for node in machines},
        drivers={},
        capacities=(),
        attachments={},
    )


def _claim_of(pod: Pod) -> str:
    assert pod.kind.pod_constraints is not None
    return pod.kind.pod_constraints.claims[0].claim


def _claim(pod: Pod, volume: str) -> Claim:
    name = _claim_of(pod)
    return Claim(
        namespace="default",
        name=name,
        uid=f"uid-{name}",
        volume=volume,
        bound=bool(volume),
        storage_class="ebs",
        access_modes=("ReadWriteOnce",),
        size=10 * GIB,
    )


def _bound_volume(pod: Pod, zone: str) -> Volume:
    name = _claim_of(pod)
    return Volume(
        name=f"pv-{name}",
        labels={},
        storage_class="ebs",
        phase="Bound",
        capacity=10 * GIB,
        access_modes=("ReadWriteOnce",),
        claim=ClaimRef(namespace="default", name=name, uid=f"uid-{name}"),
        node_terms=(NodeSelectorTerm((Requirement(ZONE, "In", (zone,)),), ()),),
        driver=_DRIVER,
        handle=f"vol-{name}",
    )


def _local_volume(node: Node, number: int) -> Volume:
    return Volume(
        name=f"local-{node.name}-{number}",
        labels={},
        storage_class="ebs",
        phase="Available",
        capacity=(10 + number) * GIB,
        access_modes=("ReadWriteOnce",),
        node_terms=(NodeSelectorTerm((Requirement(HOSTNAME, "In", (node.name,)),), ()),),
    )
