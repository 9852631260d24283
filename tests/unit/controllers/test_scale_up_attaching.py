"""New nodes attach as many volumes as the group's nodes do, or as the template says."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from msgspec import structs

from slackwater.controllers.scaleup.groups import GrowableGroup
from slackwater.controllers.scaleup.plan import plan_scale_up
from slackwater.controllers.scaleup.template import usual_csi
from slackwater.model.nodegroups import read_attach_limits
from slackwater.model.objects import Node, Pod
from slackwater.model.pod_constraints import ClaimMount, InlineDisk, Kind, PodConstraints
from slackwater.model.storage import Claim, CsiNode, Storage, StorageClass
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from tests.support import installed
from tests.support.builders import a_node, a_pod, amounts
from tests.support.scalingup import a_group, a_template, demand_of, grown

DRIVER = "ebs.csi.aws.com"
LATE = StorageClass(name="late", provisioner=DRIVER, binding_mode="WaitForFirstConsumer")


def csi(*limits: int | None, driver: str = DRIVER, migrated: Sequence[str] = ()) -> list[CsiNode]:
    return [CsiNode(name="n", drivers=((driver, limit),), migrated=tuple(migrated)) for limit in limits]


def with_claim(number: int) -> Pod:
    asks = PodConstraints(claims=(ClaimMount(f"c{number}"),))
    return structs.replace(a_pod(f"p{number}"), kind=Kind(namespace="default", requests=amounts("10m"), pod_constraints=asks))


def with_disk(number: int) -> Pod:
    asks = PodConstraints(inline_disks=(InlineDisk(plugin="kubernetes.io/cinder", driver=DRIVER, handle=f"h{number}"),))
    return structs.replace(a_pod(f"p{number}"), kind=Kind(namespace="default", requests=amounts("10m"), pod_constraints=asks))


def planned(pods: list[Pod], group: GrowableGroup, nodes: Sequence[Node] = ()) -> dict[str, int]:
    claims = [
        Claim(namespace="default", name=f"c{number}", uid=f"u{number}", storage_class="late") for number in range(len(pods))
    ]
    storage = Storage(
        claims={("default", claim.name): claim for claim in claims}, volumes={}, classes={"late": LATE}, csi_nodes={}
    )
    snapshot = ClusterSnapshot.build(nodes, pods, storage=storage)
    with snapshot.fork():
        return grown(plan_scale_up(snapshot, demand_of(pods), [group], policy=installed.SCALE_UP, clock=lambda: 0.0))


def limited(limit: int | None, *, upcoming: int = 0) -> GrowableGroup:
    group = a_group("g", a_template("t", cpu="4"), upcoming=upcoming)
    assert group.template is not None
    node = structs.replace(group.template.node, csi=usual_csi(csi(limit), None))
    return replace(group, template=replace(group.template, node=node))


@pytest.mark.parametrize("kind", [with_claim, with_disk])
def test_twenty_pods_with_a_volume_need_four_nodes_that_attach_five(kind: object) -> None:
    pods = [kind(number) for number in range(20)]  # type: ignore[operator]
    assert planned(pods, limited(5)) == {"g": 4}
    assert planned(pods, limited(None)) == {"g": 1}


def test_nodes_on_their_way_attach_no_more_than_others() -> None:
    pods = [with_claim(number) for number in range(20)]
    assert planned(pods, limited(5, upcoming=1)) == {"g": 3}


def test_a_node_that_exists_and_reports_nothing_has_no_limit() -> None:
    """As for kube-scheduler."""
    there = structs.replace(a_node("n", cpu="4"), scalars=(("pods", 110),))
    assert planned([with_claim(number) for number in range(20)], limited(5), [there]) == {}


@pytest.mark.parametrize(
    ("reported", "want"),
    [((25, 25, 3), 25), ((25, 3), 3), ((None, 25), 25), ((None, None, 25), None)],
    ids=["most", "tie", "tie with none", "most have none"],
)
def test_the_limit_that_most_nodes_report_counts(reported: tuple[int | None, ...], want: int | None) -> None:
    assert usual_csi(csi(*reported), None) == CsiNode(name="", drivers=((DRIVER, want),))


def test_a_driver_that_no_node_reports_counts_as_the_provider_says() -> None:
    said = read_attach_limits(f"{DRIVER}=5, efs.csi.aws.com")
    assert usual_csi(csi(25), said) == CsiNode(name="", drivers=((DRIVER, 25), ("efs.csi.aws.com", None)))
    assert usual_csi([], said) == CsiNode(name="", drivers=((DRIVER, 5), ("efs.csi.aws.com", None)))
    assert usual_csi([], None) is None


def test_plug_ins_that_most_nodes_have_handed_to_csi_are_handed_over() -> None:
    both = [*csi(1, 1, migrated=["kubernetes.io/aws-ebs"]), *csi(1)]
    assert (usual_csi(both, None) or CsiNode(name="", drivers=())).migrated == ("kubernetes.io/aws-ebs",)
