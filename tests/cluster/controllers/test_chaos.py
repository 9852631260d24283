"""A busy cluster whose API server, etcd, scheduler and service are killed and paused at random: afterwards every law holds.

The moments come from a seed that is printed; what comes of them does not repeat. `make chaos DURATION=10m [SEED=n]` goes on
for longer.
"""

import os
import random
from collections import Counter, defaultdict
from contextlib import suppress
from fractions import Fraction
from typing import Any, Final

import aiohttp
import anyio
import pytest

from slackwater_protocol.durations import parse_duration, seconds
from slackwater_protocol.names import GATE, TO_BE_DELETED_TAINT
from tests.cluster.support.bodies import Json, a_deployment, a_pod
from tests.cluster.support.ground import MERGE_PATCH, Ground
from tests.cluster.support.requests_formula import counts, quantity
from tests.cluster.support.same_state import over_total, same_state
from tests.cluster.support.slackwater_process import SlackwaterProcess
from tests.cluster.support.stage import Stage
from tests.cluster.support.strikes import COMPONENTS, SERVICE, Strikes, targets_of
from tests.support.seeds import a_seed
from tests.support.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.cluster]

SECONDS: Final = seconds(parse_duration(os.environ.get("SLACKWATER_TEST_CHAOS", "45s")))
SEED: Final = a_seed("SLACKWATER_TEST_CHAOS_SEED")
WORKLOADS: Final = ("alpha", "beta", "gamma")
MOST_REPLICAS: Final = 25
#: Of each workload in the end.
REPLICAS: Final = 12
#: kube-scheduler tries a pod again after at most 10 s, a node needs some seconds, and preemptions five minutes at worst.
CALM_WITHIN_SECONDS: Final = 240.0
_DEPLOYMENTS: Final = "/apis/apps/v1/namespaces/{}/deployments"


def settings_of(ground: Ground) -> dict[str, Any]:
    group = {
        "name": "pool",
        "provider": "kwok",
        "maxSize": 8,
        "template": {"status": {"capacity": {"cpu": "8", "memory": "32Gi", "pods": "110"}}},
        "kwok": {"appearAfter": "1s", "bootAfter": "500ms"},
    }
    return {
        # What we leave free, kube-scheduler does not see: pods preempt by our accounting too.
        "nodes": {"system": {"cpu": "500m"}},
        "audit": {"interval": "10s"},
        "autoscaler": {
            "enabled": True,
            "scanInterval": "3s",
            "creation": {"backoff": {"initial": "5s", "max": "15s"}},
            "nodeGroups": [group],
            "providers": {"kwok": {"namespace": ground.name, "seed": 7}},
            "scaleDown": {"unneededTime": "10s", "delayAfterAdd": "10s", "delayAfterFailure": "10s"},
        },
    }


class Load:
    """What people and controllers do meanwhile. What the API server does not take is not done."""

    def __init__(self, ground: Ground, rng: random.Random, high: str) -> None:
        self._ground = ground
        self._api = ground.api
        self._rng = rng
        self._high = high
        self._made = 0
        self.done: Counter[str] = Counter()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await anyio.sleep(self._rng.uniform(0.2, 1.5))
            what = self._rng.choice((self.scale, self.scale, self.delete_one, self.preempt, self.withdraw))
            with suppress(aiohttp.ClientError, TimeoutError, OSError), anyio.fail_after(5):
                await what()
                self.done[what.__name__] += 1

    async def scale(self) -> None:
        await self.resize(self._rng.choice(WORKLOADS), self._rng.randrange(MOST_REPLICAS + 1))

    async def resize(self, name: str, replicas: int) -> None:
        path = f"{_DEPLOYMENTS.format(self._ground.name)}/{name}"
        await self._send("PATCH", path, json={"spec": {"replicas": replicas}}, headers=MERGE_PATCH)

    async def preempt(self) -> None:
        self._made += 1
        body = a_pod(f"high-{self._made}", cpu="1500m", priorityClassName=self._high)
        await self._send("POST", self._ground.pods_path, json=body)

    async def withdraw(self) -> None:
        await self._delete_any("high-")

    async def delete_one(self) -> None:
        await self._delete_any(*(f"{name}-" for name in WORKLOADS))

    async def _delete_any(self, *prefixes: str) -> None:
        async with self._api.get(self._ground.pods_path) as answer:
            pods = (await answer.json())["items"] if answer.ok else []
        names = [pod["metadata"]["name"] for pod in pods if pod["metadata"]["name"].startswith(prefixes)]
        if names:
            await self._send("DELETE", f"{self._ground.pods_path}/{self._rng.choice(sorted(names))}")

    async def _send(self, method: str, path: str, **more: Any) -> None:
        async with self._api.request(method, path, **more) as answer:
            await answer.read()


