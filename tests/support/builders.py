"""Short ways to say what a test is about; everything not said has a value that does not matter."""

from collections.abc import Iterable
from itertools import count

from slackwater.model.changes import Changes, NodeChange, PodChange
from slackwater.model.ids import Generation, NodeName, PodKey, PodUid, UnixTime
from slackwater.model.objects import DisruptionBudget, Node, Pod, Taint
from slackwater.model.pod_constraints import Kind, Toleration
from slackwater.model.resources import NOTHING, Amounts
from slackwater.model.vertical import Phase, Vertical, VirtualMachineMigration
from slackwater_protocol.units import byte_count, milli_cpu

_versions = count(1)


def amounts(cpu: str = "0", memory: str = "0") -> Amounts:
    return Amounts(milli_cpu(cpu), byte_count(memory))


def a_vertical(
    *,
    using: Amounts | None = None,
    minimum: Amounts = NOTHING,
    maximum: Amounts | None = None,
    scaling: bool = True,
    auto_migrate: bool = False,
    always_migrate: bool = False,
    machine: str | None = "vm",
    permit: str | None = None,
    slot_bytes: int = 1 << 30,
) -> Vertical:
    """A virtual machine that uses 1 CPU and 4 GiB of at most 4 and 16."""
    return Vertical(
        min=minimum,
        max=amounts("4", "16Gi") if maximum is None else maximum,
        using=amounts("1", "4Gi") if using is None else using,
        slot_bytes=slot_bytes,
        scaling=scaling,
        auto_migrate=auto_migrate,
        always_migrate=always_migrate,
        machine=machine,
        permit=permit,
    )


def a_node(
    name: str,
    *,
    cpu: str = "4",
    memory: str = "16Gi",
    labels: dict[str, str] | None = None,
    taints: Iterable[Taint] = (),
    unschedulable: bool = False,
    provider_id: str = "",
    ready: bool = True,
    created_at: float | None = None,
) -> Node:
    return Node(
        name=NodeName(name),
        uid=f"node-{name}",
        resource_version=next(_versions),
        allocatable=amounts(cpu, memory),
        labels=labels or {},
        taints=tuple(taints),
        unschedulable=unschedulable,
        ready=ready,
        provider_id=provider_id,
        created_at=None if created_at is None else UnixTime(created_at),
    )


def a_pod(
    name: str,
    *,
    on: str | None = None,
    cpu: str = "500m",
    memory: str = "1Gi",
    uid: str | None = None,
    namespace: str = "default",
    version: int | None = None,
    ended: bool = False,
    deleting: bool = False,
    priority: int = 0,
    started_at: str = "",
    labels: dict[str, str] | None = None,
    message: str | None = None,
    missing_request: str | None = None,
    node_selector: dict[str, str] | None = None,
    tolerations: Iterable[Toleration] = (),
) -> Pod:
    return Pod(
        uid=PodUid(uid or f"uid-{name}"),
        key=PodKey(namespace, name),
        resource_version=next(_versions) if version is None else version,
        labels=tuple(sorted((labels or {}).items())),
        kind=Kind(
            namespace=namespace,
            requests=amounts(cpu, memory),
            node_selector=tuple(sorted((node_selector or {}).items())),
            tolerations=tuple(tolerations),
            scheduler_name="slackwater",
            missing_request=missing_request,
        ),
        node=None if on is None else NodeName(on),
        ended=ended,
        deleting=deleting,
        priority=priority,
        created_at="2026-01-01T00:00:00Z",
        started_at=started_at,
        nominated_node=None,
        unschedulable_message=message,
    )


def a_budget(name: str, *, allowed: int, namespace: str = "default", **labels: str) -> DisruptionBudget:
    from slackwater.model.selectors import Requirement

    return DisruptionBudget(
        namespace=namespace,
        name=name,
        uid=f"pdb-{name}",
        resource_version=next(_versions),
        selector=tuple(Requirement(key, "In", (value,)) for key, value in sorted(labels.items())),
        disruptions_allowed=allowed,
    )


def a_migration(
    key: PodKey, machine: str, pod: str, target_node: NodeName | None = None, *, phase: Phase = "", target_pod: str = ""
) -> VirtualMachineMigration:
    """A migration of a virtual machine's pod. It counts as created by us if it has a target node."""
    return VirtualMachineMigration(
        key=key,
        uid=f"uid-{key.name}",
        resource_version=0,
        machine=machine,
        phase=phase,
        ours=target_node is not None,
        deleting=False,
        source_pod=pod,
        target_pod=target_pod,
        target_node=target_node,
    )


def a_migration_to_n2(phase: Phase) -> VirtualMachineMigration:
    """A migration of pod shop/vm-1 to node n2, where its pod is shop/vm-2."""
    return a_migration(PodKey("shop", "m"), "vm", "vm-1", NodeName("n2"), phase=phase, target_pod="vm-2")


def whole_cluster(nodes: Iterable[Node], pods: Iterable[Pod]) -> Changes:
    """Changes that contain a whole cluster."""
    return Changes(
        generation=Generation(0),
        nodes=[NodeChange(node.name, node) for node in nodes],
        pods=[PodChange(pod.uid, None if pod.ended else pod) for pod in pods],
    )
