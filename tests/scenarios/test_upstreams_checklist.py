"""The rows of upstream's own tests that say something of a whole service: neondatabase/autoscaling v0.36.1.

Rows of the formula alone are in tests/unit/model/ledger. What is absent: rows of upstream's inner parts that have no like here
(copy-on-write maps, labels kept for metrics, overcommit), and its controller, whose part our test controller plays.
"""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from slackwater.adapters.kube.decode import PodDecoder
from slackwater.fit.score_curve import randomized
from slackwater.model.events import PodGone, PodSeen
from slackwater.model.ids import Instant, PodUid
from slackwater.model.ledger import Watermark
from slackwater.model.objects import Pod
from slackwater.model.pod_constraints import KindInterner
from slackwater.model.resources import NOTHING, Amounts
from tests.support import installed
from tests.support.builders import a_node, a_vertical, amounts
from tests.support.growing import UNIT, Growing

VM = {"apiVersion": "vm.neon.tech/v1", "kind": "VirtualMachine", "name": "vm", "uid": "vm"}
VMM = {"apiVersion": "vm.neon.tech/v1", "kind": "VirtualMachineMigration", "name": "vmm", "uid": "vmm"}
RESOURCES = {
    "cpus": {"min": "250m", "max": 4, "use": "500m"},
    "memorySlots": {"min": 1, "max": 16, "use": 2},
    "memorySlotSize": "1Gi",
}
PERMIT = '{"permit": {"vCPUs": "750m", "mem": "3Gi"}, "limit": {"vCPUs": "750m", "mem": "3Gi"}}'


def a_cluster(*, watermark_ppm: int = 800_000) -> Growing:
    policy = replace(installed.NODES, watermark=Watermark(cpu=watermark_ppm, memory=watermark_ppm))
    cluster = Growing(replace(installed.POLICY, nodes=policy))
    cluster.has_node(a_node("n", cpu="10", memory="40Gi"))
    return cluster


def runner(*, owners: list[dict[str, Any]], enabled: bool = True, migratable: bool = False, permit: str | None = None) -> Pod:
    labels = {"autoscaling.neon.tech/enabled": "true"} if enabled else {}
    if migratable:
        labels["autoscaling.neon.tech/auto-migration-enabled"] = "true"
    annotations = {"vm.neon.tech/resources": json.dumps(RESOURCES)}
    if permit is not None:
        annotations["slackwater.dev/permit"] = permit
    meta = {"ownerReferences": owners, "labels": labels, "annotations": annotations}
    return decoded(meta, [{"name": "neonvm-runner", "image": "r"}])


def decoded(meta: dict[str, Any], containers: list[dict[str, Any]]) -> Pod:
    body = {
        "metadata": {"name": "p", "namespace": "default", "uid": "p", "resourceVersion": "5", **meta},
        "spec": {"nodeName": "n", "schedulerName": "slackwater", "containers": containers},
        "status": {"phase": "Running"},
    }
    return PodDecoder(KindInterner()).decode(json.dumps(body).encode())


def test_basic_node_operations() -> None:
    cluster = a_cluster()
    one, other = (
        cluster.places(name, on="n", vertical=a_vertical(using=using))
        for name, using in (("one", amounts("2", "8Gi")), ("other", amounts("1", "4Gi")))
    )
    assert one.node is not None
    row = cluster.state_machine.state.nodes.row_of[one.node]
    numbers = cluster.state_machine.state.ledger.numbers(row)
    assert (numbers.reserved, numbers.watermark) == (amounts("3", "12Gi"), amounts("8", "32Gi"))
    cluster.take(PodGone(other.uid, other.key))
    assert cluster.state_machine.state.ledger.numbers(row).reserved == amounts("2", "8Gi")


CONTROLLED = {**VM, "controller": True}
SOURCE = [CONTROLLED, {**VMM, "controller": False}]
TARGET = [{**VMM, "controller": True}, {**VM, "controller": False}]
FINISHED = [{**VMM, "controller": False}, {**VM, "controller": False}]
USE, MAX, PERMITTED = amounts("500m", "2Gi"), amounts("4", "16Gi"), amounts("750m", "3Gi")


@pytest.mark.parametrize(
    ("pod", "want_reserved", "want_buffer", "want_migratable", "want_role"),
    [
        pytest.param(runner(owners=[CONTROLLED], enabled=False), USE, NOTHING, False, None, id="external-vm"),
        pytest.param(
            runner(owners=[CONTROLLED]), MAX, MAX.minus(USE), False, None, id="autoscaling-requested-no-scheduler-approval"
        ),
        pytest.param(runner(owners=[CONTROLLED], permit=PERMIT), PERMITTED, NOTHING, False, None, id="autoscaling-full"),
        pytest.param(
            runner(owners=[CONTROLLED], permit=PERMIT, migratable=True),
            PERMITTED,
            NOTHING,
            True,
            None,
            id="autoscaling-full-migratable",
        ),
        pytest.param(
            runner(owners=SOURCE, permit=PERMIT, migratable=True),
            PERMITTED,
            NOTHING,
            True,
            "source",
            id="autoscaling-full-migratable-ongoing-migration-source",
        ),
        pytest.param(
            runner(owners=TARGET, permit=PERMIT, migratable=True),
            USE,
            NOTHING,
            True,
            "target",
            id="autoscaling-full-migratable-ongoing-migration-target",
        ),
        pytest.param(
            runner(owners=FINISHED, permit=PERMIT, migratable=True),
            PERMITTED,
            NOTHING,
            True,
            "source",
            id="autoscaling-full-migratable-finished-migration-source",
        ),
    ],
)
def test_pod_state_extraction(
    *, pod: Pod, want_reserved: Amounts, want_buffer: Amounts, want_migratable: bool, want_role: str | None
) -> None:
    """Where upstream has nothing approved it counts the use; we keep Max, and what is beyond the use as Buffer."""
    cluster = a_cluster()
    cluster.take(PodSeen(pod))
    claim = cluster.state_machine.state.reservations.get(PodUid("p"))
    assert claim is not None
    assert (claim.pod_resources.reserved, claim.pod_resources.buffer) == (want_reserved, want_buffer)
    assert pod.vertical is not None
    assert pod.vertical.migratable is want_migratable
    role = None if pod.vertical.migration is None else pod.vertical.migration.role
    assert role == want_role


