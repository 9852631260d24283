"""`slackwater demo`: a real control plane on this machine, the service in this process, and a small workload to look at."""

import itertools
import sys
from collections.abc import Mapping
from functools import partial
from random import Random
from typing import Any, Final

import aiohttp
import anyio
import anyio.to_thread
from rich.console import Console

from slackwater.app import rbac
from slackwater.app.controlplane.build import build
from slackwater.app.controlplane.ports import FreePorts
from slackwater.app.controlplane.progress import shown_on
from slackwater.app.controlplane.stack import ControlPlane
from slackwater.app.schedulerconfig import generate
from slackwater.app.settings import Settings, loads
from slackwater.app.wiring import Running, serve

_NAMESPACE: Final = "default"
#: (name, CPU, memory) of what the workload consists of.
_SIZES: Final = (("web", "250m", "512Mi"), ("worker", "1", "2Gi"), ("cache", "500m", "4Gi"), ("batch", "2", "1Gi"))
_ZONES: Final = ("a", "b", "c")
_RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"
#: The group that grows, and how many pods need it to.
_POOL: Final = "large"
_N_LARGE: Final = 3
_CHURN_SECONDS: Final = 2.0
_CHURN_SHARE: Final = 20


async def run_demo(*, nodes: int, pods: int, duration_seconds: float | None) -> None:
    """Until Ctrl-C, SIGTERM, or `duration_seconds` after everything is up."""
    console = Console(file=sys.stderr)
    console.print("Building the control plane (some minutes the first time, then cached)")
    with shown_on(sys.stderr) as progress:
        binaries = await anyio.to_thread.run_sync(partial(build, progress), abandon_on_cancel=True)
    console.print("Starting etcd, kube-apiserver and KWOK")
    async with ControlPlane(binaries) as cp, cp.session() as api, anyio.create_task_group() as group:
        settings = _settings(FreePorts(Random()))
        await _grant(api, settings)

        async def present(running: Running) -> None:
            console.print("Starting kube-scheduler with the generated configuration, and the workload")
            await cp.start_scheduler(generate(settings, kubeconfig=str(cp.kubeconfig("scheduler")), extender_url=None))
            workload = _Workload(api, nodes, pods)
            await workload.create()
            group.start_soon(workload.churn, name="workload")
            _explain(console, settings, cp, running)
            if duration_seconds is not None:
                await anyio.sleep(duration_seconds)
                _report(console, running)
                group.cancel_scope.cancel()

        await serve(settings, config_path=None, kubeconfig=str(cp.kubeconfig("slackwater")), on_ready=present)
        group.cancel_scope.cancel()
    console.print("Everything stopped.")


def _settings(ports: FreePorts) -> Settings:
    """The defaults, but on ports that are free, and with a node group that may grow."""
    return loads(f"""
apiVersion: config.slackwater.dev/v1alpha1
kind: SlackwaterConfiguration
listeners:
  extender: {{address: "127.0.0.1:{ports.take()}"}}
  ops: {{address: "127.0.0.1:{ports.take()}"}}
autoscaler:
  enabled: true
  nodeGroups:
  - name: {_POOL}
    provider: kwok
    maxSize: 10
    template:
      metadata: {{labels: {{type: kwok, topology.kubernetes.io/zone: a}}}}
      status: {{capacity: {{cpu: "32", memory: 128Gi, pods: "110"}}}}
    kwok: {{appearAfter: 5s, appearSpread: 5s, bootAfter: 3s}}
  scaleDown: {{unneededTime: 1m, delayAfterAdd: 1m}}
""")


async def _grant(api: aiohttp.ClientSession, settings: Settings) -> None:
    """What `slackwater config rbac` prints for these settings."""
    account = rbac.user("slackwater")
    await _create(api, f"{_RBAC}/clusterroles", rbac.cluster_role(settings))
    await _create(api, f"{_RBAC}/clusterrolebindings", rbac.cluster_role_binding(account))
    for role in (rbac.record_role(settings), rbac.status_role(settings)):
        assert role is not None
        path = f"{_RBAC}/namespaces/{role['metadata']['namespace']}"
        await _create(api, f"{path}/roles", role)
        await _create(api, f"{path}/rolebindings", rbac.role_binding(role, account))


