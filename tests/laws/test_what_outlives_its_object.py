"""Many pods, machines and nodes live their whole lives: afterwards nothing in the service is larger than it was before.

The whole service, as `serve` wires it, with its autoscaler and node choice, beside the sandbox cluster on virtual time. Each
generation has names and UIDs of its own; when it has gone, and what is remembered for minutes has been forgotten, every
container that can be reached from the service has the size that it had after the generation before.
"""

import gc
import json
from collections import Counter
from random import Random
from typing import Any

import anyio

from slackwater.adapters.http.application import Request
from slackwater.app.settings import Settings, loads
from slackwater.app.wiring import Service
from slackwater.model.ids import Instant
from slackwater.ports.clock import Times
from slackwater.sandbox.embedded.agents import AgentBehavior, Agents
from slackwater.sandbox.embedded.cluster import Sandbox
from slackwater.sandbox.embedded.kinds import MACHINES, MIGRATIONS, NODES, PODS
from slackwater.sandbox.embedded.scheduler import Scheduler
from slackwater.sandbox.embedded_demo import EmbeddedApi, answered
from tests.faults.play import silence_logs
from tests.faults.story import Story
from tests.faults.virtualloop import run_virtually
from tests.support.containers import sizes
from tests.support.planners import InlineReplica

_EPOCH = 1.8e9
_SETTINGS = """
apiVersion: config.slackwater.dev/v1alpha1
kind: SlackwaterConfiguration
featureGates: {ResourceSlack: true}
autoscaler:
  enabled: true
  scanInterval: 20s
  slack: {startTimeSLOs: [{name: all, percent: 99.5, within: 30s}]}
  nodeGroups:
  - name: pool
    provider: kwok
    maxSize: 4
    template: {status: {capacity: {cpu: "4", memory: 16Gi, pods: "20"}}}
    kwok: {appearAfter: 1s, bootAfter: 1s}
  creation: {timeout: 20s, callTimeout: 5s, backoff: {initial: 5s, max: 10s}}
  scaleDown: {unneededTime: 3s, utilizationThreshold: 1.0, delayAfterAdd: 2s, drain: {settleTime: 1s, retryInterval: 1s}}
"""
#: How long the story of a generation goes on, and how long what it leaves is remembered: 10 minutes at most, and some.
_STORY_SECONDS = 30.0
_REMEMBERED_SECONDS = 610.0


class _Cluster:
    def __init__(self, settings: Settings, seed: int) -> None:
        self.box = Sandbox(rng=Random(f"{seed}/box"), wall=lambda: _EPOCH + anyio.current_time())
        self.story = Story(self.box.api, Random(f"{seed}/story"), lambda _node: None)
        # A story of everything that it may be of: machines, preemption, binds by hand.
        self.story._vertical = self.story._preempting = self.story._meddling = True
        times = Times(monotonic=lambda: Instant(anyio.current_time()), wall=lambda: _EPOCH + anyio.current_time())
        self.service = Service(
            settings, EmbeddedApi(self.box.api), Random(seed), times, make_replica=lambda feed, *_: InlineReplica(feed)
        )
        habits = AgentBehavior(
            wants=self.story.wants, tick_seconds=1.0, retry_seconds=0.5, answer_seconds=3.0, grow_seconds=1.5
        )
        self.agents = Agents(self.box.api, self._to_agents, Random(f"{seed}/agents"), habits)
        rng = Random(f"{seed}/scheduler")
        self.scheduler = Scheduler(self.box.api, self.box.timers, self._to_extender, rng=rng)
        self.scheduler.attach()

    async def _to_extender(self, verb: str, body: bytes) -> tuple[int, bytes]:
        answer = await answered(self.service.extender, Request("POST", f"/scheduler/{verb}", body))
        return answer.status, answer.body

    async def _to_agents(self, body: bytes) -> tuple[int, bytes]:
        answer = await answered(self.service.agents, Request("POST", "/", body))
        return answer.status, answer.body

    async def run(self, group: Any) -> None:
        service = self.service
        assert service.autoscaler_service is not None
        assert service.scoring_loop is not None
        group.start_soon(self.box.run)
        await group.start(service.dispatcher.run)
        group.start_soon(service.intake.run)
        await service.intake.synced()
        group.start_soon(service.autoscaler_service.intake.run)
        group.start_soon(service.autoscaler_service.act, service.replica)
        beside = (service.disagreement_loop.run, service.history.loop.run, service.ops.state.observer.run)
        for task in (service.audit.run, service.scoring_loop.run, self.agents.run, self.scheduler.run, *beside):
            group.start_soon(task)
        if service.wait_events is not None:
            group.start_soon(service.wait_events.run)

    async def generation(self) -> Counter[str]:
        """Objects come, live and go; what is left of them in the end."""
        self.story.begin()
        with anyio.move_on_after(_STORY_SECONDS):
            await self.story.tell()
        for node in self.box.api.store.all(NODES):
            self._put_too_much_on(node.body["metadata"]["name"])
        await anyio.sleep(1.0)
        for kind in (MACHINES, MIGRATIONS, PODS, NODES):
            for stored in self.box.api.store.all(kind):
                meta = stored.body["metadata"]
                where = f"/namespaces/{meta['namespace']}" if meta.get("namespace") else ""
                self.box.api.request("DELETE", f"{kind.prefix}{where}/{kind.plural}/{meta['name']}")
        await anyio.sleep(_REMEMBERED_SECONDS)
        gc.collect()
        return sizes(self.service)

    def _put_too_much_on(self, node: str) -> None:
        """A pod that somebody else has bound there."""
        container = {"name": "app", "image": "example/app", "resources": {"requests": {"cpu": "64", "memory": "1Gi"}}}
        body = {"metadata": {"name": f"large-on-{node}"}, "spec": {"nodeName": node, "containers": [container]}}
        answer = self.box.api.request("POST", "/api/v1/namespaces/default/pods", body=json.dumps(body).encode())
        assert answer.status == 201, answer.body


