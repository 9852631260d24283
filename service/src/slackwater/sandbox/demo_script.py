"""Defines the demo's workload and the service's settings for it, for the embedded cluster and the real control plane.

The workload has pods of a few sizes that are replaced again and again, some pods that fit nowhere, and the stories of
`demo_stories`.
"""

import itertools
from collections.abc import Callable
from random import Random
from typing import Final

import anyio

from slackwater.app.settings import Settings, loads
from slackwater.app.settings.serving import Recording
from slackwater.sandbox.demo_stories import (
    DEAR,
    KEPT_FOR,
    LARGEST_POOL,
    NAMESPACE,
    POOL,
    SHOP,
    STORE,
    THRIFTY,
    Send,
    bursts,
    consolidate,
    create,
    delete,
    drain_with_a_budget,
    grow_to_the_limit,
    node,
    pod,
    pods_that_fit_nowhere,
    preempt,
    preempt_beside_a_machine,
)

__all__ = ["NAMESPACE", "Workload", "demo_settings", "what_to_look_at"]

#: (name, CPU, memory) of the workload's pods.
_SIZES: Final = (("web", "250m", "512Mi"), ("worker", "1", "2Gi"), ("cache", "500m", "4Gi"), ("batch", "2", "1Gi"))
_ZONES: Final = ("a", "b", "c")
_CHURN_SECONDS: Final = 2.0
#: The store's pods fit on so many nodes. Fewer would leave a pod that was recreated during a drain without a node.
_N_STORE_NODES: Final = 2
#: Every `_CHURN_SECONDS` a twentieth of the pods is replaced, but at most `_MOST_REPLACED`, so that a demo of any size leaves
#: the machine idle most of the time.
_CHURN_SHARE: Final = 20
_MOST_REPLACED: Final = 10


def demo_settings(take_port: Callable[[], int], record: str | None = None, *, port: int | None = None) -> Settings:
    """The default settings with free ports (from `take_port`), and the node groups of the stories with their prices. What would
    take hours is made to take seconds: unneeded nodes, and the age and the plans of consolidation. `record`: the file to which
    decisions are recorded. `port`: that of the dashboard; None: a free one."""
    settings = loads(f"""
apiVersion: config.slackwater.dev/v1alpha1
kind: SlackwaterConfiguration
listeners:
  extender: {{address: "127.0.0.1:{take_port()}"}}
  agents: {{address: "127.0.0.1:{take_port()}"}}
  ops: {{address: "127.0.0.1:{port or take_port()}"}}
autoscaler:
  enabled: true
  scanInterval: 5s
  nodeGroups:
{_group(POOL, most=LARGEST_POOL, cpu="32", memory="128Gi", price="1.60")}
{_group(SHOP, least=1, most=4, cpu="8", memory="32Gi", price="0.40")}
{_group(STORE, least=_N_STORE_NODES, most=4, cpu="4", memory="16Gi", price="0.20")}
{_group(DEAR, most=0, cpu="16", memory="64Gi", price="0.80", taint=DEAR)}
{_group(THRIFTY, most=4, cpu="4", memory="16Gi", price="0.20", taint=DEAR)}
  scaleDown: {{unneededTime: 10s, delayAfterAdd: 15s}}
  consolidation: {{enabled: true, interval: 5s, minNodeAge: 0s, minSavingRatio: 0.1}}
  slack:
    groups:
    - {{name: {SHOP}, nodeLabels: {{slackwater.dev/node-group: {SHOP}}}, extraCapacity: {{min: {{cpu: "5"}}}}}}
""")
    return settings if record is None else settings.model_copy(update={"recording": Recording(file=record)})


def _group(name: str, *, least: int = 0, most: int, cpu: str, memory: str, price: str, taint: str = "") -> str:
    return f"""
  - name: {name}
    provider: kwok
    minSize: {least}
    maxSize: {most}
    price: "{price}"
    template:
      metadata: {{labels: {{type: kwok, topology.kubernetes.io/zone: a, {KEPT_FOR}: {taint or name}}}}}
      spec: {{taints: [{{key: dedicated, value: {taint or name}, effect: NoSchedule}}]}}
      status: {{capacity: {{cpu: "{cpu}", memory: {memory}, pods: "110"}}}}
    kwok: {{appearAfter: 5s, appearSpread: 5s, bootAfter: 3s}}"""


def what_to_look_at(ops: str) -> str:
    """The text that tells people what the demo shows and where, in lines of at most 80 columns. `ops`: the ops listener's
    URL."""
    return f"""
  dashboard   {ops}/
  dumpstate   {ops}/dumpstate
  metrics     {ops}/metrics
  status      {ops}/statusz
  series      {ops}/series

What to look at, within two minutes:
  Overview    what is wrong, since when, what to do; every node as a cell
  Pending     open "report-0": what is in its way, and what would help
  Node groups "{POOL}" grows to its limit of {LARGEST_POOL} nodes; one pod is left over
  Preemptions "urgent-..." comes every 40 s: kube-scheduler preempts for it;
              "express-...": a machine grew, so Slackwater does, behind a gate
  Slack       "{SHOP}-..." come at once and find room; new room is made
  Drains      "{DEAR}-node-..." costs more than its pods need: a "{THRIFTY}" node
              comes, room there is held for them, they are evicted to it;
              "{STORE}-node-..." waits for its PodDisruptionBudget
  Money       on Overview: what the nodes of groups cost an hour
  Time line   all of it, by kind; open an object for its story"""


class Workload:
    """The demo's workload: `nodes` nodes, `pods` pods of a few sizes, and the stories. `send` sends requests to the API
    server."""

    def __init__(self, send: Send, nodes: int, pods: int) -> None:
        self._send = send
        self._nodes = nodes
        self._pods = pods
        # Security: only chooses which pod is deleted next.
        self._rng = Random(0)
        self._serial = itertools.count()
        self._running: list[str] = []

    async def create(self) -> None:
        async with anyio.create_task_group() as group:
            for number in range(self._nodes):
                zone = _ZONES[number % len(_ZONES)]
                group.start_soon(self._send, "POST", "/api/v1/nodes", node(f"node-{number:03}", zone))
        await self._add(self._pods)
        await pods_that_fit_nowhere(self._send)

    async def _add(self, count: int) -> None:
        async with anyio.create_task_group() as group:
            for _ in range(count):
                serial = next(self._serial)
                kind, cpu, memory = _SIZES[serial % len(_SIZES)]
                name = f"{kind}-{serial}"
                self._running.append(name)
                group.start_soon(create, self._send, [pod(name, cpu, memory)])

    async def churn(self) -> None:
        """Replaces some pods again and again, and runs the stories at the same time. Runs until cancelled."""
        async with anyio.create_task_group() as group:
            for story in (grow_to_the_limit, preempt, preempt_beside_a_machine, bursts, drain_with_a_budget, consolidate):
                group.start_soon(story, self._send)
            await self._replace()

    async def _replace(self) -> None:
        while True:
            await anyio.sleep(_CHURN_SECONDS)
            count = min(max(len(self._running) // _CHURN_SHARE, 1), _MOST_REPLACED)
            going = self._rng.sample(self._running, count)
            for name in going:
                self._running.remove(name)
            await delete(self._send, going)
            await self._add(count)
