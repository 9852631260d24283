"""New nodes that are not ready for pods yet, or never will be: nothing is bought twice, and nobody waits for them for ever.

The real loop, fleet and planner over a cloud on virtual time. Each pod takes a whole node, unless said otherwise.
"""

from collections.abc import Iterable
from dataclasses import replace

import pytest
from msgspec import structs

from slackwater.cluster.nodegroups.status import NodeGroupPolicy
from slackwater.model.nodegroups import GroupOptions
from slackwater.model.objects import Node, Pod, Taint
from slackwater.model.pod_constraints import PodConstraints, Toleration
from tests.support.builders import a_node, a_pod
from tests.support.cloud import Delays
from tests.support.scaling import Scenario

pytestmark = pytest.mark.anyio

GPU = "nvidia.com/gpu"
PROVISION = 900.0
CILIUM = Taint("node.cilium.io/agent-not-ready", "true", "NoExecute")
EBS = Taint("ebs.csi.aws.com/agent-not-ready", "", "NoSchedule")
FOREIGN = Taint("acme.example/booting", "", "NoSchedule")
REPAIR = Taint("maintenance", "", "NoSchedule")


def machine(*, cpu: str = "4", gpus: int = 0, taints: Iterable[Taint] = (), labels: dict[str, str] | None = None) -> Node:
    scalars = (("pods", 110), *([(GPU, gpus)] if gpus else []))
    return structs.replace(a_node("template", cpu=cpu, taints=list(taints), labels=labels), scalars=scalars)


def a_gpu_pod(name: str) -> Pod:
    pod = a_pod(name, cpu="4")
    return structs.replace(pod, kind=replace(pod.kind, pod_constraints=PodConstraints(scalars=((GPU, 1),))))


@pytest.mark.parametrize("size", [0, 3], ids=["from nothing", "beside others"])
@pytest.mark.parametrize("taint", [CILIUM, EBS, FOREIGN], ids=lambda taint: taint.key)
async def test_a_burst_is_requested_once_whatever_taint_new_nodes_begin_with(taint: Taint, size: int) -> None:
    scenario = Scenario()
    pool = scenario.cloud.has("a", size=size, template=machine())
    pool.delays = Delays(untainted_after=300.0)
    pool.startup_taints = (taint,)
    scenario.wants_many(size, tag="before")
    scenario.settle()
    await scenario.pass_time(400.0)  # those of before have started
    scenario.wants_many(20)
    await scenario.pass_time(400.0)
    assert (scenario.pending(), scenario.sizes()) == (0, {"a": size + 20})


async def test_upcoming_nodes_stay_counted_over_a_restart() -> None:
    scenario = Scenario()
    pool = scenario.cloud.has("a", size=3, template=machine())
    pool.template_known = False
    pool.delays = Delays(untainted_after=300.0)
    scenario.wants_many(3, tag="before")
    scenario.settle()
    await scenario.pass_time(400.0)
    pool.startup_taints = (FOREIGN,)
    scenario.wants_many(20)
    for _ in range(40):
        await scenario.pass_time(10.0)
        scenario.restart()
    assert (scenario.pending(), scenario.sizes()) == (0, {"a": 23})


async def test_pods_that_a_node_is_not_for_do_not_end_its_count_as_upcoming() -> None:
    """A Deployment that tolerates anything, such as an operator, is the first on every new node."""
    scenario = Scenario()
    pool = scenario.cloud.has("a", template=machine())
    pool.delays = Delays(untainted_after=300.0)
    pool.startup_taints = (FOREIGN,)
    scenario.wants_many(5, cpu="3")
    await scenario.loop()
    anything = [Toleration("", "Exists", "", "")]
    scenario.wants(*(a_pod(f"operator{number}", cpu="100m", tolerations=anything) for number in range(5)))
    await scenario.pass_time(400.0)
    assert (scenario.pending(), scenario.sizes()) == (0, {"a": 5})


async def test_a_device_without_a_template_is_known_from_the_groups_other_nodes() -> None:
    scenario = Scenario()
    pool = scenario.cloud.has("a", size=2, template=machine(gpus=1))
    pool.template_known = False
    scenario.wants(*(a_gpu_pod(f"before{number}") for number in range(2)))
    scenario.settle()
    await scenario.pass_time(200.0)
    pool.boot_outcome = lambda _: "bare"
    pool.delays = Delays(equipped_after=300.0)
    scenario.wants(*(a_gpu_pod(f"p{number}") for number in range(5)))
    await scenario.pass_time(400.0)
    assert (scenario.pending(), scenario.sizes()) == (0, {"a": 7})


async def test_a_taint_that_a_new_node_keeps_holds_up_its_pods_no_longer_than_its_time() -> None:
    scenario = Scenario()
    pool = scenario.cloud.has("a", size=3, template=machine())
    scenario.wants_many(3, tag="before")
    scenario.settle()
    await scenario.pass_time(60.0)
    pool.startup_taints, pool.delays = (FOREIGN,), Delays(untainted_after=1e9)
    scenario.wants_many(1)
    await scenario.pass_time(PROVISION)
    assert scenario.sizes() == {"a": 4}
    pool.startup_taints = ()
    await scenario.pass_time(200.0)
    assert (scenario.pending(), scenario.sizes()) == (0, {"a": 5})