#: Containers that grow with what comes, up to a bound of their own. By the beginning of their place: the most that they may
#: have here, and what bounds them.
_BOUNDED: dict[str, tuple[int, str]] = {
    "AdmittingRows._masks": (256, "256 kinds"),
    "AgentMetrics._results": (65, "series of nodes that are gone go when they are the larger part, or with the next scrape"),
    "Announcer._announced": (16_384, "16,384 texts"),
    "Audit._sampled": (40, "nodes that the present round has not checked yet"),
    "RequestNodes._texts": (5_120, "the names of the latest 256 lists, until a question after a node came or went"),
    "RequestNodesDecoder._short": (256, "256 lists"),
    "Chunk.entries": (12_000, "the rings of the history have a bound of bytes: about 7,800 acts and 3,800 waits"),
    "History._index": (24_000, "the objects of these entries"),
    "AutoscalerService._document": (10_000, "what the last loop says of each group, node and pod"),
    "BoughtNodes._seen": (8, "nodes of the newest purchases, a few of each group"),
    "Counter": (10_000, "with the snapshot"),
    "KindInterner._kinds": (10_000, "weak: as long as a cache below has one"),
    "KindTable": (10_000, "with the snapshot: it is built again at 20,000 rules where most of them are gone"),
    "LabelColumn": (300, "twice the rows, and 64"),
    "SnapshotReplica._free": (40, "rows: the most nodes that were there at once"),
    "Node.labels": (60, "of the last node of each row"),
    "NodeFacts": (40, "rows: the most nodes that were there at once"),
    "NodeTable._compact": (20, "the names of the last question"),
    "NumberedGroup.labels": (10_000, "with the snapshot"),
    "ClusterSnapshot.kept": (3 * 4_096, "4,096 answers; three snapshots"),
    "PodDecoder._plain": (10_000, "weak: as long as a pod has one"),
    "Recorder._entries": (4_096, "4,096 Events"),
    "RoomScores._kept": (128, "128 sizes"),
    "RowJournal._rows": (3 * 2 * 1_024, "1,024 rows here, and as many again; three of them"),
    "Samples": (100, "the last kinds"),
    "Shared._kept": (65_536, "values of the least size"),
    "StartTimes._seconds": (16, "16 nodes of a group"),
    "DispatcherStats.calls": (40, "kinds of effects"),
    "EvictionFactsReader._kept": (65_536, "weak: as long as a pod has them"),
    "DecisionLog": (10_000, "the newest decisions"),
    "Unhelpable.groups": (100, "of the last plan: placeholders that fit nowhere"),
    "ValueColumn": (300, "twice the rows, and 64"),
    "_About": (10_000, "with the snapshot, for 1,024 groups"),
    "_ByLabel": (10_000, "with the snapshot"),
    "_Class.mix": (256, "the newest arrivals of a class"),
}
#: The first generation fills what every service has; what grows with each of the others is kept for ever.
_GENERATIONS = 3


def _bound_of(place: str) -> int | None:
    return next((most for start, (most, _) in _BOUNDED.items() if place.startswith(start)), None)


def test_nothing_that_the_service_keeps_outlives_what_it_is_about() -> None:
    silence_logs()
    generations: list[Counter[str]] = []

    async def main() -> None:
        cluster = _Cluster(loads(_SETTINGS), 1)
        async with anyio.create_task_group() as group:
            await cluster.run(group)
            generations.extend([await cluster.generation() for _ in range(_GENERATIONS)])
            group.cancel_scope.cancel()
        event_counts = cluster.service.state_machine.state.event_counts
        assert event_counts.confirmed > 50 * _GENERATIONS
        assert event_counts.over_total >= 2 * _GENERATIONS

    run_virtually(Random(1), main)
    history = {place: [found[place] for found in generations] for place in sorted(generations[-1])}
    grown = {place: sizes for place, sizes in history.items() if _bound_of(place) is None and sizes == sorted(set(sizes))}
    assert grown == {}
    beyond = {place: sizes for place, sizes in history.items() if sizes[-1] > (_bound_of(place) or sizes[-1])}
    assert beyond == {}
