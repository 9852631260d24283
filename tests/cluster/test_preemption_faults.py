"""Whatever happens to a call of a preemption: the pod runs in the end, and nothing of the preemption stays behind.

Each node is full in our accounting alone, has one pod that must not go and one that has to, and one preemptor, whose calls
meet one kind of fault each; all at the same time.
"""

from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.cluster.support.bodies import a_pod
from tests.cluster.support.ground import MERGE_PATCH, Ground
from tests.cluster.support.slackwater_process import SlackwaterProcess
from tests.cluster.support.stage import Stage
from tests.support.apiproxy import ApiProxy, Call, CallOutcome, api_proxy
from tests.support.controlplane.stack import ControlPlane
from tests.support.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.cluster]

#: What happens to the first calls of a step, and to how many.
FAULTS: dict[str, tuple[CallOutcome, int]] = {
    "request-lost": (CallOutcome(lost="request"), 2),
    "answer-lost": (CallOutcome(lost="answer"), 1),
    "conflict": (CallOutcome(status=409), 2),
    "too-many": (CallOutcome(status=429), 2),
    "broken": (CallOutcome(status=500), 3),
    "late": (CallOutcome(slow_seconds=4.0), 1),
    "refused": (CallOutcome(status=403), 1),
}
STEPS = {
    "annotation": b'"slackwater.dev/preempting":"',
    "condition": b"DisruptionTarget",
    "deletion": b"DeleteOptions",
    "nomination": b"nominatedNodeName",
}
SETTINGS: dict[str, Any] = {"nodes": {"system": {"cpu": "500m"}}, "kube": {"writeDeadline": "2s"}}
#: A refused deletion is not tried again for a minute.
PLACED_WITHIN_SECONDS = 90.0


@pytest.fixture
async def proxy(control_plane: ControlPlane, tmp_path: Path) -> AsyncIterator[ApiProxy]:
    async with api_proxy(control_plane.kubeconfig("slackwater"), tmp_path) as proxy:
        yield proxy


async def priorities(ground: Ground) -> tuple[str, str]:
    """The names of two PriorityClasses, the higher one first."""
    for name, value in ((f"{ground.name}-h", 1000), (f"{ground.name}-m", 10)):
        body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}
        await ground.create("/apis/scheduling.k8s.io/v1/priorityclasses", body)
    return f"{ground.name}-h", f"{ground.name}-m"


async def full_nodes(ground: Ground, names: list[str], middle: str, **low: Any) -> dict[str, str]:
    """A node for each name, with 3 of its 3.5 CPUs taken; in-tree filters count with 4."""
    nodes = dict(zip(names, await ground.make_nodes(len(names), cpu="4"), strict=True))
    for name, node in nodes.items():
        on = {"kubernetes.io/hostname": node}
        await ground.make_pods(
            [
                a_pod(f"middle-{name}", cpu="2", priorityClassName=middle, nodeSelector=on),
                a_pod(f"low-{name}", cpu="1", nodeSelector=on, **low),
            ]
        )
    await ground.until_bound(2 * len(names), within_seconds=60)
    return nodes


async def preemptors(ground: Ground, nodes: dict[str, str], high: str) -> None:
    pods = [
        a_pod(f"high-{name}", cpu="800m", priorityClassName=high, nodeSelector={"kubernetes.io/hostname": node})
        for name, node in nodes.items()
    ]
    await ground.make_pods(pods)


async def nothing_stays_behind(service: SlackwaterProcess, ground: Ground, proxy: ApiProxy) -> None:
    async def left() -> dict[str, Any]:
        dump = await service.dumpstate()
        return {what: dump[what] for what in ("gates", "nominations", "holds") if dump[what]}

    await eventually(left, lambda found: not found, within_seconds=60, wanted="no gate, no nomination, no hold")
    assert (await service.metrics()).value("slackwater_gates_shut") == 0
    assert proxy.doubled == []

    async def annotated() -> set[str]:
        pods = await ground.pods()
        return {name for name, pod in pods.items() if "slackwater.dev/preempting" in pod["metadata"].get("annotations", {})}

    # A write that was given up may still arrive after it was taken back; a bound pod's says nothing any more.
    await eventually(annotated, lambda names: names <= {"high-late"}, within_seconds=60, wanted="no annotation")


