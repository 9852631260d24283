"""Pause it, uninstall it, clean up: afterwards no object of a real cluster has anything of Slackwater but placed pods."""

import json
from collections.abc import AsyncIterator, Iterator
from subprocess import PIPE
from typing import Any, Final

import anyio
import pytest

from slackwater.adapters.kube.client import KubeClient, open_client
from slackwater.adapters.kube.objects import ApiObjects
from slackwater.app.cleanup import MANAGER
from slackwater.model.objects import VICTIM_MESSAGE
from tests.cluster.support.bodies import a_pod
from tests.cluster.support.ground import Ground
from tests.cluster.support.slackwater_process import PROGRAM, SlackwaterProcess
from tests.cluster.support.stage import Stage
from tests.cluster.test_history import until_reported
from tests.cluster.test_preemption import a_priority_class
from tests.cluster.test_resizing import agents, growing, sized, until_asked
from tests.cluster.test_scale_up import grant, settings_of
from tests.support.controlplane.stack import ControlPlane
from tests.support.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.cluster]

#: How keys and texts of ours begin: names, and the condition of a victim.
_WORDS: Final = ("slackwater.dev/", VICTIM_MESSAGE)
_EVERYTHING: Final = {"scale-down", "scale-up", "preemption", "migration", "nomination"}
_TAINTS: Final = {"ToBeDeletedByClusterAutoscaler", "DeletionCandidateOfClusterAutoscaler"}
#: Written by the person who ran the test, not by us.
_BOUNDS: Final = "slackwater.dev/bounds"


async def slackwater(*arguments: str, code: int = 0) -> str:
    """What the installed command prints; it must exit with `code`."""
    done = await anyio.run_process([str(PROGRAM), *arguments], check=False, stderr=PIPE)
    assert done.returncode == code, (arguments, done.returncode, done.stdout.decode(), done.stderr.decode())
    return done.stdout.decode() + done.stderr.decode()


@pytest.fixture
async def admin(control_plane: ControlPlane) -> AsyncIterator[KubeClient]:
    async with open_client(kubeconfig=str(control_plane.kubeconfig("admin"))) as client:
        yield client


async def each_object(client: KubeClient) -> AsyncIterator[tuple[str, dict[str, Any]]]:
    """Every object of every type that the API server lists, found by discovery, not by a list of ours."""
    objects = ApiObjects(client)
    groups = await objects.get("/apis")
    assert groups is not None
    prefixes = [("", "/api/v1")]
    for group in groups["groups"]:
        prefixes += [(group["name"], f"/apis/{version['groupVersion']}") for version in group["versions"]]
    listed: set[tuple[str, str]] = set()
    for group_name, prefix in prefixes:
        found = await objects.get(prefix)
        assert found is not None
        for resource in found["resources"]:
            name = (group_name, resource["name"])  # a type is listed once, in the first version that has it
            if "list" in resource["verbs"] and "/" not in resource["name"] and name not in listed:
                listed.add(name)
                async for item in objects.each(f"{prefix}/{resource['name']}"):
                    yield resource["name"], item
    assert {("", "pods"), ("", "configmaps"), ("apps", "deployments"), ("events.k8s.io", "events")} <= listed


def words_of(part: Any) -> Iterator[str]:
    """Every key and every text of an object, at any depth; but not who manages which field, and not what people annotate."""
    if isinstance(part, dict):
        for key, value in part.items():
            if key != "managedFields":
                yield key
                yield from words_of(value)
    elif isinstance(part, list):
        for value in part:
            yield from words_of(value)
    elif isinstance(part, str):
        yield part


async def traces(client: KubeClient, *, but: frozenset[str] = frozenset()) -> list[str]:
    """What the cluster has of us: fields by their manager; keys, gates, finalizers and texts by their prefix, wherever they are
    in the object; taints by their key."""
    found = []
    async for kind, item in each_object(client):
        meta = item["metadata"]
        taints = [taint["key"] for taint in item["spec"].get("taints") or ()] if kind == "nodes" else []
        managers = {entry.get("manager") for entry in meta.get("managedFields") or ()}
        words = [word for word in words_of(item) if word.startswith(_WORDS) and word not in but]
        words += [taint for taint in taints if taint in _TAINTS]
        words += ["managed"] if MANAGER in managers else []
        words += ["ours by name"] if kind in {"configmaps", "leases"} and meta["name"].startswith("slackwater") else []
        found += [f"{kind} {meta.get('namespace', '')}/{meta['name']}: {words}"] if words else []
    return found


