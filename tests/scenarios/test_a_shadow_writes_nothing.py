"""A shadow beside the sandbox cluster on virtual time, through growth and fall: it says what it would do, does nothing of it,
and holds nothing against a group for what it did not do."""

import gc
import json
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Any

import anyio
import pytest

from slackwater.adapters.api_calls import Params, Read, Response
from slackwater.adapters.http.application import Request
from slackwater.adapters.kube.client import KubeClient, KubeReader, LedApi
from slackwater.adapters.kube.config_maps import ConfigMapWriter
from slackwater.adapters.kube.event_recorder import Recorder
from slackwater.adapters.kube.headroom_requests import BufferStatusWriter
from slackwater.adapters.kube.history import ConfigMapHistory
from slackwater.adapters.kube.lease_store import ApiLease
from slackwater.adapters.kube.writer import ApiWriter
from slackwater.app.autoscaler import AutoscalerService
from slackwater.app.labelled_groups import BY_LABELS
from slackwater.app.settings import loads
from slackwater.app.shadow import ShadowService
from slackwater.app.wiring import Service
from slackwater.model.history import HistoryAction
from slackwater.model.ids import Instant
from slackwater.ports.clock import Times
from slackwater.runtime.autoscaler.provider_calls import Actor, MachineRemover
from slackwater.runtime.decision_log import Decision
from slackwater.runtime.dispatcher import Dispatcher
from slackwater.sandbox.embedded.cluster import Sandbox
from slackwater.sandbox.embedded_demo import EmbeddedApi, answered
from tests.faults.play import silence_logs
from tests.faults.virtualloop import run_virtually
from tests.support.planners import InlineReplica

EPOCH, MINUTES = 1.8e9, 60.0
SETTINGS = """
apiVersion: config.slackwater.dev/v1alpha1
kind: SlackwaterConfiguration
mode: shadow
history: {{file: {file}}}
autoscaler:
  enabled: true
  nodeGroups:
  - name: pool
    provider: kwok
    minSize: 0
    maxSize: 20
    template: {{status: {{capacity: {{cpu: "4", memory: 16Gi, pods: "20"}}}}}}
  creation: {{timeout: 1m}}
  scaleDown: {{unneededTime: 2m, delayAfterAdd: 10s}}
"""
WITHOUT_GROUPS = "".join((SETTINGS.partition("  nodeGroups:")[0], *SETTINGS.partition("  creation:")[1:]))
#: Whatever writes, or passes writes on.
WRITERS = (
    ApiLease,
    ApiWriter,
    Actor,
    AutoscalerService,
    BufferStatusWriter,
    ConfigMapHistory,
    ConfigMapWriter,
    Dispatcher,
    KubeClient,
    LedApi,
    MachineRemover,
    Recorder,
)


class Watched:
    """The sandbox' API server for one who reads. `asked` counts the requests by method."""

    def __init__(self, api: EmbeddedApi) -> None:
        self._api = api
        self.asked: Counter[str] = Counter()

    async def send(self, call: Read) -> Response:
        self.asked[call.method] += 1
        return await self._api.send(call)

    def stream(self, path: str, *, params: Params, silence_seconds: float) -> AsyncGenerator[list[bytes], None]:
        self.asked["watch"] += 1
        return self._api.stream(path, params=params, silence_seconds=silence_seconds)