def _explain(console: Console, settings: Settings, cp: ControlPlane, running: Running) -> None:
    ops = f"http://{settings.listeners.ops.address}"
    console.print(f"""
Slackwater decides for {len(running.world.nodes)} nodes; a real kube-scheduler places the pods through it.

  dashboard   {ops}/              every node as a bar: Reserved, Watermark, what is held
  dumpstate   {ops}/dumpstate     the whole state as JSON (or: slackwater dumpstate --url {ops})
  metrics     {ops}/metrics       slackwater_extender_requests_total, slackwater_filter_verdicts_total ...
  status      {ops}/statusz

  kubectl     --kubeconfig {cp.kubeconfig("admin")}
  logs        {cp.logs}

What to look at: pods come and go, and the bars with them. The pods "large-..." fit no node that is there: within half a
minute group "{_POOL}" has grown for them (kubectl get events, and ConfigMap slackwater-autoscaler-status in kube-system). The
pods "huge-..." ask for more than any node could have, and stay pending with the reason. Cordon a node or delete pods with
kubectl and watch the picture follow. Ctrl-C ends everything.
""", highlight=False, soft_wrap=True)  # fmt: skip


def _report(console: Console, running: Running) -> None:
    tally = running.world.tally
    console.print(
        f"{tally.confirmed} pods bound and seen, {tally.attempts} attempts, {tally.failures} failures, "
        f"{int(tally.bind_refusals.sum())} binds refused, {tally.over_total} over Total"
    )


class _Workload:
    """Nodes that KWOK keeps alive, pods of a few sizes, and some that fit nowhere."""

    def __init__(self, api: aiohttp.ClientSession, nodes: int, pods: int) -> None:
        self._api = api
        self._nodes = nodes
        self._pods = pods
        # Security: which pod goes next.
        self._rng = Random(0)
        self._serial = itertools.count()
        self._running: list[str] = []

    async def create(self) -> None:
        async with anyio.create_task_group() as group:
            for number in range(self._nodes):
                group.start_soon(_create, self._api, "/api/v1/nodes", _node(number))
        for number in range(2):
            await _create(self._api, f"/api/v1/namespaces/{_NAMESPACE}/pods", _pod(f"huge-{number}", "64", "1Ti"))
        for number in range(_N_LARGE):
            await _create(self._api, f"/api/v1/namespaces/{_NAMESPACE}/pods", _pod(f"large-{number}", "20", "64Gi"))
        await self._add(self._pods)

    async def _add(self, count: int) -> None:
        async with anyio.create_task_group() as group:
            for _ in range(count):
                serial = next(self._serial)
                kind, cpu, memory = _SIZES[serial % len(_SIZES)]
                name = f"{kind}-{serial}"
                self._running.append(name)
                path = f"/api/v1/namespaces/{_NAMESPACE}/pods"
                group.start_soon(_create, self._api, path, _pod(name, cpu, memory))

    async def churn(self) -> None:
        """Replaces a share of the pods again and again."""
        while True:
            await anyio.sleep(_CHURN_SECONDS)
            going = self._rng.sample(self._running, max(len(self._running) // _CHURN_SHARE, 1))
            for name in going:
                self._running.remove(name)
                path = f"/api/v1/namespaces/{_NAMESPACE}/pods/{name}"
                async with self._api.delete(path, params={"gracePeriodSeconds": "0"}) as answer:
                    await answer.read()
            await self._add(len(going))


def _node(number: int) -> dict[str, Any]:
    capacity = {"cpu": "16", "memory": "64Gi", "pods": "110"}
    name = f"node-{number:03}"
    labels = {
        "kubernetes.io/hostname": name,
        "topology.kubernetes.io/zone": _ZONES[number % len(_ZONES)],
        "type": "kwok",
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"capacity": capacity, "allocatable": capacity},
    }


def _pod(name: str, cpu: str, memory: str) -> dict[str, Any]:
    requests = {"cpu": cpu, "memory": memory}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": _NAMESPACE, "labels": {"app": name.partition("-")[0]}},
        "spec": {
            "schedulerName": "slackwater",
            "containers": [{"name": "app", "image": "example/app", "resources": {"requests": requests}}],
        },
    }


async def _create(api: aiohttp.ClientSession, path: str, item: Mapping[str, Any]) -> None:
    async with api.post(path, json=item) as answer:
        if answer.status not in {200, 201}:
            raise RuntimeError(f"creating {item['kind']} {item['metadata']['name']}: {answer.status} {await answer.text()}")
