"""Runs the stories of the demo. Each story shows one capability, repeats as long as the demo runs, and has its own pods.

    await grow_to_the_limit(send)      # large pods come and leave: their node group grows to its limit, and shrinks
    await preempt(send)                # an important pod comes and goes: kube-scheduler preempts others for it
    await preempt_beside_a_machine(send)  # the same where only Slackwater's accounting finds the node full: it preempts
    await bursts(send)                 # pods that take the room of placeholders, which is then kept again
    await drain_with_a_budget(send)    # a drain whose eviction a PodDisruptionBudget forbids for a while
    await consolidate(send)            # few pods on a dear node: they move to a cheaper one, which is bought

`send` sends a request to the API server. The demo's pods have no controllers, so the stories recreate deleted pods themselves.
"""

import itertools
import json
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final

import anyio

from slackwater.model.objects import ZONE
from slackwater_protocol.names import NEON_VM_RESOURCES, NODE_GROUP, SAFE_TO_EVICT, TO_BE_DELETED_TAINT

#: Sends a request (method, path, body) to the API server and returns the decoded answer. Returns None if a GET or DELETE is
#: answered with 404; raises RuntimeError for other errors.
Send = Callable[[str, str, Any], Coroutine[Any, Any, Any]]

NAMESPACE: Final = "default"
#: The node groups of the stories: one grows to its limit, one keeps room for bursts, nodes of the third are drained.
POOL, SHOP, STORE = "large", "shop", "store"
#: The groups of consolidation: pods may run on nodes of both, and start on one of the first.
DEAR, THRIFTY = "dear", "thrifty"
#: The label by which pods select the nodes of both.
KEPT_FOR: Final = "demo.slackwater.dev/kept-for"
LARGEST_POOL: Final = 3
_PODS: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"
_BUDGETS: Final = f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets"
_N_LARGE: Final = 4
#: How long the large pods exist, and how long they are absent, so that their nodes are removed.
_LARGE_SECONDS: Final = 45.0
#: How long an important pod exists, and the time until the next one.
_URGENT_SECONDS: Final = 20.0
#: The priority class of important pods. It has to exist in a real API server; the embedded one has no priority classes.
URGENT, URGENT_PRIORITY = "urgent", 1000
#: The node of a virtual machine that has grown, and the number of pods beside the machine.
MACHINE_NODE: Final = "vm-node"
_N_SPOT: Final = 3
#: How long a preempted pod takes to end, so that people see the closed gate.
_ENDING_SECONDS: Final = 4.0
_SLOW_END: Final = "demo.slackwater.dev/slow-end"
_N_BURST: Final = 5
#: The time before each burst, in which room is made for it, and how long its pods exist.
_BURST_SECONDS: Final = 40.0
#: The number of the store's pods, each on its own node at first. The pods of two nodes fit on one. The store's budget allows
#: one disruption.
_N_STORE: Final = 3
#: How long a pod of the store is missing while a node is drained, and the time between two drains.
_MISSING_SECONDS: Final = 20.0
_BETWEEN_DRAINS_SECONDS: Final = 60.0
_LOOK_SECONDS: Final = 1.0
#: The pods on a dear node, and how long they run on the cheaper one.
_N_FRUGAL: Final = 2
_FRUGAL_SECONDS: Final = 30.0


def node(name: str, zone: str, *, cpu: str = "16", memory: str = "64Gi", group: str | None = None) -> dict[str, Any]:
    """The object of a node, which simulated kubelets keep ready. With `group`, the node admits only the group's pods."""
    capacity = {"cpu": cpu, "memory": memory, "pods": "110"}
    labels = {"kubernetes.io/hostname": name, ZONE: zone, "type": "kwok", **({} if group is None else {KEPT_FOR: group})}
    taints = [] if group is None else [{"key": "dedicated", "value": group, "effect": "NoSchedule"}]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels if group is None else {**labels, NODE_GROUP: group}},
        "spec": {"taints": taints},
        "status": {"capacity": capacity, "allocatable": capacity},
    }


def pod(name: str, cpu: str, memory: str, *, group: str | None = None, zone: str | None = None) -> dict[str, Any]:
    """The object of a pod. With `group`, the pod may run only on that group's nodes; with `zone`, only in that zone."""
    tolerations = [] if group is None else [{"key": "dedicated", "operator": "Equal", "value": group, "effect": "NoSchedule"}]
    wanted = {} if zone is None else {ZONE: zone}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"app": name.partition("-")[0]}},
        "spec": {
            "schedulerName": "slackwater",
            "tolerations": tolerations,
            "nodeSelector": wanted if group is None else {**wanted, NODE_GROUP: group},
            "containers": [{"name": "app", "image": "example/app", "resources": {"requests": {"cpu": cpu, "memory": memory}}}],
        },
    }


