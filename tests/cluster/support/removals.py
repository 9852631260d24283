"""What became of a cluster that shrinks, change by change: by watches on nodes, pods and budgets, put into the order of etcd.

All objects share one etcd, so their resource versions say which change came first, whichever watch told of it. Nothing here is
asked of the service. Deliberately absent: what should be true (`judgement`).
"""

import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import aiohttp
import anyio

from tests.cluster.support.bodies import Json
from tests.cluster.support.growth import is_ready
from tests.cluster.support.watching import watched

TAINT: Final = "ToBeDeletedByClusterAutoscaler"
_PATHS: Final = {
    "node": "/api/v1/nodes",
    "pod": "/api/v1/pods",
    "budget": "/apis/policy/v1/poddisruptionbudgets",
}
_LISTED_WITHIN_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One object as it was from `version` on; `now` is None from when it was gone. `at`: when it was heard of."""

    version: int
    at: float
    kind: str
    name: str
    now: Mapping[str, Any] | None


@dataclass(slots=True)
class History:
    """All changes since the lists."""

    changes: list[Change] = field(default_factory=list)
    #: What is there now, by kind and name.
    there: dict[str, dict[str, Mapping[str, Any]]] = field(default_factory=lambda: {kind: {} for kind in _PATHS})

    @property
    def version(self) -> int:
        """Of the newest change that was heard of."""
        return max((change.version for change in self.changes), default=0)

    def hear(self, kind: str, item: Json, *, gone: bool) -> None:
        meta = item["metadata"]
        name = meta["name"] if kind == "node" else f"{meta['namespace']}/{meta['name']}"
        now = None if gone else _GIST[kind](item)
        there = self.there[kind]
        if now is None:
            there.pop(name, None)
        elif there.get(name) == now:
            return
        else:
            there[name] = now
        version, at = int(meta["resourceVersion"]), time.monotonic()
        self.changes.append(Change(version=version, at=at, kind=kind, name=name, now=now))


def _node(item: Json) -> Json:
    return {"tainted": any(taint["key"] == TAINT for taint in item["spec"].get("taints", ())), "ready": is_ready(item)}


def _pod(item: Json) -> Json:
    meta, conditions = item["metadata"], item["status"].get("conditions", ())
    reported = {condition["type"]: condition for condition in conditions}
    return {
        "labels": meta.get("labels", {}),
        "node": item["spec"].get("nodeName"),
        "ready": reported.get("Ready", {}).get("status") == "True",
        "deleting": "deletionTimestamp" in meta,
        "refused": reported.get("PodScheduled", {}).get("reason") == "Unschedulable",
    }


def _budget(item: Json) -> Json:
    chosen = item["spec"]["selector"]["matchLabels"]
    return {"selector": chosen, "least": item.get("status", {}).get("desiredHealthy", 0)}


_GIST: Final = {"node": _node, "pod": _pod, "budget": _budget}


@asynccontextmanager
async def followed(api: aiohttp.ClientSession) -> AsyncIterator[History]:
    """Follows until the block ends. `api` is best a session of its own."""
    history = History()
    async with anyio.create_task_group() as tasks:
        with anyio.fail_after(_LISTED_WITHIN_SECONDS):
            for kind, path in _PATHS.items():
                tasks.start_soon(_follow, api, kind, await _list(api, kind, history, path), history)
        yield history
        tasks.cancel_scope.cancel()


async def _list(api: aiohttp.ClientSession, kind: str, history: History, path: str) -> str:
    async with api.get(path) as answer:
        answer.raise_for_status()
        page = await answer.json()
    for item in page["items"] or ():
        history.hear(kind, item, gone=False)
    return str(page["metadata"]["resourceVersion"])


async def _follow(api: aiohttp.ClientSession, kind: str, version: str, history: History) -> None:
    async for event in watched(api, _PATHS[kind], version):
        history.hear(kind, event["object"], gone=event["type"] == "DELETED")
