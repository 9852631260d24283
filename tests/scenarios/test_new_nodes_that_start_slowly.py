"""New nodes that are not ready for pods yet, or never will be: nothing is bought twice, and nobody waits for them for ever.

The real loop, fleet and planner over a cloud on virtual time. Each pod takes a whole node, unless said otherwise.
"""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from slackwater.cluster.nodegroups.policy import FleetPolicy
from slackwater.model.equivalence import Toleration
from slackwater.model.nodegroups import GroupOptions
from slackwater.model.objects import Node, Pod, Taint
from slackwater.model.pod_constraints import Particulars
from tests.support.builders import a_node, a_pod
from tests.support.cloud import Delays
from tests.support.scaling import Scene

pytestmark = pytest.mark.anyio

GPU = "nvidia.com/gpu"
PROVISION = 900.0
CILIUM = Taint("node.cilium.io/agent-not-ready", "true", "NoExecute")
EBS = Taint("ebs.csi.aws.com/agent-not-ready", "", "NoSchedule")
FOREIGN = Taint("acme.example/booting", "", "NoSchedule")
REPAIR = Taint("maintenance", "", "NoSchedule")


def machine(*, cpu: str = "4", gpus: int = 0, taints: Iterable[Taint] = (), labels: dict[str, str] | None = None) -> Node:
    scalars = (("pods", 110), *([(GPU, gpus)] if gpus else []))
    return replace(a_node("template", cpu=cpu, taints=list(taints), labels=labels), scalars=scalars)


def a_gpu_pod(name: str) -> Pod:
    pod = a_pod(name, cpu="4")
    return replace(pod, kind=replace(pod.kind, particulars=Particulars(scalars=((GPU, 1),))))


@pytest.mark.parametrize("size", [0, 3], ids=["from nothing", "beside others"])
@pytest.mark.parametrize("taint", [CILIUM, EBS, FOREIGN], ids=lambda taint: taint.key)
async def test_a_burst_is_bought_once_whatever_taint_new_nodes_begin_with(taint: Taint, size: int) -> None:
    scene = Scene()
    pool = scene.cloud.has("a", size=size, template=machine())
    pool.delays = Delays(untainted_after=300.0)
    pool.startup_taints = (taint,)
    scene.wants_many(size, tag="before")
    scene.settle()
    await scene.pass_time(400.0)  # those of before have started
    scene.wants_many(20)
    await scene.pass_time(400.0)
    assert (scene.pending(), scene.sizes()) == (0, {"a": size + 20})


async def test_what_was_bought_stays_promised_over_a_restart() -> None:
    scene = Scene()
    pool = scene.cloud.has("a", size=3, template=machine())
    pool.template_known = False
    pool.delays = Delays(untainted_after=300.0)
    scene.wants_many(3, tag="before")
    scene.settle()
    await scene.pass_time(400.0)
    pool.startup_taints = (FOREIGN,)
    scene.wants_many(20)
    for _ in range(40):
        await scene.pass_time(10.0)
        scene.restart()
    assert (scene.pending(), scene.sizes()) == (0, {"a": 23})


async def test_pods_that_a_node_is_not_for_do_not_end_the_promise() -> None:
    """A Deployment that tolerates anything, such as an operator, is the first on every new node."""
    scene = Scene()
    pool = scene.cloud.has("a", template=machine())
    pool.delays = Delays(untainted_after=300.0)
    pool.startup_taints = (FOREIGN,)
    scene.wants_many(5, cpu="3")
    await scene.loop()
    anything = [Toleration("", "Exists", "", "")]
    scene.wants(*(a_pod(f"operator{number}", cpu="100m", tolerations=anything) for number in range(5)))
    await scene.pass_time(400.0)
    assert (scene.pending(), scene.sizes()) == (0, {"a": 5})


async def test_a_device_that_nobody_announced_is_known_from_the_groups_other_nodes() -> None:
    scene = Scene()
    pool = scene.cloud.has("a", size=2, template=machine(gpus=1))
    pool.template_known = False
    scene.wants(*(a_gpu_pod(f"before{number}") for number in range(2)))
    scene.settle()
    await scene.pass_time(200.0)
    pool.fate = lambda _: "bare"
    pool.delays = Delays(equipped_after=300.0)
    scene.wants(*(a_gpu_pod(f"p{number}") for number in range(5)))
    await scene.pass_time(400.0)
    assert (scene.pending(), scene.sizes()) == (0, {"a": 7})


async def test_a_taint_that_a_new_node_keeps_holds_up_its_pods_no_longer_than_its_time() -> None:
    scene = Scene()
    pool = scene.cloud.has("a", size=3, template=machine())
    scene.wants_many(3, tag="before")
    scene.settle()
    await scene.pass_time(60.0)
    pool.startup_taints, pool.delays = (FOREIGN,), Delays(untainted_after=1e9)
    scene.wants_many(1)
    await scene.pass_time(PROVISION)
    assert scene.sizes() == {"a": 4}
    pool.startup_taints = ()
    await scene.pass_time(200.0)
    assert (scene.pending(), scene.sizes()) == (0, {"a": 5})