async def create(send: Send, pods: Iterable[dict[str, Any]]) -> None:
    for each in pods:
        await send("POST", _PODS, each)


async def delete(send: Send, names: Iterable[str]) -> None:
    for name in names:
        await send("DELETE", f"{_PODS}/{name}", {"gracePeriodSeconds": 0})


async def pods_that_fit_nowhere(send: Send) -> None:
    """Creates pods that stay pending: two are too large for any node, and each node of a zone has a little too little room for
    the third. Other pods have to be queued before, because the third would fit an empty node."""
    await create(send, [pod(f"huge-{number}", "64", "1Ti") for number in range(2)])
    await create(send, [pod("report-0", "11", "8Gi", zone="c")])


async def grow_to_the_limit(send: Send) -> None:
    """Creates large pods, one more than their group can grow for, and deletes them after a while, again and again."""
    pods = [pod(f"large-{number}", "20", "64Gi", group=POOL) for number in range(_N_LARGE)]
    while True:
        await create(send, pods)
        await anyio.sleep(_LARGE_SECONDS)
        await delete(send, (each["metadata"]["name"] for each in pods))
        await anyio.sleep(_LARGE_SECONDS)


async def preempt(send: Send) -> None:
    """Creates an important pod, nearly as large as a node, and deletes it after a while, again and again."""
    await _come_and_go(send, _URGENT_SECONDS, lambda number: [_important(pod(f"urgent-{number}", "15", "8Gi", zone="b"))])


async def _come_and_go(send: Send, seconds: float, pods_of: Callable[[int], list[dict[str, Any]]]) -> None:
    for number in itertools.count():
        await anyio.sleep(seconds)
        pods = pods_of(number)
        await create(send, pods)
        await anyio.sleep(seconds)
        await delete(send, (each["metadata"]["name"] for each in pods))


def _important(found: dict[str, Any]) -> dict[str, Any]:
    found["spec"] |= {"priority": URGENT_PRIORITY, "priorityClassName": URGENT}
    return found


async def preempt_beside_a_machine(send: Send) -> None:
    """Creates an important pod for a node where a virtual machine has grown beyond its requests, and deletes it after a while,
    again and again. kube-scheduler counts requests, so it finds room there and preempts nobody; Slackwater counts what the
    machine uses, shuts the pod's gate, deletes pods, and nominates the node when they have ended."""
    await send("POST", "/api/v1/nodes", node(MACHINE_NODE, "a", cpu="8", memory="32Gi", group=MACHINE_NODE))
    machine = _important(pod("vm-0", "1", "4Gi", group=MACHINE_NODE))  # uses 5 CPUs and requests 1
    slots = {"min": 1, "max": 20, "use": 20}
    use = {"cpus": {"min": "250m", "max": "5", "use": "5"}, "memorySlots": slots, "memorySlotSize": "1Gi"}
    machine["metadata"]["annotations"] = {NEON_VM_RESOURCES: json.dumps(use)}
    machine["spec"]["nodeName"] = MACHINE_NODE
    await create(send, [machine])
    spot = [f"spot-{number}" for number in range(_N_SPOT)]
    for number in itertools.count():
        gone = [name for name in spot if await send("GET", f"{_PODS}/{name}", None) is None]
        pods = [pod(name, "1", "2Gi", group=MACHINE_NODE) for name in gone]
        for each in pods:
            each["metadata"]["finalizers"] = [_SLOW_END]
            each["spec"]["nodeName"] = MACHINE_NODE
        await create(send, pods)
        await anyio.sleep(_URGENT_SECONDS)
        await create(send, [_important(pod(f"express-{number}", "2", "2Gi", group=MACHINE_NODE))])
        await _end_slowly(send, spot)
        await anyio.sleep(_URGENT_SECONDS)
        await delete(send, [f"express-{number}"])


async def _end_slowly(send: Send, names: Iterable[str]) -> None:
    """Waits until somebody deletes some of these pods, and lets them end after a while."""
    while not any("deletionTimestamp" in each["metadata"] for each in await _pods(send, names)):  # noqa: ASYNC110  # only the API server knows
        await anyio.sleep(_LOOK_SECONDS)
    await anyio.sleep(_ENDING_SECONDS)
    for each in await _pods(send, names):
        if "deletionTimestamp" not in each["metadata"]:
            continue
        each["metadata"] |= {"finalizers": [], "resourceVersion": ""}  # whatever was written meanwhile
        await send("PUT", f"{_PODS}/{each['metadata']['name']}", each)


async def _pods(send: Send, names: Iterable[str]) -> list[dict[str, Any]]:
    found = [await send("GET", f"{_PODS}/{name}", None) for name in names]
    return [each for each in found if each is not None]