async def test_a_pause_holds_over_a_kill_and_resume_ends_it(stage: Stage, ground: Ground, control_plane: ControlPlane) -> None:
    await ground.make_nodes(1)
    service = await stage.up()
    to_cluster = ("--kubeconfig", str(control_plane.kubeconfig("admin")))

    async def paused() -> dict[str, str]:
        return dict((await service.statusz())["paused"])

    assert "nothing is paused" in await slackwater("pause", *to_cluster, "-o", "table")
    try:
        said = json.loads(await slackwater("pause", "all", "--reason", "a test", *to_cluster, "-o", "json"))
        assert said["paused"]["all"].endswith(": a test")
        seen = await eventually(paused, lambda found: found.keys() == _EVERYTHING, within_seconds=60, wanted="all paused")
        assert set(seen.values()) == {said["paused"]["all"]}
        assert (await service.metrics()).total("slackwater_paused") == len(_EVERYTHING)

        await service.kill()
        await service.start()
        assert (await paused()).keys() == _EVERYTHING, "from the first answer on"
        await ground.make_pods([a_pod("p")])
        await ground.until_placed("p", within_seconds=60)

        left = json.loads(await slackwater("resume", "scale-up", "nomination", *to_cluster, "-o", "json"))
        assert left["paused"].keys() == {"scale-down", "preemption", "migration"}
        wanted = "two resumed"
        await eventually(paused, lambda found: found.keys() == left["paused"].keys(), within_seconds=60, wanted=wanted)
    finally:
        await slackwater("resume", "all", *to_cluster)
    await eventually(paused, lambda found: not found, within_seconds=60, wanted="nothing paused")
    assert "scaledown" in await slackwater("pause", "scaledown", *to_cluster, code=2)


def settings_to_leave(ground: Ground, *, binds: bool) -> dict[str, Any]:
    """Everything that writes: a pool that grows and shrinks, a Lease, accounting of our own, Events on pods that wait."""
    settings = settings_of(ground, failing=0.0)
    autoscaler = settings["autoscaler"]
    autoscaler["nodeGroups"][0]["maxSize"] = 2
    autoscaler["scaleDown"] = {"unneededTime": "4s", "delayAfterAdd": "1s", "utilizationThreshold": 0.5}
    return {
        **settings,
        "extender": {"bind": binds},
        "nodes": {"system": {"cpu": "2"}},
        "explain": {"eventsAfter": "3s"},
        "leaderElection": {"mode": "own", "resourceName": ground.name},
    }


async def work(service: SlackwaterProcess, ground: Ground, high: str, to_cluster: tuple[str, ...]) -> None:
    """Nodes are added, pods placed, refused and preempted, one grows, and a node is drained. Events, ConfigMaps, a Lease,
    annotations, taints, conditions and a resize come of it. Of the 16 CPUs of a node we count 14."""
    await ground.make_pods([growing("grows", limited=False), *(a_pod(f"p-{number}", cpu="2") for number in range(4))])
    await ground.until_bound(5, within_seconds=90)
    async with agents(ground, service, "grows") as (agent,):
        for cpu in (1000, 2000):
            assert await agent.ask(sized(cpu, 2), in_use=sized(1000, 2)) == sized(cpu, 2)
    await until_asked(ground, "grows", cpu="2")

    # A second node comes for the large pod. When that is gone, the small one beside it is evicted, and the node is removed.
    await ground.make_pods([a_pod("large", cpu="12")])
    (second,) = {await ground.until_placed("large", within_seconds=60)}
    small = a_pod("small", cpu="500m", nodeName=second)
    small["metadata"]["annotations"] = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}
    await ground.make_pods([small])
    await ground.delete_pods(["large"])
    await until_reported(service, f"pods/{ground.name}/small", "evicted")
    await until_reported(service, f"nodes/{second}", "drain-began", "evicted", "drain-ended")

    # 10 CPUs of the first node are taken. In-tree 2.5 more than these 3.5 are free, by our accounting a victim has to leave.
    await ground.make_pods([a_pod("low", cpu="3500m")])
    await ground.until_placed("low", within_seconds=60)
    await slackwater("pause", "scale-up", *to_cluster)
    await ground.make_pods([a_pod("high", cpu="2", priorityClassName=high), a_pod("waits", cpu="40")])
    await ground.until_placed("high", within_seconds=60)
    await until_reported(service, f"pods/{ground.name}/low", "preempted")
    await until_reported(service, f"pods/{ground.name}/waits", "refused")


