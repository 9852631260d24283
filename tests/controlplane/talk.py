"""A few words with an API server, as the tests here need them."""

from collections.abc import Callable
from typing import Any

import aiohttp

from tests.support.waiting import eventually

NODE = {"cpu": "4", "memory": "8Gi", "pods": "110"}


async def create(api: aiohttp.ClientSession, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """POSTs `body`; the created object. AssertionError with the answer if it was refused."""
    async with api.post(path, json=body) as answer:
        assert answer.status == 201, await answer.text()
        return dict(await answer.json())


async def read(api: aiohttp.ClientSession, path: str) -> dict[str, Any]:
    """GETs an object."""
    async with api.get(path) as answer:
        assert answer.status == 200, await answer.text()
        return dict(await answer.json())


async def remove(api: aiohttp.ClientSession, path: str) -> None:
    """DELETEs an object at once, whatever its grace period."""
    async with api.delete(path, params={"gracePeriodSeconds": "0"}) as answer:
        assert answer.status == 200, await answer.text()


async def read_until(
    api: aiohttp.ClientSession, path: str, holds: Callable[[dict[str, Any]], bool], *, seconds: float = 120.0
) -> dict[str, Any]:
    """The object at `path` as soon as `holds` says yes of it; AssertionError with the object after `seconds`."""
    return await eventually(lambda: read(api, path), holds, within_seconds=seconds, wanted=f"another {path}")


def a_node(name: str) -> dict[str, Any]:
    """A node of 4 CPUs that KWOK will play."""
    return {"metadata": {"name": name}, "status": {"capacity": NODE, "allocatable": NODE}}


def a_pod(name: str, *, on: str | None = None) -> dict[str, Any]:
    """A pod of one CPU."""
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}}
    spec: dict[str, Any] = {"containers": [container]}
    if on is not None:
        spec["nodeName"] = on
    return {"metadata": {"name": name}, "spec": spec}


def is_ready(node: dict[str, Any]) -> bool:
    """Whether the node's condition Ready is True."""
    return any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"].get("conditions", []))


def is_running(pod: dict[str, Any]) -> bool:
    """Whether the pod's phase is Running."""
    return bool(pod["status"]["phase"] == "Running")