class Watch:
    """Looks again and again, at the API server and at the service, as far as they answer. `looks` says how often each did."""

    def __init__(self, api: aiohttp.ClientSession, service: SlackwaterProcess) -> None:
        self._api = api
        self._service = service
        self.looks: Counter[str] = Counter()

    async def run(self) -> None:
        """Until cancelled; AssertionError at the first node that has more than it can."""
        while True:
            await anyio.sleep(0.5)
            for look in (self.at_the_cluster, self.at_the_service):
                with suppress(aiohttp.ClientError, TimeoutError, OSError), anyio.fail_after(3):
                    await look()
                    self.looks[look.__name__] += 1

    async def at_the_cluster(self) -> None:
        nodes, pods = [await self._items(path) for path in ("/api/v1/nodes", "/api/v1/pods")]
        room = {node["metadata"]["name"]: quantity(node["status"]["allocatable"]["cpu"]) for node in nodes}
        asked: dict[str, Fraction] = defaultdict(Fraction)
        for pod in pods:
            if counts(pod):
                requests = (each["resources"]["requests"]["cpu"] for each in pod["spec"]["containers"])
                asked[pod["spec"]["nodeName"]] += sum(map(quantity, requests))
        # A pod that is listed may be on a node that came, or went, after the nodes were.
        over = {name: (float(cpu), float(room[name])) for name, cpu in asked.items() if name in room and cpu > room[name]}
        assert not over, f"asked and allocatable CPU: {over}"

    async def at_the_service(self) -> None:
        assert not (found := over_total(await self._service.dumpstate())), found

    async def _items(self, path: str) -> list[Json]:
        async with self._api.get(path) as answer:
            answer.raise_for_status()
            return list((await answer.json())["items"])


async def a_priority_class(ground: Ground) -> str:
    body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000}
    await ground.create("/apis/scheduling.k8s.io/v1/priorityclasses", body)
    return "high"


@pytest.mark.timeout(int(SECONDS + 3 * CALM_WITHIN_SECONDS + 120))
async def test_whatever_dies_or_hangs_afterwards_all_laws_hold_and_every_pod_runs(stage: Stage, ground: Ground) -> None:
    print(f"seed={SEED} seconds={SECONDS:g}")
    rng = random.Random(SEED)
    load = Load(ground, random.Random(rng.random()), await a_priority_class(ground))
    await ground.make_nodes(3, cpu="8")
    service = await stage.up(settings_of(ground), kubeconfig=stage.control_plane.kubeconfig("admin"))
    for name, cpu in zip(WORKLOADS, ("300m", "500m", "700m"), strict=True):
        await ground.create(_DEPLOYMENTS.format(ground.name), a_deployment(name, 10, cpu=cpu))
    async with stage.control_plane.session() as api, anyio.create_task_group() as group:
        watch = Watch(api, service)
        group.start_soon(load.run)
        group.start_soon(watch.run)
        strikes = Strikes(targets_of(stage.control_plane, service), random.Random(rng.random()), seconds=SECONDS)
        await strikes.run()
        await stage.control_plane.wait_ready()
        group.cancel_scope.cancel()
    print(f"struck: {dict(strikes.done)}\ndone: {dict(load.done)}\nlooks: {dict(watch.looks)}")
    assert min(watch.looks.values(), default=0) > SECONDS / 20, "both were looked at often enough to say anything"
    # kube-controller-manager waits five minutes for answers that the strikes have lost, longer than calm may take.
    await stage.control_plane.restart("kube-controller-manager")
    await settle(ground)
    await until_calm(ground, service)
    doubled = [name for name, n in Counter(bound(stage)).items() if n > 1]
    assert doubled == [], "no pod is bound twice"
    assert "the cluster state differed" not in service.log, "no audit found a difference"
    assert {name for name, _ in strikes.done} <= {*COMPONENTS, SERVICE}


async def settle(ground: Ground) -> None:
    """The load comes to rest at a size that fits; unlike while it was busy, the API server has to take it."""
    for name in WORKLOADS:
        path = f"{_DEPLOYMENTS.format(ground.name)}/{name}"

        async def resized(path: str = path) -> int:
            async with ground.api.patch(path, json={"spec": {"replicas": REPLICAS}}, headers=MERGE_PATCH) as answer:
                return answer.status

        await eventually(resized, lambda status: status == 200, within_seconds=60, wanted=f"{name} resized")


async def reported(ground: Ground, name: str) -> str:
    """What the Deployment asks for, and what its controller says of it: where pods are missing, whose word is that?"""
    found = await ground.read(f"{_DEPLOYMENTS.format(ground.name)}/{name}")
    return f"{name}: asks {found['spec']['replicas']}, generation {found['metadata']['generation']}, status {found['status']}"


def bound(stage: Stage) -> list[str]:
    """The pods that were bound, each as often as the API server said so. No two have the same name here."""
    return [request.name for request in stage.binds() if request.status == 201]


async def until_calm(ground: Ground, service: SlackwaterProcess) -> None:
    """Every pod runs, no gate is shut, no room is held, no node is being removed or will soon be, and the cluster state is the
    cluster."""

    async def unrest() -> list[str]:
        pods, nodes = await ground.pods(), await ground.nodes()
        dump = await service.dumpstate()
        waiting = [name for name, pod in pods.items() if pod["status"].get("phase") != "Running"]
        gated = [name for name, pod in pods.items() if {"name": GATE} in pod["spec"].get("schedulingGates", [])]
        tainted = [node["metadata"]["name"] for node in nodes if _is_going(node)]
        kinds = Counter(name.split("-")[0] for name in pods)
        found = {"waiting": waiting, "gated": gated, "tainted": tainted, "held": dump["holds"], "gates": dump["gates"]}
        if unneeded := (await service.metrics()).total("cluster_autoscaler_unneeded_nodes_count"):
            found["unneeded"] = [f"{unneeded} nodes"]
        short = [f"{kinds[name]} pods of {await reported(ground, name)}" for name in WORKLOADS if kinds[name] != REPLICAS]
        return [*(f"{what}: {some[:5]}" for what, some in found.items() if some), *short]

    await eventually(unrest, lambda found: not found, within_seconds=CALM_WITHIN_SECONDS, wanted="calm", every_seconds=1)
    await same_state(service, ground, within_seconds=60)


def _is_going(node: Json) -> bool:
    return any(taint["key"] == TO_BE_DELETED_TAINT for taint in node["spec"].get("taints", []))