@pytest.mark.parametrize("step", STEPS)
async def test_a_failed_call_keeps_no_preemptor_waiting_for_ever(
    proxy: ApiProxy, stage: Stage, ground: Ground, step: str
) -> None:
    high, middle = await priorities(ground)
    service = await stage.up(SETTINGS, kubeconfig=proxy.kubeconfig)
    nodes = await full_nodes(ground, list(FAULTS), middle)
    met: Counter[str] = Counter()

    def decide(call: Call) -> CallOutcome | None:
        name = call.path.removesuffix("/status").rpartition("/")[2].partition("-")[2]
        if STEPS[step] not in call.body or name not in FAULTS:
            return None
        outcome, times = FAULTS[name]
        met[name] += 1
        return outcome if met[name] <= times else None

    proxy.decide = decide
    await preemptors(ground, nodes, high)
    for name, node in nodes.items():
        assert await ground.until_placed(f"high-{name}", within_seconds=PLACED_WITHIN_SECONDS) == node
    assert set(met) == set(FAULTS)
    want = {f"{role}-{name}" for role in ("middle", "high") for name in nodes}
    if step in {"condition", "deletion"}:  # whom the API server refuses to delete cannot leave: the next one has to
        want = want - {"middle-refused"} | {"low-refused"}
    assert set(await ground.pods()) == want
    await nothing_stays_behind(service, ground, proxy)


@pytest.mark.parametrize("step", STEPS)
async def test_a_preemptor_that_is_deleted_meanwhile_leaves_nothing_behind(
    proxy: ApiProxy, stage: Stage, ground: Ground, step: str
) -> None:
    """The call is on its way until the service knows that the preemptor is gone."""
    high, middle = await priorities(ground)
    service = await stage.up({**SETTINGS, "kube": {"writeDeadline": "60s"}}, kubeconfig=proxy.kubeconfig)
    nodes = await full_nodes(ground, ["a"], middle)
    met: list[Call] = []
    go_on = anyio.Event()

    def decide(call: Call) -> CallOutcome | None:
        if STEPS[step] not in call.body or met:
            return None
        met.append(call)
        return CallOutcome(held_until=go_on)

    async def reached() -> int:
        return len(met)

    proxy.decide = decide
    await preemptors(ground, nodes, high)
    await eventually(reached, bool, within_seconds=60, wanted=f"the {step} on its way")
    await ground.delete_pods(["high-a"])

    async def waiting() -> list[Any]:
        return list((await service.dumpstate())["pending"])

    await eventually(waiting, lambda pods: not pods, within_seconds=60, wanted="the preemptor known to be gone")
    go_on.set()
    await nothing_stays_behind(service, ground, proxy)
    want = {"middle-a", "low-a"} if step == "annotation" else {"middle-a"}
    await eventually(ground.pods, lambda pods: set(pods) == want, within_seconds=60, wanted=str(want))


async def test_a_victim_that_does_not_leave_opens_the_gate_after_the_time_out(
    proxy: ApiProxy, stage: Stage, ground: Ground
) -> None:
    high, middle = await priorities(ground)
    service = await stage.up({**SETTINGS, "preemption": {"timeout": "3s"}}, kubeconfig=proxy.kubeconfig)
    nodes = await full_nodes(ground, ["a"], middle, terminationGracePeriodSeconds=1)
    path = f"{ground.pods_path}/low-a"
    await patch(ground, path, {"metadata": {"finalizers": ["slackwater.test/stays"]}})
    await preemptors(ground, nodes, high)

    async def ends() -> int:
        metrics = await service.metrics()
        return metrics.value("slackwater_goroutines_execution_total", operation="preemption", result="error")

    await eventually(ends, lambda count: count >= 1, within_seconds=60, wanted="the preemption given up")
    # Nobody counts on the stuck one any more, so the next one of lower priority has to go.
    assert await ground.until_placed("high-a", within_seconds=60) == nodes["a"]
    assert set(await ground.pods()) == {"low-a", "high-a"}
    await patch(ground, path, {"metadata": {"finalizers": None}})
    await nothing_stays_behind(service, ground, proxy)


async def test_a_service_killed_in_between_goes_on_when_it_is_back(proxy: ApiProxy, stage: Stage, ground: Ground) -> None:
    high, middle = await priorities(ground)
    service = await stage.up(SETTINGS, kubeconfig=proxy.kubeconfig)
    nodes = await full_nodes(ground, ["a"], middle)
    proxy.decide = lambda call: CallOutcome(lost="request") if STEPS["condition"] in call.body else None
    await preemptors(ground, nodes, high)

    async def tried() -> bool:
        return any(STEPS["condition"] in call.body for call in proxy.seen)

    await eventually(tried, bool, within_seconds=60, wanted="the victim sent for")
    await service.kill()
    proxy.decide = lambda call: None
    await service.start()
    assert await ground.until_placed("high-a", within_seconds=60) == nodes["a"]
    assert set(await ground.pods()) == {"middle-a", "high-a"}
    await nothing_stays_behind(service, ground, proxy)


async def patch(ground: Ground, path: str, body: dict[str, Any]) -> None:
    async with ground.api.patch(path, json=body, headers=MERGE_PATCH) as answer:
        assert answer.status == 200, await answer.text()
