"""One test's part of the cluster: a namespace of its own, and nodes that bear the test's label.

Makes and removes many objects at once, and waits for them to be bound. Deliberately absent: any knowledge of the service;
what is seen here is what the API server says.
"""

import json
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import aiohttp
import anyio

from tests.cluster.support.bodies import Json, a_node
from tests.support.waiting import eventually

_WIDTH: Final = 40
_LABEL: Final = "slackwater.test/ground"
#: Metadata alone is a tenth of a pod.
_METADATA: Final = {"Accept": "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"}
_ASK_EVERY_SECONDS: Final = 0.1
_GONE_WITHIN_SECONDS: Final = 60.0
_GONE_A_SECOND: Final = 50
_LATER: Final = frozenset({429, 500, 503, 504})
_TRIES: Final = 5
MERGE_PATCH: Final = {"Content-Type": "application/merge-patch+json"}


class Ground:
    """`name` is the namespace, the prefix of nodes, and the value of their label."""

    def __init__(self, api: aiohttp.ClientSession, name: str) -> None:
        self.api = api
        self.name = name
        self.pods_path = f"/api/v1/namespaces/{name}/pods"

    async def open(self) -> None:
        await self.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.name}})

    async def clear(self) -> None:
        """Removes the pods and the nodes; returns when the API server has none of them any more."""
        within = _GONE_WITHIN_SECONDS + len(await self._left()) / _GONE_A_SECOND
        await self._send("DELETE", self.pods_path, params={"gracePeriodSeconds": "0"})
        await self._send("DELETE", "/api/v1/nodes", params={"labelSelector": f"{_LABEL}={self.name}"})
        wanted = "no pods and no nodes"
        await eventually(self._left, lambda left: not left, within_seconds=within, wanted=wanted)

    async def _left(self) -> list[str]:
        return await self._names(self.pods_path) + await self._names("/api/v1/nodes", labelSelector=f"{_LABEL}={self.name}")

    # Nodes

    async def make_nodes(self, count: int, *, tag: str = "n", **shape: Any) -> list[str]:
        """Creates nodes, as `a_node` shapes them, and answers their names."""
        names = [f"{self.name}-{tag}-{number:03}" for number in range(count)]
        labels = {**shape.pop("labels", {}), _LABEL: self.name}
        await self._each(names, lambda name: self.create("/api/v1/nodes", a_node(name, labels=labels, **shape)))
        return names

    async def patch_node(self, name: str, patch: Json, *, part: str = "") -> None:
        """A merge patch of a node, or of a part such as `/status`."""
        await self._send("PATCH", f"/api/v1/nodes/{name}{part}", json=patch, headers=MERGE_PATCH)

    async def delete_node(self, name: str) -> None:
        await self._send("DELETE", f"/api/v1/nodes/{name}")

    async def nodes(self) -> list[Json]:
        """All nodes of the cluster."""
        return await self._items("/api/v1/nodes")

    # Pods

    async def make_pods(self, bodies: Iterable[Json]) -> list[str]:
        """Creates pods, 40 at a time, and answers their names."""
        pods = list(bodies)
        await self._each(pods, lambda pod: self.create(self.pods_path, pod))
        return [pod["metadata"]["name"] for pod in pods]

    async def bind(self, pod: str, node: str) -> None:
        """POSTs a Binding as the admin: past every scheduler."""
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}, "target": target}
        await self.create(f"{self.pods_path}/{pod}/binding", body)

    async def delete_pods(self, names: Iterable[str]) -> None:
        """Deletes pods at once, whatever their grace period."""
        now = {"gracePeriodSeconds": "0"}
        await self._each(list(names), lambda name: self._send("DELETE", f"{self.pods_path}/{name}", params=now))

    async def finish_pod(self, name: str, *, phase: str) -> None:
        """The pod has run to its end, as a kubelet would tell."""
        await self._send("PATCH", f"{self.pods_path}/{name}/status", json={"status": {"phase": phase}}, headers=MERGE_PATCH)

    async def pods(self) -> dict[str, Json]:
        """The pods of this ground by name."""
        return {pod["metadata"]["name"]: pod for pod in await self._items(self.pods_path)}

    async def all_pods(self) -> list[Json]:
        """The pods of the whole cluster."""
        return await self._items("/api/v1/pods")

    async def placed(self) -> dict[str, str]:
        """Of the pods that are bound, the name of the node."""
        return {name: node for name, pod in (await self.pods()).items() if (node := pod["spec"].get("nodeName"))}

    async def pending(self) -> list[str]:
        """Names of the pods without a node."""
        return await self._names(self.pods_path, fieldSelector="spec.nodeName=")

    async def names_bound(self) -> list[str]:
        """Names of the pods that have a node."""
        return await self._names(self.pods_path, fieldSelector="spec.nodeName!=")

    async def names_running(self) -> list[str]:
        """Names of the pods that run."""
        return await self._names(self.pods_path, fieldSelector="status.phase=Running")

    async def until_bound(self, count: int, *, within_seconds: float) -> dict[str, Json]:
        """Waits until there are `count` pods, all bound, and answers them by name.

        AssertionError at the deadline, with how many are pending and kube-scheduler's words about them.
        """
        deadline = anyio.current_time() + within_seconds
        while (asked_at := anyio.current_time()) < deadline:
            if not await self.pending():
                break
            # Listing thousands of pods costs what binding them needs.
            await anyio.sleep(max(_ASK_EVERY_SECONDS, anyio.current_time() - asked_at))
        pods = await self.pods()
        waiting = [pod for pod in pods.values() if not pod["spec"].get("nodeName")]
        assert not waiting, f"{len(waiting)} of {len(pods)} pods still pending after {within_seconds:g} s: {_why(waiting)}"
        assert len(pods) == count, f"got {len(pods)} pods, want {count}"
        return pods

    async def until_placed(self, name: str, *, within_seconds: float) -> str:
        """The node of a pod, as soon as it has one."""
        deadline = anyio.current_time() + within_seconds
        while True:
            pod = await self.read(f"{self.pods_path}/{name}")
            if node := pod["spec"].get("nodeName"):
                return str(node)
            assert anyio.current_time() < deadline, f"{name} still pending after {within_seconds:g} s: {_why([pod])}"
            await anyio.sleep(_ASK_EVERY_SECONDS)

    async def until_refused(self, name: str) -> None:
        """Waits until kube-scheduler has said that the pod fits nowhere."""

        async def conditions() -> list[str]:
            pod = await self.read(f"{self.pods_path}/{name}")
            return [f"{c['type']}={c['status']}" for c in pod["status"].get("conditions", [])]

        wanted = f"{name} refused"
        await eventually(conditions, lambda seen: "PodScheduled=False" in seen, within_seconds=60, wanted=wanted)

    # Anything

    async def create(self, path: str, body: Json) -> None:
        """POSTs an object; AssertionError with the answer if it was refused."""
        await self._send("POST", path, json=body)

    async def read(self, path: str) -> Json:
        """GETs an object."""
        return await self._send("GET", path)

    async def _send(self, method: str, path: str, **more: Any) -> Json:
        """An API server that has more to do than it can is asked again; what it has done of it meanwhile counts."""
        done = {200, 201}
        for _ in range(_TRIES):
            async with self.api.request(method, path, **more) as answer:
                status, text = answer.status, await answer.text()
            if status not in _LATER:
                break
            await anyio.sleep(1)
            done |= {409} if method == "POST" else set()
        assert status in done, f"{method} {path}: {status} {text}"
        return dict(json.loads(text))

    async def _items(self, path: str) -> list[Json]:
        return list((await self.read(path))["items"])

    async def _names(self, path: str, **selectors: str) -> list[str]:
        found = await self._send("GET", path, params=selectors, headers=_METADATA)
        return [item["metadata"]["name"] for item in found["items"] or ()]

    async def _each(self, items: Sequence[Any], do: Callable[[Any], Awaitable[object]]) -> None:
        """Does it for each of the items in their order, 40 at a time."""
        rest = iter(items)
        async with anyio.create_task_group() as group:
            for _ in range(min(_WIDTH, len(items))):
                group.start_soon(_do_rest, rest, do)


async def _do_rest(rest: Iterator[Any], do: Callable[[Any], Awaitable[object]]) -> None:
    for item in rest:
        await do(item)


def _why(pending: Sequence[Json]) -> str:
    """kube-scheduler's words about pending pods, each once with their number and one pod."""
    words = Counter(_message(pod) for pod in pending)
    example = {_message(pod): pod["metadata"]["name"] for pod in pending}
    return "; ".join(f"{count} as {example[text]}: {text}" for text, count in words.most_common(5))


def _message(pod: Json) -> str:
    reported = [c for c in pod["status"].get("conditions", []) if c["type"] == "PodScheduled"]
    return str(reported[0].get("message") or reported[0].get("reason")) if reported else "never tried"
