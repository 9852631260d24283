"""The service's cluster state beside the API server's: /dumpstate against what the pods themselves say."""

from collections.abc import Mapping
from typing import Any, Final

import anyio

from tests.cluster.support.ground import Ground
from tests.cluster.support.requests_formula import Asked, counts, quantity, total_by_node
from tests.cluster.support.slackwater_process import SlackwaterProcess
from tests.support.waiting import eventually

#: A dump of 2,000 pods costs the service as much as ten filter calls; but the nodes are full within seconds.
_LOOK_EVERY_SECONDS: Final = 0.1


async def same_state(service: SlackwaterProcess, ground: Ground, *, within_seconds: float = 60.0) -> dict[str, Any]:
    """Waits until the dump agrees with the API on everything; the dump. The API's side must have come to rest.

    Reserved of each node is the sum of what its pods ask; the pods that count are those the API shows bound; nothing is
    waiting for the watch, nothing is held. However long that takes: once the rest agrees, no room may be held for a pod that is
    there. Such a hold would end by itself in a while.
    """
    nodes, pods = await ground.nodes(), await ground.all_pods()
    want_reserved = total_by_node(pods, nodes)
    want_places = {pod["metadata"]["uid"]: pod["spec"]["nodeName"] for pod in pods if counts(pod)}

    def differences(dump: dict[str, Any]) -> list[str]:
        got_reserved, got_places = reserved(dump), {pod["uid"]: pod["node"] for pod in dump["pods"]}
        return [
            *_different("Reserved of", got_reserved, want_reserved),
            *_different("node of pod", got_places, want_places),
            *(f"pod {pod['name']} is {pod['state']}, want seen" for pod in dump["pods"] if pod["state"] != "seen"),
        ]

    async def look() -> list[str]:
        dump = await service.dumpstate()
        if found := differences(dump):
            return found[:10]
        left = [hold["name"] for hold in dump["holds"] if hold["uid"] in want_places]
        assert not left, f"room is held for pods that are there: {left[:10]}"
        return [f"room is held for {hold['name']}" for hold in dump["holds"]][:10]

    await eventually(look, lambda found: not found, within_seconds=within_seconds, wanted="the API's state")
    return await service.dumpstate()


def reserved(dump: Mapping[str, Any]) -> dict[str, Asked]:
    """Reserved of each node."""
    return amounts(dump, "reserved")


def amounts(dump: Mapping[str, Any], what: str) -> dict[str, Asked]:
    """Of each node what /dumpstate calls `what`."""
    return {node["name"]: Asked(node["cpu"][what], node["memory"][what]) for node in dump["nodes"]}


def over_total(dump: Mapping[str, Any]) -> list[str]:
    """The nodes whose Reserved is above Total, and by how much."""
    total = amounts(dump, "total")
    return [
        f"{name}: Reserved {is_reserved}, Total {total[name]}"
        for name, is_reserved in reserved(dump).items()
        if is_reserved.cpu > total[name].cpu or is_reserved.memory > total[name].memory
    ]


class TotalGuard:
    """Looks at /dumpstate again and again. `looks` says how often it did: a guard that never looked proves nothing."""

    def __init__(self, service: SlackwaterProcess) -> None:
        self._service = service
        self.looks = 0

    async def run(self) -> None:
        """Until cancelled; AssertionError at the first node above its Total."""
        while True:
            assert not (found := over_total(await self._service.dumpstate())), found
            self.looks += 1
            await anyio.sleep(_LOOK_EVERY_SECONDS)


def allocatable(node: Mapping[str, Any]) -> Asked:
    """What a node reports."""
    amounts_of = node["status"]["allocatable"]
    return Asked(int(quantity(amounts_of["cpu"]) * 1000), int(quantity(amounts_of["memory"])))


def _different(what: str, got: Mapping[str, object], want: Mapping[str, object]) -> list[str]:
    names = sorted(got.keys() | want.keys())
    return [f"{what} {name}: got {got.get(name)}, want {want.get(name)}" for name in names if got.get(name) != want.get(name)]