class Cluster:
    """A cluster that others run, and a shadow beside it."""

    def __init__(self, file: Path) -> None:
        self.box = Sandbox(rng=Random(1), wall=self._wall)
        self.api = Watched(EmbeddedApi(self.box.api))
        times = Times(monotonic=lambda: Instant(anyio.current_time() + 77.0), wall=self._wall)
        self.shadow = ShadowService(
            loads(SETTINGS.format(file=file)), self.api, Random(2), times, make_replica=lambda feed, *_: InlineReplica(feed)
        )

    def _wall(self) -> float:
        return EPOCH + anyio.current_time()

    async def run(self, group: Any) -> None:
        group.start_soon(self.box.run)
        group.start_soon(self.shadow.intake.run)
        await self.shadow.intake.listed()
        group.start_soon(self.shadow.history.loop.run)
        assert self.shadow.autoscaler_service is not None
        group.start_soon(self.shadow.autoscaler_service.intake.run)
        group.start_soon(self.shadow.autoscaler_service.act, self.shadow.replica)

    def make(self, path: str, body: dict[str, Any]) -> None:
        answer = self.box.api.request("POST", path, body=json.dumps(body).encode())
        assert answer.status == 201, answer.body

    def add_pods(self, count: int) -> None:
        """Each needs a node of its own."""
        for number in range(count):
            container = {"name": "app", "image": "a", "resources": {"requests": {"cpu": "3", "memory": "1Gi"}}}
            owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r", "controller": True}
            metadata = {"name": f"p-{number}", "ownerReferences": [owner]}
            spec = {"schedulerName": "default-scheduler", "containers": [container], "terminationGracePeriodSeconds": 0}
            self.make("/api/v1/namespaces/default/pods", {"metadata": metadata, "spec": spec})
            unschedulable = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room"}
            body = json.dumps({"status": {"conditions": [unschedulable]}}).encode()
            path = f"/api/v1/namespaces/default/pods/p-{number}/status"
            self.box.api.request("PATCH", path, body=body, content_type="application/merge-patch+json")

    def add_nodes(self, count: int, *, label: str = "slackwater.dev/node-group") -> None:
        """As the group's own autoscaler makes them."""
        amounts = {"cpu": "4", "memory": "16Gi", "pods": "20"}
        for number in range(count):
            metadata = {"name": f"n-{number}", "labels": {label: "pool"}}
            status = {
                "capacity": amounts,
                "allocatable": amounts,
                "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2027-01-15T08:00:00Z"}],
            }
            spec = {"providerID": f"kwok://n-{number}"}
            self.make("/api/v1/nodes", {"metadata": metadata, "spec": spec, "status": status})

    def bind(self, number: int) -> None:
        target = {"apiVersion": "v1", "kind": "Node", "name": f"n-{number}"}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": f"p-{number}"}, "target": target}
        self.make(f"/api/v1/namespaces/default/pods/p-{number}/binding", body)

    def would(self, kind: str) -> list[Decision]:
        return [each for each in self.shadow.decision_log.newest(500) if each.kind == kind and each.verdict == "withheld"]


def play(story: Callable[[Cluster], Awaitable[None]], file: Path) -> Cluster:
    found: list[Cluster] = []

    async def main() -> None:
        cluster = Cluster(file)
        found.append(cluster)
        async with anyio.create_task_group() as group:
            await cluster.run(group)
            await story(cluster)
            group.cancel_scope.cancel()

    silence_logs()
    run_virtually(Random(4), main)
    return found[0]


def test_it_says_what_it_would_do_and_does_nothing(tmp_path: Path) -> None:
    async def story(cluster: Cluster) -> None:
        autoscaler = cluster.shadow.autoscaler_service
        assert autoscaler is not None
        cluster.add_pods(3)
        await anyio.sleep(5 * MINUTES)
        [growth] = cluster.would("grow")
        assert growth.text.startswith("would grow from 0 to 3 nodes, for default/p-")
        assert (growth.times, growth.until - growth.at) == (growth.times, 10 * (growth.times - 1))
        assert growth.times >= 28, "each loop decides it again, and it is one decision"
        document = autoscaler.document()
        assert document is not None
        assert [each["text"] for each in document["withheld"]] == [growth.text]
        group = document["groups"][0]
        assert (group["backoff"], group["closed"], group["coming"], group["asked"]) == (None, None, 0, None)
        assert cluster.shadow.decision_log.counts["grow"] == 1

        cluster.add_nodes(3)  # by those who do what it only says
        for number in range(3):
            cluster.bind(number)
        await anyio.sleep(1 * MINUTES)
        document = autoscaler.document()
        assert document is not None
        assert "withheld" not in document
        for number in range(3):
            cluster.box.api.request("DELETE", f"/api/v1/namespaces/default/pods/p-{number}")
        await anyio.sleep(6 * MINUTES)
        removals = cluster.would("remove node")
        assert sorted(each.name for each in removals) == ["n-0", "n-1", "n-2"]
        assert {each.text for each in removals} == {"would be removed: empty"}
        assert all(each.times >= 10 for each in removals)
        document = autoscaler.document()
        assert document is not None
        assert (document["scaleDown"]["begun"], document["scaleDown"]["underWay"], document["scaleDown"]["cooling"]) == (
            [],
            0,
            {},
        )
        nodes = cluster.box.api.request("GET", "/api/v1/nodes")
        assert b"taints" not in nodes.body
        assert set(cluster.api.asked) == {"GET", "watch"}
        past = await cluster.shadow.history("node", "", "n-0", None)
        assert past.entries[-1].text == "decided and not done: would be removed: empty"
        assert [entry.action for entry in past.entries].count(HistoryAction.WITHHELD) == 1

    play(story, tmp_path / "history.json")