async def bursts(send: Send) -> None:
    """Creates several pods of the shop at once, which use the room of placeholders, and deletes them after a while, again and
    again."""

    def burst(number: int) -> list[dict[str, Any]]:
        return [pod(f"shop-{number}-{nth}", "1", "2Gi", group=SHOP) for nth in range(_N_BURST)]

    await _come_and_go(send, _BURST_SECONDS, burst)


async def drain_with_a_budget(send: Send) -> None:
    """Shows a drain that has to wait for a budget. The store's nodes are less than half full, so one is drained. At that moment
    this story deletes a store pod of another node, and the budget forbids evictions until that pod is recreated."""
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": STORE, "namespace": NAMESPACE},
        "spec": {"minAvailable": _N_STORE - 1, "selector": {"matchLabels": {"app": STORE}}},
    }
    await send("POST", _BUDGETS, budget)
    nodes = [f"{STORE}-node-{number}" for number in range(_N_STORE)]
    for number, name in enumerate(nodes):
        await _add_store_node(send, name, number)
    for added in itertools.count(_N_STORE):
        drained = await _tainted(send, nodes)
        here = await _store_pods_by_node(send)
        failed = next(pods[0] for name, pods in sorted(here.items()) if name != drained)
        await delete(send, [failed])
        await anyio.sleep(_MISSING_SECONDS)
        await create(send, [_store_pod(failed)])
        for name in here[drained]:
            while await send("GET", f"{_PODS}/{name}", None) is not None:  # noqa: ASYNC110  # only the API server knows
                await anyio.sleep(_LOOK_SECONDS)
            await create(send, [_store_pod(name)])
        nodes.remove(drained)
        await anyio.sleep(_BETWEEN_DRAINS_SECONDS)
        nodes.append(f"{STORE}-node-{added}")
        moved = next(pods[0] for pods in (await _store_pods_by_node(send)).values() if len(pods) > 1)
        await delete(send, [moved])
        await _add_store_node(send, nodes[-1], int(moved.rpartition("-")[2]))


async def _add_store_node(send: Send, name: str, number: int) -> None:
    """Creates a node, and a pod of the store that is bound to it without a scheduler."""
    await send("POST", "/api/v1/nodes", node(name, "a", cpu="4", memory="16Gi", group=STORE))
    await create(send, [_store_pod(f"{STORE}-{number}", on=name)])


def _store_pod(name: str, *, on: str | None = None) -> dict[str, Any]:
    found = pod(name, "1800m", "4Gi", group=STORE)
    found["metadata"]["annotations"] = {SAFE_TO_EVICT: "true"}  # no controller owns it
    if on is not None:
        found["spec"]["nodeName"] = on
    return found


async def consolidate(send: Send) -> None:
    """Creates a dear node with two small pods, again and again. Consolidation buys a cheaper node, evicts the pods, and removes
    the dear node. This story makes evicted pods again, as a controller would."""
    for number in itertools.count():
        name = f"{DEAR}-node-{number}"
        pods = {each["metadata"]["name"]: each for each in (_frugal_pod(f"frugal-{number}-{nth}") for nth in range(_N_FRUGAL))}
        await send("POST", "/api/v1/nodes", node(name, "a", cpu="16", memory="64Gi", group=DEAR))
        await create(send, [{**each, "spec": {**each["spec"], "nodeName": name}} for each in pods.values()])
        while await send("GET", f"/api/v1/nodes/{name}", None) is not None:
            here = {each["metadata"]["name"] for each in await _pods(send, pods)}
            await create(send, [each for title, each in pods.items() if title not in here])
            await anyio.sleep(_LOOK_SECONDS)
        await anyio.sleep(_FRUGAL_SECONDS)
        await delete(send, pods)


def _frugal_pod(name: str) -> dict[str, Any]:
    """The object of a pod that may run on the nodes of either group of consolidation."""
    found = pod(name, "1", "4Gi", group=DEAR)
    found["metadata"]["annotations"] = {SAFE_TO_EVICT: "true"}  # no controller owns it
    found["spec"]["nodeSelector"] = {KEPT_FOR: DEAR}
    return found


async def _tainted(send: Send, names: Iterable[str]) -> str:
    """Waits until one of these nodes has the taint of a drain, and returns its name."""
    while True:
        for name in names:
            found = await send("GET", f"/api/v1/nodes/{name}", None)
            taints = [] if found is None else found["spec"].get("taints") or []
            if any(taint["key"] == TO_BE_DELETED_TAINT for taint in taints):
                return name
        await anyio.sleep(_LOOK_SECONDS)


async def _store_pods_by_node(send: Send) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for number in range(_N_STORE):
        name = f"{STORE}-{number}"
        here = await send("GET", f"{_PODS}/{name}", None)
        if here is not None and here["spec"].get("nodeName"):
            found.setdefault(here["spec"]["nodeName"], []).append(name)
    return found