@pytest.mark.timeout(400)
@pytest.mark.parametrize("binds", [False, True], ids=["kube-scheduler binds", "we bind"])
async def test_after_cleanup_no_object_has_anything_of_us_but_placed_and_resized_pods(
    stage: Stage, ground: Ground, control_plane: ControlPlane, admin: KubeClient, *, binds: bool
) -> None:
    settings = settings_to_leave(ground, binds=binds)
    await grant(ground, settings)
    high = await a_priority_class(ground)
    service = await stage.up(settings)
    to_cluster = ("--kubeconfig", str(control_plane.kubeconfig("admin")))
    await work(service, ground, high, to_cluster)
    await slackwater("pause", "all", *to_cluster)
    assert ground.name in await slackwater("cleanup", *to_cluster, code=1), "it names the Lease of the replica that runs"
    service.terminate()
    assert await service.ended(within_seconds=60) == 0
    await leftovers(ground, admin)

    before = await traces(admin)
    assert any("slackwater-history-acts-" in each for each in before)
    planned = json.loads(await slackwater("cleanup", "--dry-run", "--force", "-o", "json", *to_cluster))
    assert await traces(admin) == before
    assert {change["kind"] for change in planned["changes"]} >= {"pods", "nodes", "configmaps", "leases", "events"}
    done = json.loads(await slackwater("cleanup", "--force", "-o", "json", *to_cluster))
    assert done["left"] == []
    assert await traces(admin, but=frozenset({_BOUNDS})) == []
    pods = await ground.pods()
    assert pods["grows"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "2", "it keeps its size"
    assert all(pods[name]["spec"].get("nodeName") for name in ("grows", *(f"p-{number}" for number in range(4))))
    assert "schedulingGates" not in pods["gated"]["spec"]
    assert "nominatedNodeName" not in pods["nominated"]["status"]
    again = json.loads(await slackwater("cleanup", "-o", "json", *to_cluster))
    assert again["changes"] == []


async def leftovers(ground: Ground, client: KubeClient) -> None:
    """What a service that was killed may leave behind, written as it writes: a gate, a nomination, a drain."""
    objects = ApiObjects(client)
    gated = a_pod("gated", schedulingGates=[{"name": "slackwater.dev/gate"}])
    await ground.make_pods([gated, a_pod("nominated", scheduler="nobody")])
    pods, node = f"/api/v1/namespaces/{ground.name}/pods", (await ground.nodes())[0]["metadata"]["name"]
    annotations = {"slackwater.dev/preempting": "{}", "slackwater.dev/touched": "now", _BOUNDS: "{}"}
    await objects.patch(f"{pods}/nominated", {"metadata": {"annotations": annotations}})
    victim = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "PreemptionByScheduler",
        "message": f"{VICTIM_MESSAGE}{ground.name}/high",
    }
    status = {"nominatedNodeName": node, "conditions": [victim]}
    await objects.patch(f"{pods}/nominated/status", {"status": status}, "strategic")
    taint = {"key": "ToBeDeletedByClusterAutoscaler", "value": "1", "effect": "NoSchedule"}
    patch = {
        "metadata": {"annotations": {"slackwater.dev/cordoned": "true"}},
        "spec": {"unschedulable": True, "taints": [taint]},
    }
    await objects.patch(f"/api/v1/nodes/{node}", patch)
