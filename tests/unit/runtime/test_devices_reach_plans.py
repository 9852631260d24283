"""Devices on their way from the API server to a plan: watched, handed out once they change, sent to the planning process."""

import json
from dataclasses import replace

from msgspec import structs

from slackwater.adapters.kube.auxiliary import auxiliary
from slackwater.cluster.nodegroups.status import BoughtNode, NodeGroupStatus
from slackwater.controllers.loop_plans import Inquiry, PlanMaker, ScaleUpRules
from slackwater.fit.feasible_nodes import feasible
from slackwater.model.auxiliary import DEVICE_KINDS, AuxiliaryGone, AuxiliaryKey, AuxiliaryKind, AuxiliarySeen
from slackwater.model.changes import Changes
from slackwater.model.devices import template_slice
from slackwater.model.ids import UnixTime
from slackwater.model.kubernetes_rules import KubernetesVersion
from slackwater.model.objects import Node
from slackwater.model.pod_constraints import KindInterner
from slackwater.runtime.auxiliary_intake import AuxiliaryIntake
from slackwater.runtime.planner.messages import FRAMED_TYPES
from slackwater.runtime.planner.value_frames import Decoder, Encoder
from slackwater.snapshot.equivalence_groups import KindId
from slackwater.snapshot.snapshot_replica import SnapshotReplica
from tests.support import installed
from tests.support.builders import a_node, whole_cluster
from tests.support.devices import (
    DRIVER,
    Obj,
    ask,
    claim_body,
    class_body,
    cluster_of,
    devices_of,
    gpus,
    node_body,
    pod_body,
    taint_rule_body,
    template_body,
)
from tests.support.nodegroups import a_group


def broken(resource: str, name: str, error: Exception) -> None:
    raise AssertionError(f"{resource} {name}: {error}")


#: The first version that reads DeviceTaintRules.
NEWEST = KubernetesVersion.parse("1.37")
TYPES = {resource.name: resource for resource in auxiliary(KindInterner(), broken, kubernetes=NEWEST)}


def seen(kind: AuxiliaryKind, body: Obj) -> AuxiliarySeen:
    meta = {"uid": f"{kind}-uid", "resourceVersion": "7", **body["metadata"]}
    event = TYPES[kind].decode(json.dumps({**body, "metadata": meta}).encode()).event
    assert isinstance(event, AuxiliarySeen)
    return event


def an_intake() -> AuxiliaryIntake:
    kinds: list[AuxiliaryKind] = ["namespaces", "persistentvolumeclaims", *sorted(DEVICE_KINDS)]
    intake = AuxiliaryIntake(dict.fromkeys(kinds, None))  # type: ignore[arg-type]  # nothing is drained here
    intake.take(seen("resourceslices", gpus("a", 2)))
    intake.take(seen("deviceclasses", class_body()))
    intake.take(seen("resourceclaims", claim_body("mine", devices_of(ask(2)))))
    intake.take(seen("resourceclaimtemplates", template_body(devices_of(ask(1)))))
    return intake


def test_devices_are_sent_when_they_change_and_alone() -> None:
    intake = an_intake()
    reader = intake.reader()
    first = reader.changes().devices
    assert first is not None
    assert (set(first.slices), set(first.classes)) == ({"slice-of-a"}, {"gpu"})
    assert (set(first.claims), set(first.templates)) == ({("default", "mine")}, {("default", "template")})
    assert reader.changes().devices is None
    intake.take(AuxiliaryGone("resourceclaims", AuxiliaryKey("default", "mine")))
    later = reader.changes()
    assert later.devices is not None
    assert later.devices.claims == {}
    assert (later.storage, later.namespaces) == (None, None)


def test_the_planning_process_judges_claims_by_the_devices_that_it_was_sent() -> None:
    cluster = cluster_of(node_body("a"), node_body("b"), pod_body("p", "mine"))
    changes = replace(whole_cluster(cluster.nodes, cluster.pods), devices=an_intake().reader().changes().devices)
    decoder, arrived = Decoder(), None
    for frame in Encoder(FRAMED_TYPES).frames(changes):
        arrived = decoder.take(frame)
    assert arrived is not None
    replica = SnapshotReplica()
    sent = arrived.value
    assert isinstance(sent, Changes)
    replica.take(sent)
    assert fitting(replica) == ["a"]
    taken = claim_body("other", devices_of(ask(1)), "a/gpu-0", node="a", users=["someone"])
    intake = an_intake()
    reader = intake.reader()
    intake.take(seen("resourceclaims", taken))
    replica.take(replace(whole_cluster((), ()), devices=reader.changes().devices))
    assert fitting(replica) == []


def test_a_taint_rule_reaches_plans_when_it_appears_and_goes() -> None:
    cluster, intake, replica = cluster_of(node_body("a"), pod_body("p", "mine")), an_intake(), SnapshotReplica()
    reader = intake.reader()
    replica.take(replace(whole_cluster(cluster.nodes, cluster.pods), devices=reader.changes().devices))
    assert fitting(replica) == ["a"]
    intake.take(seen("devicetaintrules", taint_rule_body("broken", pool="a")))
    replica.take(replace(whole_cluster((), ()), devices=reader.changes().devices))
    assert fitting(replica) == []
    intake.take(AuxiliaryGone("devicetaintrules", AuxiliaryKey("", "broken")))
    replica.take(replace(whole_cluster((), ()), devices=reader.changes().devices))
    assert fitting(replica) == ["a"]


def fitting(replica: SnapshotReplica) -> list[str]:
    """The nodes that the only pending pod fits on."""
    (pod,) = replica.pending.values()
    kind: KindId = replica.snapshot.kind_id(pod.kind, pod.labels)
    return [replica.snapshot.facts.nodes[row].name for row in feasible(replica.snapshot, kind).rows.tolist()]


def test_machines_that_came_without_their_devices_are_not_bought_again_for_them() -> None:
    promised = structs.replace(a_node("template", cpu="8"), slices=(template_slice(DRIVER, 2),), scalars=(("pods", 110),))
    group = replace(a_group("a"), template=promised)
    came = a_node("a-1", cpu="8", created_at=1000.0)
    status = NodeGroupStatus(
        group=group, known=True, ready=(), unready=(), starting=(), coming=0, missing=0, lost=(), leaving=0
    )
    bought = replace(status, ready=(came.name,), bought=(BoughtNode(node=came),))
    gone = replace(status, bought=(BoughtNode(node=came, there=False),))
    cluster, planner = (
        cluster_of(pod_body("p", "mine"), class_body(), claim_body("mine", devices_of(ask(1)))),
        PlanMaker(lambda: 0.0),
    )
    rules = ScaleUpRules(policy=replace(installed.SCALE_UP, pending=replace(installed.PENDING, after_scheduler=False)))

    def new_nodes(status: NodeGroupStatus, *nodes: Node) -> int:
        changes = replace(whole_cluster(nodes, cluster.pods), devices=cluster.devices)
        planner.forget()
        asked = Inquiry(changes=changes, rules=rules, group_status={group.name: status}, now=UnixTime(2e9))
        return sum(scale_up.count for scale_up in planner.make(asked).scale_ups)

    assert [new_nodes(status), new_nodes(bought, came), new_nodes(gone)] == [1, 0, 0]
