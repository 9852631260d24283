"""Watches a kwok group grow: how many nodes there are, are ready and are on their way, as the API server tells, and when.

What is on its way is counted from the provider's own record and from Nodes without condition Ready, never from what the
service says of itself.
"""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

import anyio

from tests.cluster.support.bodies import Json
from tests.cluster.support.ground import Ground

_LOOK_EVERY_SECONDS: Final = 0.5
#: Listing thousands of pods keeps the API server busy: so many times as long as it took it is left alone.
_REST: Final = 4
_TELL_EVERY_SECONDS: Final = 5.0
_LABEL: Final = "slackwater.dev/node-group"


@dataclass(slots=True)
class Moment:
    """What was seen at one time, seconds after the beginning."""

    at: float
    ready: int
    in_creation: int
    bound: int


@dataclass(slots=True)
class ScaleUp:
    """All that was seen."""

    moments: list[Moment] = field(default_factory=list)

    @property
    def most_in_creation(self) -> int:
        return max(moment.in_creation for moment in self.moments)

    @property
    def most_nodes(self) -> int:
        return max(moment.ready + moment.in_creation for moment in self.moments)

    def table(self) -> str:
        """A line each few seconds."""
        lines = ["    s  ready  coming  bound"]
        reported = -_TELL_EVERY_SECONDS
        for moment in self.moments:
            if moment.at - reported >= _TELL_EVERY_SECONDS or moment is self.moments[-1]:
                lines.append(f"{moment.at:5.0f}  {moment.ready:5}  {moment.in_creation:6}  {moment.bound:5}")
                reported = moment.at
        return "\n".join(lines)


#: Nodes that are ready, and machines that are on their way.
Count = Callable[[], Awaitable[tuple[int, int]]]


@asynccontextmanager
async def watched(ground: Ground, count: Count) -> AsyncIterator[ScaleUp]:
    """Looks twice a second until the block ends, and once more then; at pods less often. `ground` and `count` are best given
    connections of their own, else looks queue behind thousands of pods that are being created."""
    scale_up, began, bound = ScaleUp(), anyio.current_time(), 0

    async def look() -> None:
        ready, in_creation = await count()
        scale_up.moments.append(Moment(at=anyio.current_time() - began, ready=ready, in_creation=in_creation, bound=bound))

    async def look_at_pods() -> None:
        nonlocal bound
        bound = len(await ground.names_bound())

    async def keep(looking: Callable[[], Awaitable[None]]) -> None:
        while True:
            at = anyio.current_time()
            with suppress(TimeoutError, AssertionError):  # the API server has more to do than to be looked at
                await looking()
            await anyio.sleep(max(_LOOK_EVERY_SECONDS, _REST * (anyio.current_time() - at)))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(keep, look)
        tasks.start_soon(keep, look_at_pods)
        yield scale_up
        tasks.cancel_scope.cancel()
    await look_at_pods()
    await look()


async def of_kwok(ground: Ground, group: str) -> tuple[int, int]:
    """Of a kwok group."""
    # What was on its way both before and after the list of nodes was on its way when that was made; one that failed meanwhile
    # and the one that takes its place were not, both at once.
    before = await _on_record(ground, group)
    nodes = [node for node in await ground.nodes() if node["metadata"]["labels"].get(_LABEL) == group]
    waiting = before & await _on_record(ground, group)
    ready = {node["metadata"]["name"] for node in nodes if is_ready(node)}
    unready = {node["metadata"]["name"] for node in nodes} - ready
    return len(ready), len((waiting - ready) | unready)


async def of_deployment(ground: Ground, path: str, label: str) -> tuple[int, int]:
    """Of a MachineDeployment: what it is asked to have, less the ready Nodes that carry the label."""
    # The size first: a machine that gets ready meanwhile makes room for one that is asked for meanwhile.
    asked = int((await ground.read(path))["spec"]["replicas"])
    ready = sum(is_ready(node) for node in await ground.nodes() if node["metadata"]["labels"].get(label) == ground.name)
    return ready, max(asked - ready, 0)


async def _on_record(ground: Ground, group: str) -> set[str]:
    """Names of machines that were asked for and are not up."""
    async with ground.api.get(f"/api/v1/namespaces/{ground.name}/configmaps/slackwater-kwok") as answer:
        if answer.status == 404:
            return set()
        assert answer.status == 200, await answer.text()
        page = json.loads((await answer.json()).get("data", {}).get(group, "{}"))
    return {f"{group}-{int(number):06}" for number in page.get("askedAt", {})}


def is_ready(node: Json) -> bool:
    return any(c["type"] == "Ready" and c["status"] == "True" for c in node.get("status", {}).get("conditions", []))