async def test_one_node_under_repair_does_not_stop_its_group() -> None:
    class Repaired(Scene):
        def shown(self, node: Node) -> Node:
            return replace(node, taints=(*node.taints, REPAIR)) if node.name == "a-0000" else node

    for known in (True, False):
        scene = Repaired()
        pool = scene.cloud.has("a", size=20, template=machine())
        pool.template_known = known
        for old in pool.machines:
            old.asked_at -= 2 * PROVISION
        scene.wants_many(19, tag="before")
        scene.settle()
        scene.wants_many(8)
        await scene.pass_time(200.0)
        assert (scene.pending(), scene.sizes()) == (0, {"a": 28})


# --- places among those in creation -----------------------------------------------------------------------------------------


async def test_nodes_that_never_show_their_gpu_keep_no_place_and_somebody_is_told() -> None:
    scene = Scene()
    scene.cloud.has("gpus", template=machine(gpus=1, labels={"pool": "gpus"})).fate = lambda _: "bare"
    scene.cloud.pool("gpus").delays = Delays(equipped_after=1e9)
    scene.cloud.has("other", template=machine(labels={"pool": "other"}))
    scene.wants(*(a_gpu_pod(f"g{number}") for number in range(150)))
    await scene.loop()
    assert scene.sizes() == {"gpus": 100, "other": 0}
    scene.wants(*(a_pod(f"small{number}", cpu="1", node_selector={"pool": "gpus"}) for number in range(400)))
    await scene.pass_time(300.0, every=30.0)
    assert scene.pending() == 150, "the small ones run on the nodes without GPUs"
    scene.wants(*(a_pod(f"urgent{number}", cpu="4", priority=1000, node_selector={"pool": "other"}) for number in range(5)))
    await scene.pass_time(PROVISION, every=30.0)
    record = scene.records[-1]
    assert scene.sizes()["other"] == 5
    assert not [pod for pod in scene.pods.values() if pod.priority and pod.node is None]
    assert record.census[scene.group("gpus")].stuck == 100
    want = "node gpus-0000 is in use, and has not started within 900 s; it waits for: nvidia.com/gpu"
    assert any(want in note for note in record.notes)
    (event, *_) = scene.said("ScaleUpTimedOut")
    assert (event.about, event.key, event.type) == ("ConfigMap", ("kube-system", "slackwater-autoscaler-status"), "Warning")
    backoff = record.census[scene.group("gpus")].backoff
    assert backoff is not None
    assert backoff.code == "timeout"


async def test_lost_machines_that_cannot_be_deleted_keep_no_place() -> None:
    scene = Scene()
    scene.cloud.has("kept", min_size=100, template=machine(labels={"pool": "kept"})).fate = lambda _: "silent"
    scene.cloud.has("other", template=machine(labels={"pool": "other"}))
    await scene.loop()
    assert scene.sizes() == {"kept": 100, "other": 0}
    scene.wants(*(a_pod(f"urgent{number}", cpu="4", priority=1000, node_selector={"pool": "other"}) for number in range(5)))
    await scene.pass_time(PROVISION - 10.0)
    assert scene.sizes()["other"] == 0, "a hundred are booting, as far as anybody knows"
    await scene.pass_time(30.0)
    assert scene.sizes()["other"] == 5, "machines that are lost are their own group's trouble"
    await scene.pass_time(120.0)
    assert scene.pending() == 0
    assert scene.records[-1].census[scene.group("kept")].stuck == 100
    assert scene.said("ScaleUpTimedOut")


async def test_a_provider_that_falls_silent_keeps_no_place_for_ever() -> None:
    scene = Scene(clouds=2, fleet=FleetPolicy(in_cluster=10))
    scene.cloud.has("a", template=machine(labels={"pool": "a"}))
    scene.clouds[1].has("b", template=machine(labels={"pool": "b"}))
    scene.wants(*(a_pod(f"p{number}", cpu="4", node_selector={"pool": "a"}) for number in range(10)))
    await scene.loop()
    scene.cloud.breaks()
    scene.wants(*(a_pod(f"q{number}", cpu="4", node_selector={"pool": "b"}) for number in range(5)))
    await scene.pass_time(PROVISION - 10.0)
    assert scene.sizes() == {"a": 10, "b": 0}
    await scene.pass_time(30.0)
    assert scene.sizes() == {"a": 10, "b": 5}


async def test_a_group_with_a_longer_time_keeps_its_places_as_long() -> None:
    scene = Scene(fleet=FleetPolicy(in_cluster=3))
    slow = scene.cloud.has("slow", template=machine(labels={"pool": "slow"}))
    slow.options = GroupOptions(provision_seconds=3000.0)
    slow.delays = Delays(running_after=2000.0, registered_after=2400.0, ready_after=2500.0)
    scene.wants_many(3)
    await scene.pass_time(2600.0)
    assert (scene.pending(), scene.sizes()) == (0, {"slow": 3})
    assert not scene.said("ScaleUpTimedOut")