def test_pod_state_extraction_of_a_normal_pod() -> None:
    requests = [("250m", "256Mi"), ("500m", "1Gi")]
    containers = [
        {"name": f"c{n}", "image": "i", "resources": {"requests": {"cpu": cpu, "memory": memory}}}
        for n, (cpu, memory) in enumerate(requests)
    ]
    cluster = a_cluster()
    cluster.take(PodSeen(decoded({}, containers)))
    claim = cluster.state_machine.state.reservations.get(PodUid("p"))
    assert claim is not None
    assert claim.pod_resources.reserved == amounts("750m", "1280Mi")


def units(count: float) -> Amounts:
    return Amounts(type(UNIT.cpu)(int(UNIT.cpu * count)), type(UNIT.memory)(int(UNIT.memory * count)))


Step = tuple[float, float | None, float]

CONVERSATIONS: dict[str, tuple[float, list[Step]]] = {
    "TestBasicScaleUpAndDownFlow": (40, [(1, None, 1), (2, 1, 2), (2, 2, 2), (1, 2, 1)]),
    "TestPeriodicPluginRequest": (40, [(2, None, 2), *[(2, 2, 2)] * 5]),
    "TestPartialUpscaleThenFull": (3, [(1, None, 1), (4, 1, 3), (4, 3, 3), (4, 3, 3)]),
    "TestFailedRequestRetry": (40, [(1, None, 1), (2, 1, 2), (2, 1, 2)]),
    "TestBoundsChangeRequiresUpscale": (40, [(2, None, 2), (3, 2, 3), (3, 3, 3)]),
    "TestBoundsChangeRequiresDownsale": (40, [(4, None, 4), (2, 4, 2), (2, 2, 2)]),
    "TestMetricsConcurrentUpdatedDuringDownscale": (40, [(3, None, 3), (2, 3, 2), (1, 2, 1), (2, 1, 2)]),
    "TestDeniedDownscalingIncreaseAndRetry": (40, [(6, None, 6), (5, 6, 5), (4, 5, 4), (3, 4, 3), (5, 3, 5), (6, 5, 6)]),
    "TestRequestedUpscale": (40, [(1, None, 1), (2, 1, 2), (1, 2, 1)]),
    "TestDownscalePivotBack": (40, [(2, None, 2), (1, 2, 1), (2, 1, 2)]),
    "MismatchedApproved": (2.5, [(1, None, 1), (4, 1, 2), (4, 2, 2)]),
}


@pytest.mark.parametrize(("room", "steps"), CONVERSATIONS.values(), ids=CONVERSATIONS.keys())
def test_what_upstreams_agent_core_sends_is_answered_as_it_expects(room: float, steps: list[Step]) -> None:
    """Each step in compute units: what is asked, the last permit, the permit. `room`: what the node has for the VM."""
    cluster = Growing()
    total = units(room)
    cluster.has_node(a_node("n", cpu=f"{total.cpu}m", memory=str(total.memory)))
    vertical = a_vertical(using=units(steps[0][0]), maximum=units(16), minimum=units(1))
    pod = cluster.places("vm", on="n", vertical=vertical)
    for asked, last, want in steps:
        answer = cluster.ask(pod, units(asked), last=None if last is None else units(last))
        assert answer.permit == units(want), (asked, last)
        cluster.now += 0.1


def test_partial_upscale_then_full_once_there_is_room() -> None:
    cluster = a_cluster()
    filler = cluster.places("filler", on="n", vertical=a_vertical(using=amounts("9250m", "1Gi"), maximum=amounts("10", "1Gi")))
    pod = cluster.places("vm", on="n", vertical=a_vertical(using=units(1)))
    cluster.ask(pod, units(1))
    assert cluster.ask(pod, units(4), last=units(1)).permit == Amounts(units(3).cpu, units(4).memory)
    cluster.deletes(filler)
    assert cluster.ask(pod, units(4), last=units(3)).permit == units(4)


def test_normalized_scores_are_drawn_between_1_and_the_score_and_zero_stays() -> None:
    scores = np.array([100, 50, 25, 10, 0])
    runs = {tuple(randomized(scores, np.random.default_rng(seed)).tolist()) for seed in range(10)}
    assert len(runs) >= 2
    for run in runs:
        assert run[-1] == 0
        assert all(1 <= drawn <= score for drawn, score in zip(run[:-1], scores.tolist(), strict=False))


def test_deleting_an_unknown_pod_or_node_changes_nothing() -> None:
    cluster = a_cluster()
    before = cluster.state_machine.state.ledger.columns.copy()
    cluster.take(PodGone(PodUid("nobody"), decoded({}, []).key))
    assert cluster.state_machine.state.ledger.columns.same_as(before)
    assert cluster.state_machine.apply(PodGone(PodUid("nobody"), decoded({}, []).key), Instant(0)) == []
