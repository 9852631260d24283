"""What happened to a pod is known on a real control plane: after kill -9, without a service; and a waiting pod says why."""

import json
from collections import Counter
from subprocess import PIPE
from typing import Any

import aiohttp
import anyio
import pytest

from tests.cluster.support.bodies import Json, a_pod
from tests.cluster.support.ground import Ground
from tests.cluster.support.slackwater_process import PROGRAM, SlackwaterProcess
from tests.cluster.support.stage import Stage
from tests.cluster.test_preemption_faults import patch, priorities
from tests.support.controlplane.stack import ControlPlane
from tests.support.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.cluster]


async def asked(service: SlackwaterProcess, path: str) -> list[Json]:
    async with aiohttp.ClientSession() as http, http.get(f"{service.ops_url}/history/{path}") as answer:
        assert answer.status == 200, await answer.text()
        return list((await answer.json())["entries"])


async def until_reported(service: SlackwaterProcess, path: str, *actions: str) -> list[Json]:
    """The entries, once these actions are among them."""

    async def look() -> list[Json]:
        return await asked(service, path)

    def there(entries: list[Json]) -> bool:
        return set(actions) <= {entry["action"] for entry in entries}

    return await eventually(look, there, within_seconds=60, wanted=f"{actions} of {path}")


async def command(*arguments: str) -> Json:
    done = await anyio.run_process([str(PROGRAM), "history", *arguments, "-o", "json"], check=False, stderr=PIPE)
    assert done.returncode == 0, done.stderr.decode()
    return dict(json.loads(done.stdout))


async def test_who_preempted_a_pod_is_known_after_kill_9_and_without_a_service(
    stage: Stage, ground: Ground, control_plane: ControlPlane
) -> None:
    (node,) = await ground.make_nodes(1, cpu="4")
    high, middle = await priorities(ground)
    service = await stage.up({"nodes": {"system": {"cpu": "500m"}}})
    await ground.make_pods([a_pod("middle", cpu="2", priorityClassName=middle), a_pod("low", cpu="1")])
    await ground.until_bound(2, within_seconds=60)
    await ground.make_pods([a_pod("high", cpu="800m", priorityClassName=high)])
    await ground.until_placed("high", within_seconds=60)

    preempted = f"preempted on {node} to make room for {ground.name}/high"
    victim = await until_reported(service, f"pods/{ground.name}/low", "preempted")
    assert [(entry["by"], entry["text"]) for entry in victim] == [("slackwater", preempted)]
    await until_reported(service, f"pods/{ground.name}/high", "preempted", "bound")

    async def stored() -> list[Json]:
        reported = await command("pod", f"{ground.name}/low", "--kubeconfig", str(control_plane.kubeconfig("admin")))
        return list(reported["entries"])

    # An act is written within seconds; here others compute, too.
    await eventually(stored, lambda entries: entries == victim, within_seconds=60, wanted=str(victim), every_seconds=0.5)
    await service.kill()
    assert await stored() == victim, "while no service runs"
    await service.start()
    assert await until_reported(service, f"pods/{ground.name}/low", "preempted") == victim
    # Its placement is a wait, which is written later than an act: then the new process has told it, from the pod.
    again = Counter(entry["action"] for entry in await until_reported(service, f"pods/{ground.name}/high", "bound"))
    assert (again["preempted"], again["bound"]) == (1, 1), "nothing is told twice"
    of_node = await until_reported(service, f"nodes/{node}", "preempted")
    assert ground.name + "/low" in {entry["pod"] for entry in of_node}
    async with aiohttp.ClientSession() as http, http.get(f"{service.ops_url}/explain/pods/{ground.name}/low") as answer:
        assert answer.status == 404
        assert "slackwater history pod" in await answer.text()
    recent = await command("pod", f"{ground.name}/low", "--since", "1s", "--url", service.ops_url)
    assert recent["entries"] == []


async def test_a_pod_that_waits_says_why_and_what_would_help(stage: Stage, ground: Ground) -> None:
    await ground.make_nodes(2, cpu="4")
    service = await stage.up({"explain": {"eventsAfter": "2s"}})
    await ground.make_pods([a_pod("waits-a", cpu="6"), a_pod("waits-b", cpu="6"), a_pod("fits", cpu="1")])

    async def reported() -> dict[str, list[Any]]:
        path = f"/apis/events.k8s.io/v1/namespaces/{ground.name}/events"
        events = [event for event in (await ground.read(path))["items"] if event["reason"] == "Unschedulable"]
        return {event["regarding"]["name"]: [event["type"], event["note"]] for event in events}

    wanted = "an Event on both"
    seen = await eventually(reported, lambda found: found.keys() == {"waits-a", "waits-b"}, within_seconds=60, wanted=wanted)
    kind, note = seen["waits-a"]
    assert kind == "Warning"
    assert "not enough cpu" in note.lower() or "insufficient cpu" in note.lower(), note
    assert "What would help: " in note, note
    assert seen["waits-b"][1] == note, "pods with equal constraints have equal Events"
    meta = (await ground.read(f"{ground.pods_path}/waits-a"))["metadata"]
    selector = f"involvedObject.name={meta['name']},involvedObject.uid={meta['uid']}"  # as `kubectl describe pod` asks
    described = await ground.read(f"/api/v1/namespaces/{ground.name}/events?fieldSelector={selector}")
    assert note in {event["message"] for event in described["items"]}
    entries = await until_reported(service, f"pods/{ground.name}/waits-a", "refused")
    assert "Insufficient cpu" in entries[0]["why"]
    condition = (await ground.read(f"{ground.pods_path}/waits-a"))["status"]["conditions"]
    assert [each["type"] for each in condition] == ["PodScheduled"], "no condition of ours"
    await anyio.sleep(4)
    assert (await reported()).keys() == {"waits-a", "waits-b"}, "none on the pod that was placed"


async def test_the_history_names_the_preemptor_of_kube_schedulers_own_preemption(stage: Stage, ground: Ground) -> None:
    """In-tree filters leave no room, so kube-scheduler chooses the victim, asks our preempt verb, and deletes it itself."""
    (node,) = await ground.make_nodes(1, cpu="4")
    high, middle = await priorities(ground)
    service = await stage.up()
    await ground.make_pods([a_pod("middle", cpu="2", priorityClassName=middle), a_pod("low", cpu="2")])
    await ground.until_bound(2, within_seconds=60)
    await patch(ground, f"{ground.pods_path}/low", {"metadata": {"finalizers": ["slackwater.test/stays"]}})
    await ground.make_pods([a_pod("high", cpu="2", priorityClassName=high)])
    (entry,) = await until_reported(service, f"pods/{ground.name}/low", "disrupted")
    await patch(ground, f"{ground.pods_path}/low", {"metadata": {"finalizers": None}})
    await ground.until_placed("high", within_seconds=60)
    assert entry["by"] == "a scheduler"
    assert entry["text"].startswith(f"disrupted on {node} by a scheduler to make room for {ground.name}/high: ")
