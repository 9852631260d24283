"""Small clusters drawn at random in which every rule about other pods has a say: as values of the model, not as JSON.

Few nodes with room for a handful of pods each, few labels and topology values, so that rules meet one another all the time.
"""

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from msgspec import structs

from slackwater.model.ids import NodeName, PodKey, PodUid
from slackwater.model.objects import Labels, Node, Pod, Taint
from slackwater.model.pod_constraints import (
    ClaimMount,
    DiskMount,
    HostPort,
    InlineDisk,
    Kind,
    PodConstraints,
    PodTerm,
    SpreadConstraint,
    Toleration,
)
from slackwater.model.selectors import Requirement
from slackwater.model.storage import Claim, ClaimRef, CsiNode, Storage, StorageClass, Volume
from tests.support.builders import a_node, a_pod, amounts

HOSTNAME = "kubernetes.io/hostname"
_KEYS = st.sampled_from((HOSTNAME, "zone", "rack"))
_LABELS: st.SearchStrategy[Labels] = st.sampled_from(((), (("app", "a"),), (("app", "b"),), (("app", "a"), ("tier", "x"))))
_SELECTORS = st.sampled_from(
    (
        (Requirement("app", "In", ("a",)),),
        (Requirement("app", "In", ("b",)),),
        (Requirement("app", "Exists", ()),),
        (Requirement("tier", "DoesNotExist", ()),),
        (),
        None,
    )
)
_NAMESPACES = st.sampled_from(("default", "other"))
_TAINT = Taint("dedicated", "batch", "NoSchedule")
_TOLERATED = Toleration("dedicated", "Exists", "", "")
_CLAIMS = ("alone", "shared", "made", "zonal", "absent")


def _terms() -> st.SearchStrategy[PodTerm]:
    return st.builds(
        PodTerm,
        topology_key=_KEYS,
        selector=_SELECTORS,
        namespaces=st.sampled_from((("default",), ("default", "other"), ("other",))),
        namespace_selector=st.sampled_from((None, None, (), (Requirement("team", "In", ("x",)),))),
    )


def _spreads() -> st.SearchStrategy[SpreadConstraint]:
    return st.builds(
        SpreadConstraint,
        hard=st.sampled_from((True, True, True, False)),
        max_skew=st.integers(1, 2),
        topology_key=_KEYS,
        selector=_SELECTORS,
        min_domains=st.sampled_from((1, 1, 2, 3, 5)),
        honor_affinity=st.booleans(),
        honor_taints=st.booleans(),
    )


def _some(values: st.SearchStrategy[Any], most: int) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.one_of(st.just(()), st.just(()), st.lists(values, max_size=most, unique=True).map(tuple))


@st.composite
def _pod_constraints(draw: st.DrawFn) -> PodConstraints:
    ports = st.builds(HostPort, st.sampled_from(("0.0.0.0", "10.0.0.1")), st.just("TCP"), st.integers(80, 81))
    disks = st.builds(DiskMount, source=st.just("gce"), disk=st.just(("d",)), read_only=st.booleans())
    inline = st.builds(
        InlineDisk, plugin=st.just("kubernetes.io/cinder"), driver=st.just("csi"), handle=st.sampled_from(("1", "2"))
    )
    return PodConstraints(
        scalars=draw(st.sampled_from(((), (), (("example.com/gpu", 1),), (("example.com/gpu", 2),)))),
        host_ports=draw(_some(ports, 1)),
        spread=draw(_some(_spreads(), 3)),
        affinity=draw(_some(_terms(), 2)),
        anti_affinity=draw(_some(_terms(), 2)),
        claims=draw(_some(st.builds(ClaimMount, st.sampled_from(_CLAIMS)), 2)),
        disks=draw(_some(disks, 1)),
        inline_disks=draw(_some(inline, 1)),
    )


