"""kube-scheduler waits with a pod while others are told: all of them in time, and never longer than is good for anybody."""

from collections.abc import Iterable
from dataclasses import replace
from random import Random
from typing import Any

import anyio
import numpy as np
import pytest
from anyio.abc import TaskGroup

from slackwater.decide.steering.head_start import LEAST, HeadStart
from slackwater.decide.steering.pace import PacePolicy
from slackwater.model.effects import Effect, Steer
from slackwater.model.events import Event, NodeSeen, PodSeen, SteerEnded, Synced
from slackwater.model.ids import Instant, NodeName, PodUid
from slackwater.model.objects import Pod
from slackwater.run.loops.head_start import HeadStarts
from slackwater.run.loops.steering import SteeringLoop
from slackwater.world.policy import Policy, SteeringPolicy
from slackwater.world.world import World
from tests.faults.virtualloop import run_virtually
from tests.support.builders import a_node, a_pod

NODES = 4


class Cluster:
    """A backlog, and an API server that takes a nomination every `write_seconds`; None: it takes none."""

    def __init__(self, group: TaskGroup, *, pods: int, write_seconds: float | None = 0.002, **steering: Any) -> None:
        self._group = group
        self._write_seconds = write_seconds
        self._free_at = 0.0
        policy = SteeringPolicy(enabled=True, pace=PacePolicy(), choose=False, **steering)
        self.world = World(Policy(steering=policy))
        self.loop = SteeringLoop(self.world, submit=self._submit, clock=self.clock, weight=1)
        self.head_starts = HeadStarts(self.world, self.loop, self.clock)
        self.pods = [a_pod(f"p-{number:04}", cpu="1m", memory="1Mi") for number in range(pods)]
        for number in range(NODES):
            self.apply(NodeSeen(replace(a_node(f"n-{number}", cpu="32"), scalars=(("pods", 1000),))))
        for pod in self.pods:
            self.apply(PodSeen(pod))
        self.apply(Synced())
        group.start_soon(self.loop.run)

    def clock(self) -> Instant:
        return Instant(anyio.current_time())

    def apply(self, event: Event) -> None:
        self._submit(self.world.apply(event, self.clock()))
        self.loop.look()

    def _submit(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Steer) and self._write_seconds is not None:
                self._free_at = max(self._free_at, self.clock()) + self._write_seconds
                self._group.start_soon(self._write, effect, self._free_at)

    async def _write(self, effect: Steer, ends_at: float) -> None:
        await anyio.sleep_until(ends_at)
        self.apply(SteerEnded(effect.uid, effect.node, True))
        pod = self.world.pods.get(effect.uid)
        assert pod is not None
        self.apply(PodSeen(replace(pod, nominated_node=effect.node, resource_version=pod.resource_version + 1)))

    async def ask(self, pod: Pod) -> float:
        """kube-scheduler searches for the pod; how long it waits."""
        began = self.clock()
        if self.head_starts.due(pod):
            await self.head_starts.wait(pod)
        self.world.filter(pod, np.arange(NODES), self.clock())
        return self.clock() - began

    def told(self) -> set[PodUid]:
        return {pod.uid for pod in self.pods if self.world.steering.node_of(pod.uid) is not None}


def played(pods: int, story: Any, **cluster: Any) -> None:
    """The story of a cluster, on virtual time."""

    async def main() -> None:
        async with anyio.create_task_group() as group:
            played = Cluster(group, pods=pods, **cluster)
            await anyio.sleep(0.02)  # until the loop knows of them
            await story(played)
            group.cancel_scope.cancel()

    run_virtually(Random(1), main)


def test_while_kube_scheduler_waits_with_one_pod_all_others_are_told() -> None:
    async def story(cluster: Cluster) -> None:
        *others, first = cluster.pods
        waited = await cluster.ask(first)
        assert 0.3 < waited < 1.2, "200 writes of 2 ms"
        assert len(cluster.told()) > len(others) - LEAST
        assert first.uid not in cluster.told()
        assert cluster.world.steering.unshown == set()
        assert (cluster.world.steering.head_start.count, cluster.world.steering.head_start.uid) == (1, None)
        assert await cluster.ask(next(pod for pod in others if pod.uid in cluster.told())) == 0, "that is no search"

    played(200, story)


def test_a_wait_is_over_after_its_time_and_the_next_pod_waits_again() -> None:
    async def story(cluster: Cluster) -> None:
        assert 1.0 <= await cluster.ask(cluster.pods[-1]) < 1.4
        told = len(cluster.told())
        assert 300 < told < 700
        rest = [pod for pod in cluster.pods if pod.uid not in cluster.told()]
        assert 1.0 <= await cluster.ask(rest[-1]) < 1.4
        assert len(cluster.told()) > 1.5 * told

    played(3000, story)


def test_an_api_server_that_takes_nothing_holds_nobody_up() -> None:
    async def story(cluster: Cluster) -> None:
        assert 0.2 < await cluster.ask(cluster.pods[-1]) < 0.7

    played(200, story, write_seconds=None)


def test_a_wait_that_is_cancelled_leaves_nothing_behind() -> None:
    async def story(cluster: Cluster) -> None:
        with anyio.move_on_after(0.05):
            await cluster.ask(cluster.pods[-1])
        assert cluster.world.steering.head_start.uid is None
        assert await cluster.ask(cluster.pods[-2]) > 0.05

    played(1000, story)


@pytest.mark.parametrize(
    ("pods", "steering"), [(LEAST, {}), (200, {"head_start_seconds": 0.0}), (200, {"min_nodes": 99}), (200, {"max_ahead": 8})]
)
def test_nobody_waits_where_too_few_would_gain(pods: int, steering: dict[str, Any]) -> None:
    async def story(cluster: Cluster) -> None:
        untold = [pod for pod in cluster.pods if pod.uid not in cluster.told()]
        assert await cluster.ask(untold[-1] if untold else cluster.pods[-1]) == 0

    played(pods, story, **steering)


def test_a_more_important_pod_waits_for_nobody() -> None:
    async def story(cluster: Cluster) -> None:
        assert await cluster.ask(replace(cluster.pods[-1], priority=1)) == 0

    played(500, story)


def test_nobody_waits_with_a_pod_that_somebody_has_nominated_nor_a_second_time_at_once() -> None:
    async def story(cluster: Cluster) -> None:
        assert await cluster.ask(replace(cluster.pods[-1], nominated_node=NodeName("n-1"))) == 0
        async with anyio.create_task_group() as group:
            group.start_soon(cluster.ask, cluster.pods[-1])
            await anyio.sleep(0.01)
            assert await cluster.ask(cluster.pods[-2]) == 0

    played(500, story)


def test_a_wait_pays_as_long_as_telling_takes_less_than_it_saves() -> None:
    start = HeadStart()
    assert start.pays(0.005)
    for number in range(10):
        start.begin(PodUid("p"), 10 * number, Instant(number))
        assert start.end(10 * number + 10, Instant(number + 0.1)) == pytest.approx(0.1)
    assert not start.pays(0.005), "ten milliseconds each"
    assert start.pays(0.011)
    assert start.count == 10
    assert start.seconds == pytest.approx(1.0)
