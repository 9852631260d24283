"""What the demo shows, in whichever cluster: nodes, pods of a few sizes that come and go, some that fit nowhere."""

import itertools
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, Final

import anyio

from slackwater.app.settings import Settings, loads
from slackwater.app.settings.recording import Recording

#: Carries out a request of the API server with this method, path and body; raises where it is refused.
Send = Callable[[str, str, Any], Coroutine[Any, Any, None]]

NAMESPACE: Final = "default"
#: The group that grows, and how many pods need it to.
POOL: Final = "large"
_N_LARGE: Final = 3
#: (name, CPU, memory) of what the workload consists of.
_SIZES: Final = (("web", "250m", "512Mi"), ("worker", "1", "2Gi"), ("cache", "500m", "4Gi"), ("batch", "2", "1Gi"))
_ZONES: Final = ("a", "b", "c")
_CHURN_SECONDS: Final = 2.0
_CHURN_SHARE: Final = 20
_PODS: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"


def demo_settings(take_port: Callable[[], int], record: str | None = None) -> Settings:
    """The defaults, but on ports that are free, and with a node group that may grow. `record`: a file for decisions."""
    settings = loads(f"""
apiVersion: config.slackwater.dev/v1alpha1
kind: SlackwaterConfiguration
listeners:
  extender: {{address: "127.0.0.1:{take_port()}"}}
  agents: {{address: "127.0.0.1:{take_port()}"}}
  ops: {{address: "127.0.0.1:{take_port()}"}}
autoscaler:
  enabled: true
  nodeGroups:
  - name: {POOL}
    provider: kwok
    maxSize: 10
    template:
      metadata: {{labels: {{type: kwok, topology.kubernetes.io/zone: a}}}}
      status: {{capacity: {{cpu: "32", memory: 128Gi, pods: "110"}}}}
    kwok: {{appearAfter: 5s, appearSpread: 5s, bootAfter: 3s}}
  scaleDown: {{unneededTime: 1m, delayAfterAdd: 1m}}
""")
    return settings if record is None else settings.model_copy(update={"recording": Recording(file=record, keep=0)})


class Workload:
    """`nodes` that are kept alive by the cluster, `pods` of a few sizes."""

    def __init__(self, send: Send, nodes: int, pods: int) -> None:
        self._send = send
        self._nodes = nodes
        self._pods = pods
        # Security: which pod goes next.
        self._rng = Random(0)
        self._serial = itertools.count()
        self._running: list[str] = []

    async def create(self) -> None:
        async with anyio.create_task_group() as group:
            for number in range(self._nodes):
                group.start_soon(self._send, "POST", "/api/v1/nodes", _node(number))
        for number in range(2):
            await self._send("POST", _PODS, _pod(f"huge-{number}", "64", "1Ti"))
        for number in range(_N_LARGE):
            await self._send("POST", _PODS, _pod(f"large-{number}", "20", "64Gi"))
        await self._add(self._pods)

    async def _add(self, count: int) -> None:
        async with anyio.create_task_group() as group:
            for _ in range(count):
                serial = next(self._serial)
                kind, cpu, memory = _SIZES[serial % len(_SIZES)]
                name = f"{kind}-{serial}"
                self._running.append(name)
                group.start_soon(self._send, "POST", _PODS, _pod(name, cpu, memory))

    async def churn(self) -> None:
        """Replaces a share of the pods again and again."""
        while True:
            await anyio.sleep(_CHURN_SECONDS)
            going = self._rng.sample(self._running, max(len(self._running) // _CHURN_SHARE, 1))
            for name in going:
                self._running.remove(name)
                await self._send("DELETE", f"{_PODS}/{name}", {"gracePeriodSeconds": 0})
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
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"app": name.partition("-")[0]}},
        "spec": {
            "schedulerName": "slackwater",
            "containers": [{"name": "app", "image": "example/app", "resources": {"requests": requests}}],
        },
    }