@st.composite
def kinds(draw: st.DrawFn) -> Kind:
    return Kind(
        namespace=draw(_NAMESPACES),
        requests=amounts(draw(st.sampled_from(("0", "1", "1", "2"))), draw(st.sampled_from(("0", "1Gi", "3Gi")))),
        node_selector=draw(st.sampled_from(((), (), (), (("zone", "z0"),)))),
        tolerations=draw(st.sampled_from(((), (_TOLERATED,)))),
        pod_constraints=draw(st.one_of(st.none(), _pod_constraints())),
    )


@st.composite
def _nodes(draw: st.DrawFn) -> list[Node]:
    made = []
    for number in range(draw(st.integers(1, 7))):
        labels = {HOSTNAME: f"n{number}", "zone": f"z{draw(st.integers(0, 2))}", "rack": f"r{draw(st.integers(0, 1))}"}
        for missing in draw(st.sampled_from(((), (), (), ("zone",), ("rack",), (HOSTNAME,)))):
            del labels[missing]
        node = a_node(
            f"n{number}",
            cpu=draw(st.sampled_from(("1", "4", "6"))),
            labels=labels,
            taints=draw(st.sampled_from(((), (), (), (_TAINT,)))),
            unschedulable=draw(st.sampled_from((False, False, False, True))),
        )
        scalars = (("example.com/gpu", draw(st.integers(0, 3))), ("pods", draw(st.integers(0, 6))))
        made.append(structs.replace(node, scalars=scalars))
    return made


def _storage(nodes: list[Node]) -> Storage:
    late = StorageClass(name="late", provisioner="csi", binding_mode="WaitForFirstConsumer")
    zonal = StorageClass(
        name="zonal", provisioner="csi", binding_mode="WaitForFirstConsumer", topologies=((("zone", ("z0", "z1")),),)
    )
    made: dict[str, Any] = {"storage_class": "late", "size": 5}
    claims = [
        Claim(namespace="default", name="alone", volume="v0", bound=True, access_modes=("ReadWriteOncePod",)),
        Claim(namespace="default", name="shared", uid="s", storage_class="late", size=5),
        Claim(namespace="default", name="made", uid="m", **made),
        Claim(namespace="default", name="zonal", uid="z", storage_class="zonal", size=1),
    ]
    volumes = [
        Volume(
            name="v0", labels={}, phase="Bound", claim=ClaimRef(namespace="default", name="alone"), driver="csi", handle="0"
        ),
        Volume(name="v1", labels={}, storage_class="late", phase="Available", capacity=7, driver="csi", handle="1"),
    ]
    return Storage(
        claims={(claim.namespace, claim.name): claim for claim in claims},
        volumes={volume.name: volume for volume in volumes},
        classes={"late": late, "zonal": zonal},
        csi_nodes={node.name: CsiNode(name=node.name, drivers=(("csi", 1 + n % 2),)) for n, node in enumerate(nodes)},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallCluster:
    """`standing` pods are on nodes, `pending` ones are not; pods of one kind often come in a row."""

    nodes: list[Node]
    running_pods: list[Pod]
    pending: list[Pod]
    storage: Storage


@st.composite
def small_clusters(draw: st.DrawFn, *, most_running: int = 6) -> SmallCluster:
    nodes = draw(_nodes())
    known = draw(st.lists(kinds(), min_size=1, max_size=4))
    one = st.tuples(st.sampled_from(known), _LABELS)
    on = st.sampled_from([node.name for node in nodes])
    running_pods = [pod(f"s{n}", *draw(one), on=draw(on)) for n in range(draw(st.integers(0, most_running)))]
    runs = draw(st.lists(st.tuples(one, st.integers(1, 5)), min_size=1, max_size=6))
    pending = [what for what, count in runs for _ in range(count)]
    return SmallCluster(
        nodes=nodes,
        running_pods=running_pods,
        pending=[pod(f"p{n}", *what) for n, what in enumerate(pending)],
        storage=_storage(nodes),
    )


def pod(name: str, kind: Kind, labels: Labels, *, on: NodeName | None = None, priority: int = 0) -> Pod:
    return structs.replace(
        a_pod(name, on=on, priority=priority),
        uid=PodUid(f"uid-{name}"),
        key=PodKey(kind.namespace, name),
        kind=kind,
        labels=labels,
    )