def test_without_node_groups_it_plans_those_that_labels_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "SETTINGS", WITHOUT_GROUPS)

    async def story(cluster: Cluster) -> None:
        cluster.add_nodes(1, label="cloud.google.com/gke-nodepool")
        cluster.add_pods(3)
        cluster.bind(0)
        await anyio.sleep(3 * MINUTES)
        [growth] = cluster.would("grow")
        assert (growth.name, growth.text[: growth.text.index(",")]) == ("pool", "would grow from 1 to 3 nodes")
        assert cluster.shadow.autoscaler_service is not None
        document = cluster.shadow.autoscaler_service.document()
        assert document is not None
        assert document["notes"] == [BY_LABELS]
        for number in range(3):
            cluster.box.api.request("DELETE", f"/api/v1/namespaces/default/pods/p-{number}")
        await anyio.sleep(6 * MINUTES)
        assert [each.name for each in cluster.would("remove node")] == ["n-0"]
        cluster.box.api.request("DELETE", "/api/v1/nodes/n-0")
        await anyio.sleep(1 * MINUTES)
        document = cluster.shadow.autoscaler_service.document()
        assert document is not None
        assert [(each["name"], each["target"]) for each in document["groups"]] == [("pool", 0)], "it stays known"

    play(story, tmp_path / "history.json")


def test_the_history_outlives_the_process(tmp_path: Path) -> None:
    async def grows(cluster: Cluster) -> None:
        cluster.add_pods(1)
        await anyio.sleep(1 * MINUTES)

    async def remembers(cluster: Cluster) -> None:
        await anyio.sleep(1 * MINUTES)
        past = await cluster.shadow.history("pod", "default", "p-0", None)
        assert "pool would grow from 0 to 1 nodes, for default/p-0" in past.entries[-1].text

    play(grows, tmp_path / "history.json")
    play(remembers, tmp_path / "history.json")


def test_kube_scheduler_and_agents_get_503_with_the_reason(tmp_path: Path) -> None:
    async def asks(cluster: Cluster) -> None:
        for application in (cluster.shadow.extender_application, cluster.shadow.agents_application):
            answer = await answered(application, Request("POST", "/scheduler/filter", b"{}"))
            assert answer.status == 503
            assert b"is a shadow" in answer.body

    play(asks, tmp_path / "history.json")


def test_nothing_that_writes_is_reached_from_it(tmp_path: Path) -> None:
    async def walk(cluster: Cluster) -> None:
        await anyio.sleep(1 * MINUTES)
        shadow = reached_from(cluster.shadow)
        assert not shadow & set(WRITERS)
        settings = loads(SETTINGS.format(file=tmp_path / "history.json"))
        service = Service(settings, EmbeddedApi(cluster.box.api), Random(2), make_replica=lambda feed, *_: InlineReplica(feed))
        # The loop and the election are not there before the service runs.
        assert set(WRITERS) - reached_from(service) == {Actor, ApiLease, KubeClient, MachineRemover}, "the walk finds them"

    play(walk, tmp_path / "history.json")
    assert {name for name in dir(KubeReader) if not name.startswith("_")} == {"send", "stream", "url"}


def reached_from(root: object) -> set[type]:
    """The types of whatever is reached from an object, as the garbage collector sees it, without classes and modules."""
    seen: set[int] = set()
    kinds: set[type] = set()
    left = [root]
    while left:
        each = left.pop()
        if id(each) in seen or isinstance(each, type | type(json)):
            continue
        seen.add(id(each))
        kinds.add(type(each))
        left += _held(each)
    return kinds


def _held(each: object) -> list[object]:
    """What an object without a dictionary holds: of a function what it closes over, since it refers to its whole module."""
    closure = getattr(each, "__closure__", None)
    if closure is not None or hasattr(each, "__code__"):
        return [cell.cell_contents for cell in closure or ()]
    return list(gc.get_referents(each))
