"""Somebody sets the clock on the wall by hours: no node goes earlier or later for it, and none that starts is given up.

The whole service beside the sandbox cluster on virtual time. The clock that jumps is the service's own.
"""

import json
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import anyio
import pytest

from slackwater.adapters.http.application import Request
from slackwater.app.settings import loads
from slackwater.app.wiring import Service
from slackwater.model.ids import Instant
from slackwater.ports.clock import SteadyClock, Times
from slackwater.sandbox.embedded.cluster import Sandbox
from slackwater.sandbox.embedded.kinds import NODES, PODS
from slackwater.sandbox.embedded.scheduler import Scheduler
from slackwater.sandbox.embedded_demo import EmbeddedApi, answered
from tests.faults.play import silence_logs
from tests.faults.virtualloop import run_virtually
from tests.support.planners import InlineReplica

EPOCH, HOURS, MINUTES = 1.8e9, 3600.0, 60.0
NODES_AT_FIRST = 12
SETTINGS = """
apiVersion: config.slackwater.dev/v1alpha1
kind: SlackwaterConfiguration
autoscaler:
  enabled: true
  scanInterval: 10s
  nodeGroups:
  - name: pool
    provider: kwok
    maxSize: 20
    template: {status: {capacity: {cpu: "4", memory: 16Gi, pods: "20"}}}
    kwok: {appearAfter: 1s, bootAfter: 60s}
  creation: {timeout: 3m}
  scaleDown: {unneededTime: 10m, delayAfterAdd: 10s}
"""


class Cluster:
    """`off`: by how much the service's clock on the wall is wrong."""

    def __init__(self, off: float) -> None:
        self.off = off
        self.box = Sandbox(rng=Random(1), wall=lambda: EPOCH + anyio.current_time())
        times = Times(
            monotonic=lambda: Instant(anyio.current_time() + 77.0), wall=lambda: EPOCH + anyio.current_time() + self.off
        )
        self.service = Service(
            loads(SETTINGS), EmbeddedApi(self.box.api), Random(2), times, make_replica=lambda feed, *_: InlineReplica(feed)
        )
        self.scheduler = Scheduler(self.box.api, self.box.timers, self._to_extender, rng=Random(3))
        self.scheduler.attach()

    async def _to_extender(self, verb: str, body: bytes) -> tuple[int, bytes]:
        answer = await answered(self.service.extender, Request("POST", f"/scheduler/{verb}", body))
        return answer.status, answer.body

    async def run(self, group: Any) -> None:
        service = self.service
        assert service.autoscaler_service is not None
        group.start_soon(self.box.run)
        await group.start(service.dispatcher.run)
        group.start_soon(service.intake.run)
        await service.intake.synced()
        group.start_soon(service.autoscaler_service.intake.run)
        group.start_soon(service.autoscaler_service.act, service.replica)
        assert service.scoring_loop is not None
        group.start_soon(service.scoring_loop.run)
        group.start_soon(self.scheduler.run)

    @property
    def nodes(self) -> int:
        return len(self.box.api.store.all(NODES))

    def add_pods(self, count: int, tag: str, *, namespace: str = "default") -> None:
        """Each needs a node of its own."""
        path = f"/api/v1/namespaces/{namespace}/pods"
        for number in range(count):
            container = {"name": "app", "image": "a", "resources": {"requests": {"cpu": "3", "memory": "1Gi"}}}
            spec = {"schedulerName": "slackwater", "containers": [container], "terminationGracePeriodSeconds": 0}
            body = json.dumps({"metadata": {"name": f"{tag}-{number}"}, "spec": spec}).encode()
            assert self.box.api.request("POST", path, body=body).status == 201

    def drop_pods(self) -> None:
        for stored in self.box.api.store.all(PODS):
            name = stored.body["metadata"]["name"]
            self.box.api.request("DELETE", f"/api/v1/namespaces/default/pods/{name}")

    def waiting(self) -> int:
        return sum(not stored.body["spec"].get("nodeName") for stored in self.box.api.store.all(PODS))


def play(story: Callable[[Cluster], Awaitable[None]], *, off: float = 0.0) -> None:
    async def main() -> None:
        cluster = Cluster(off)
        async with anyio.create_task_group() as group:
            await cluster.run(group)
            await story(cluster)
            group.cancel_scope.cancel()

    silence_logs()
    run_virtually(Random(4), main)


@pytest.mark.parametrize("jump", [2 * HOURS, -2 * HOURS])
def test_unneeded_nodes_go_when_their_time_has_come_and_not_before(jump: float) -> None:
    """With the clock on the wall all but one went at once, or none for two hours."""

    async def story(cluster: Cluster) -> None:
        cluster.add_pods(NODES_AT_FIRST, "first")
        await anyio.sleep(3 * MINUTES)
        assert (cluster.nodes, cluster.waiting()) == (NODES_AT_FIRST, 0)
        cluster.drop_pods()
        await anyio.sleep(2 * MINUTES)
        cluster.off = jump
        await anyio.sleep(7 * MINUTES)
        assert cluster.nodes == NODES_AT_FIRST, "9 minutes, of 10 that they have to be unneeded"
        await anyio.sleep(4 * MINUTES)
        assert cluster.nodes == 0

    play(story)


@pytest.mark.parametrize("jump", [2 * HOURS, -2 * HOURS])
def test_nodes_that_start_are_waited_for_as_long_as_ever(jump: float) -> None:
    """They were two hours old at once, and their machines deleted as lost."""

    async def story(cluster: Cluster) -> None:
        cluster.add_pods(NODES_AT_FIRST, "first")
        await anyio.sleep(30)
        assert (cluster.nodes, cluster.waiting()) == (NODES_AT_FIRST, NODES_AT_FIRST), "they boot"
        names = {stored.body["metadata"]["name"] for stored in cluster.box.api.store.all(NODES)}
        cluster.off = jump
        await anyio.sleep(90)
        assert {stored.body["metadata"]["name"] for stored in cluster.box.api.store.all(NODES)} == names
        assert cluster.waiting() == 0

    play(story)


@pytest.mark.parametrize("off", [2 * HOURS, -2 * HOURS])
def test_pods_get_nodes_from_a_service_whose_clock_is_wrong_from_the_start(off: float) -> None:
    """By a clock that is behind they are not made yet: they would be too young for two hours."""

    async def story(cluster: Cluster) -> None:
        cluster.add_pods(3, "first")
        await anyio.sleep(2 * MINUTES)
        assert (cluster.nodes, cluster.waiting()) == (3, 0)

    play(story, off=off)


def test_the_steady_clock_comes_nearer_to_the_wall_by_a_twentieth_of_the_time_that_passes() -> None:
    seconds, off = 0.0, 0.0
    clock = SteadyClock(Times(monotonic=lambda: Instant(50.0 + seconds), wall=lambda: EPOCH + seconds + off))
    seconds = 10.0
    assert clock() == EPOCH + 10
    off = 1.0
    seconds = 20.0
    assert clock() == pytest.approx(EPOCH + 20.5)
    seconds = 30.0
    assert clock() == pytest.approx(EPOCH + 31)
    off = -2 * HOURS
    assert clock() == pytest.approx(EPOCH + 31), "it never goes back"
    seconds = 130.0
    assert clock() == pytest.approx(EPOCH + 31 + 95)