async def test_one_node_under_repair_does_not_stop_its_group() -> None:
    class Repaired(Scenario):
        def shown(self, node: Node) -> Node:
            return structs.replace(node, taints=(*node.taints, REPAIR)) if node.name == "a-0000" else node

    for known in (True, False):
        scenario = Repaired()
        pool = scenario.cloud.has("a", size=20, template=machine())
        pool.template_known = known
        for old in pool.machines:
            old.asked_at -= 2 * PROVISION
        scenario.wants_many(19, tag="before")
        scenario.settle()
        scenario.wants_many(8)
        await scenario.pass_time(200.0)
        assert (scenario.pending(), scenario.sizes()) == (0, {"a": 28})


# --- places among those in creation -----------------------------------------------------------------------------------------


async def test_nodes_that_never_show_their_gpu_keep_no_place_and_an_event_reports_it() -> None:
    scenario = Scenario()
    scenario.cloud.has("gpus", template=machine(gpus=1, labels={"pool": "gpus"})).boot_outcome = lambda _: "bare"
    scenario.cloud.pool("gpus").delays = Delays(equipped_after=1e9)
    scenario.cloud.has("other", template=machine(labels={"pool": "other"}))
    scenario.wants(*(a_gpu_pod(f"g{number}") for number in range(150)))
    await scenario.loop()
    assert scenario.sizes() == {"gpus": 100, "other": 0}
    scenario.wants(*(a_pod(f"small{number}", cpu="1", node_selector={"pool": "gpus"}) for number in range(400)))
    await scenario.pass_time(300.0, every=30.0)
    assert scenario.pending() == 150, "the small ones run on the nodes without GPUs"
    scenario.wants(*(a_pod(f"urgent{number}", cpu="4", priority=1000, node_selector={"pool": "other"}) for number in range(5)))
    await scenario.pass_time(PROVISION, every=30.0)
    record = scenario.records[-1]
    assert scenario.sizes()["other"] == 5
    assert not [pod for pod in scenario.pods.values() if pod.priority and pod.node is None]
    assert record.group_status[scenario.group("gpus")].stuck == 100
    want = "node gpus-0000 is in use, and has not started within 900 s; it waits for: nvidia.com/gpu"
    assert any(want in note for note in record.notes)
    (event, *_) = scenario.said("ScaleUpTimedOut")
    assert (event.about, event.key, event.type) == ("ConfigMap", ("kube-system", "slackwater-autoscaler-status"), "Warning")
    backoff = record.group_status[scenario.group("gpus")].backoff
    assert backoff is not None
    assert backoff.code == "timeout"


async def test_lost_machines_that_cannot_be_deleted_keep_no_place() -> None:
    scenario = Scenario()
    scenario.cloud.has("kept", min_size=100, template=machine(labels={"pool": "kept"})).boot_outcome = lambda _: "silent"
    scenario.cloud.has("other", template=machine(labels={"pool": "other"}))
    await scenario.loop()
    assert scenario.sizes() == {"kept": 100, "other": 0}
    scenario.wants(*(a_pod(f"urgent{number}", cpu="4", priority=1000, node_selector={"pool": "other"}) for number in range(5)))
    await scenario.pass_time(PROVISION - 10.0)
    assert scenario.sizes()["other"] == 0, "a hundred are booting, as far as anybody knows"
    await scenario.pass_time(30.0)
    assert scenario.sizes()["other"] == 5, "machines that are lost are their own group's trouble"
    await scenario.pass_time(120.0)
    assert scenario.pending() == 0
    assert scenario.records[-1].group_status[scenario.group("kept")].stuck == 100
    assert scenario.said("ScaleUpTimedOut")


async def test_a_provider_that_falls_silent_keeps_no_place_for_ever() -> None:
    scenario = Scenario(clouds=2, group_registry=NodeGroupPolicy(in_cluster=10))
    scenario.cloud.has("a", template=machine(labels={"pool": "a"}))
    scenario.clouds[1].has("b", template=machine(labels={"pool": "b"}))
    scenario.wants(*(a_pod(f"p{number}", cpu="4", node_selector={"pool": "a"}) for number in range(10)))
    await scenario.loop()
    scenario.cloud.breaks()
    scenario.wants(*(a_pod(f"q{number}", cpu="4", node_selector={"pool": "b"}) for number in range(5)))
    await scenario.pass_time(PROVISION - 10.0)
    assert scenario.sizes() == {"a": 10, "b": 0}
    await scenario.pass_time(30.0)
    assert scenario.sizes() == {"a": 10, "b": 5}


async def test_a_group_with_a_longer_time_keeps_its_places_as_long() -> None:
    scenario = Scenario(group_registry=NodeGroupPolicy(in_cluster=3))
    slow = scenario.cloud.has("slow", template=machine(labels={"pool": "slow"}))
    slow.options = GroupOptions(provision_seconds=3000.0)
    slow.delays = Delays(running_after=2000.0, registered_after=2400.0, ready_after=2500.0)
    scenario.wants_many(3)
    await scenario.pass_time(2600.0)
    assert (scenario.pending(), scenario.sizes()) == (0, {"slow": 3})
    assert not scenario.said("ScaleUpTimedOut")
