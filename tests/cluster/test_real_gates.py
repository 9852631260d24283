"""deploy/gate on the real API server: important pods get a scheduling gate at creation, and lose it when there is room."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from slackwater.model.kubernetes_rules import KubernetesVersion
from tests.cluster.support.bodies import a_pod
from tests.cluster.support.ground import Ground
from tests.cluster.support.stage import Stage
from tests.cluster.test_preemption_faults import full_nodes, patch, priorities
from tests.controlplane.plugin import KUBERNETES
from tests.support.controlplane.recipe import version_of
from tests.support.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.cluster]

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
POLICY = Path("deploy/gate/policy.yaml").read_text()
GATES = [{"name": "slackwater.dev/gate"}]


@pytest.fixture
async def policy(ground: Ground) -> AsyncIterator[dict[str, Any]]:
    """What deploy/gate has, for the pods of this ground alone. Skips the test before Kubernetes 1.36, as deploy/gate says."""
    if KubernetesVersion.parse(KUBERNETES or version_of()).minor < 36:
        pytest.skip("MutatingAdmissionPolicy v1 is served since Kubernetes 1.36")
    policy, binding = yaml.safe_load_all(POLICY)
    name = policy["metadata"]["name"] = binding["metadata"]["name"] = binding["spec"]["policyName"] = ground.name
    of_ground = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}}}
    binding["spec"]["matchResources"] = of_ground
    await ground.create(f"{ADMISSION}/mutatingadmissionpolicies?fieldValidation=Strict", policy)
    await ground.create(f"{ADMISSION}/mutatingadmissionpolicybindings?fieldValidation=Strict", binding)
    yield policy
    for kind in ("mutatingadmissionpolicybindings", "mutatingadmissionpolicies"):
        async with ground.api.delete(f"{ADMISSION}/{kind}/{name}") as answer:
            assert answer.status == 200


async def until_in_force(ground: Ground, high: str) -> None:
    """The API server takes a new policy up within a second or so."""

    async def gated() -> object:
        body = a_pod("probe", priorityClassName=high)
        async with ground.api.post(f"{ground.pods_path}?dryRun=All", json=body) as answer:
            return (await answer.json())["spec"].get("schedulingGates")

    await eventually(gated, lambda gates: gates == GATES, within_seconds=60, wanted="the policy in force")


def gate_of(ground: Ground, name: str) -> Callable[[], Any]:
    async def gate() -> object:
        return (await ground.read(f"{ground.pods_path}/{name}"))["spec"].get("schedulingGates")

    return gate


async def test_only_pods_of_ours_that_may_preempt_are_gated(ground: Ground, policy: dict[str, Any]) -> None:
    high, _ = await priorities(ground)
    await until_in_force(ground, high)
    never = {"metadata": {"name": f"{ground.name}-n"}, "value": 1000, "preemptionPolicy": "Never"}
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    await ground.create("/apis/scheduling.k8s.io/v1/priorityclasses", {**kind, **never})
    theirs = [{"name": "example.dev/quota"}]
    await ground.make_pods(
        [
            a_pod("ours", priorityClassName=high),
            a_pod("with-another-gate", priorityClassName=high, schedulingGates=theirs),
            a_pod("ordinary"),
            a_pod("polite", priorityClassName=f"{ground.name}-n"),
            a_pod("others", priorityClassName=high, scheduler="default-scheduler"),
        ]
    )
    gates = {name: pod["spec"].get("schedulingGates") for name, pod in (await ground.pods()).items()}
    want = {"ours": GATES, "with-another-gate": [*theirs, *GATES], "ordinary": None, "polite": None, "others": None}
    assert gates == want


async def test_a_gated_pod_is_let_go_and_a_gated_preemptor_when_its_victim_has_left(
    stage: Stage, ground: Ground, policy: dict[str, Any]
) -> None:
    high, middle = await priorities(ground)
    service = await stage.up({"nodes": {"system": {"cpu": "500m"}}})
    nodes = await full_nodes(ground, ["a"], middle)
    await until_in_force(ground, high)

    await ground.make_pods([a_pod("small", cpu="100m", priorityClassName=high)])
    assert await ground.until_placed("small", within_seconds=60) == nodes["a"]

    path = f"{ground.pods_path}/low-a"
    await patch(ground, path, {"metadata": {"finalizers": ["slackwater.test/stays"]}})
    asked = (await service.metrics()).value("slackwater_extender_requests_total", verb="filter", code="200")
    await ground.make_pods([a_pod("high", cpu="800m", priorityClassName=high)])

    async def leaving() -> bool:
        return "deletionTimestamp" in (await ground.read(path))["metadata"]

    await eventually(leaving, bool, within_seconds=60, wanted="the victim told to leave")
    assert await gate_of(ground, "high")() == GATES, "as long as the victim is there"
    assert (await service.metrics()).value("slackwater_extender_requests_total", verb="filter", code="200") == asked
    await patch(ground, path, {"metadata": {"finalizers": None}})
    assert await ground.until_placed("high", within_seconds=60) == nodes["a"]
    assert await gate_of(ground, "high")() is None
    assert set(await ground.pods()) == {"middle-a", "small", "high"}


async def test_pods_that_were_gated_while_the_service_was_away_are_let_go_when_it_is_back(
    stage: Stage, ground: Ground, policy: dict[str, Any]
) -> None:
    high, _ = await priorities(ground)
    (node,) = await ground.make_nodes(1)
    service = await stage.up()
    await until_in_force(ground, high)
    await service.kill()
    await ground.make_pods(a_pod(f"p-{number}", priorityClassName=high) for number in range(5))
    await service.start()
    for number in range(5):
        assert await ground.until_placed(f"p-{number}", within_seconds=60) == node
