"""One pod, or many, with very many rules: costs are linear, the event loop evaluates a bounded number of rules, and nothing of
the pods stays once they are gone."""

import gc
import time
from dataclasses import replace
from random import Random
from weakref import ref

import anyio
import msgspec
import numpy as np
import pytest
from msgspec import structs

from slackwater.adapters.kube.decode import PodDecoder
from slackwater.controllers.placement.loop import FilterNodeChooser, ScoringLoop
from slackwater.model.events import Event, NodeSeen, PodGone, PodSeen, Synced
from slackwater.model.ids import Instant, NodeName
from slackwater.model.objects import Pod
from slackwater.model.pod_constraints import MOST_RULES, KindInterner
from slackwater.model.reasons import Reason
from slackwater.runtime.state_machine import StateMachine
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from tests.faults.virtualloop import run_virtually
from tests.support import installed
from tests.support.builders import a_node
from tests.support.large_objects import SHAPES, pod_json, stored
from tests.support.service import a_service

#: Shapes whose number of rules does not matter to anything that evaluates rules.
PLAIN = ("local volumes", "gates", "labels", "owners", "node names")
N_NODES = 20


class Cluster:
    """Nodes, the state machine and node choice, and a decoder."""

    def __init__(self) -> None:
        self.state_machine = StateMachine(replace(installed.POLICY, bind=False, scheduler_name="default-scheduler"))
        self.loop = ScoringLoop(self.state_machine, clock=self.clock, weight=1)
        self.choosing = FilterNodeChooser(self.state_machine, self.loop, self.clock)
        self.decoder = PodDecoder(KindInterner())
        for number in range(N_NODES):
            node = a_node(f"n-{number}")
            labels = {"kubernetes.io/hostname": f"n-{number}", "zone": "z"}
            self.apply(NodeSeen(structs.replace(node, labels=labels, scalars=(("example.com/gpu", 8), ("pods", 110)))))
        self.apply(Synced())
        self.rows = self.state_machine.state.nodes.live_rows()

    def clock(self) -> Instant:
        return Instant(anyio.current_time())

    def apply(self, event: Event) -> None:
        self.state_machine.apply(event, self.clock())
        self.loop.after_event()

    async def comes(self, pod: Pod) -> None:
        self.apply(PodSeen(pod))
        await anyio.sleep(1)

    @property
    def snapshot(self) -> ClusterSnapshot:
        found = self.loop._snapshot
        assert found is not None
        return found.replica.snapshot


def played(story: object) -> None:
    """The story of a cluster."""

    async def main() -> None:
        cluster = Cluster()
        async with anyio.create_task_group() as group:
            group.start_soon(cluster.loop.run)
            await anyio.sleep(0.5)
            await story(cluster)  # type: ignore[operator]
            group.cancel_scope.cancel()

    run_virtually(Random(1), main)


@pytest.mark.parametrize("name", SHAPES)
def test_reading_a_pod_costs_in_proportion_to_its_size(name: str) -> None:
    def seconds(rules: int) -> float:
        raw, found = stored(SHAPES[name](rules), 1), []
        for _ in range(3):
            decoder, before = PodDecoder(KindInterner()), time.process_time()
            hash(decoder.decode(raw).kind)
            found.append(time.process_time() - before)
        return min(found)

    small, large = seconds(150), seconds(1_200)
    assert large < 24 * small + 0.001, "eight times the rules"


@pytest.mark.parametrize("name", sorted(SHAPES.keys() - PLAIN))
def test_of_a_large_pod_the_room_alone_is_judged(name: str) -> None:
    async def story(cluster: Cluster) -> None:
        large = cluster.decoder.decode(stored(SHAPES[name](2_000), 1))
        assert large.kind.n_rules > MOST_RULES
        await cluster.comes(large)
        assert cluster.choosing.of(large, cluster.rows) is None, "its room alone is judged"
        assert np.count_nonzero(cluster.state_machine.filter(large, cluster.rows, cluster.clock()) == Reason.OK) == 1
        kinds, facts = cluster.snapshot.kinds, cluster.snapshot.facts
        assert all(numbered.kind.n_rules <= MOST_RULES for numbered in kinds.all)
        assert len(facts.resource) < 10
        plain = cluster.decoder.decode(stored(pod_json("plain"), 2))
        await cluster.comes(plain)
        assert cluster.choosing.of(plain, cluster.rows) is not None

    played(story)


def test_large_pods_that_are_gone_are_forgotten() -> None:
    async def story(cluster: Cluster) -> None:
        pods = [cluster.decoder.decode(stored(shape(2_000), number)) for number, shape in enumerate(SHAPES.values())]
        for pod in pods:
            cluster.apply(PodSeen(pod))
        await anyio.sleep(1)
        for pod in pods:
            cluster.choosing.of(pod, cluster.rows)
            cluster.state_machine.filter(pod, cluster.rows, cluster.clock())
            cluster.apply(PodGone(pod.uid, pod.key))
        large = [ref(pod.kind) for pod in pods if pod.kind.n_rules > MOST_RULES]
        assert len(large) > 15
        del pod
        pods.clear()
        await anyio.sleep(1)
        gc.collect()
        assert not [kind for one in large if (kind := one()) is not None]
        assert not any(len(labels) > 1_000 for labels in cluster.decoder._labels._kept)

    played(story)


def test_groups_of_pods_that_are_gone_are_dropped_at_rest() -> None:
    async def story(cluster: Cluster) -> None:
        pods = [cluster.decoder.decode(stored(SHAPES["preferred pods"](20), number)) for number in range(100)]
        for pod in pods:
            cluster.apply(PodSeen(pod))
        await anyio.sleep(1)
        for pod in pods:
            assert cluster.choosing.of(pod, cluster.rows) is not None
            cluster.apply(PodGone(pod.uid, pod.key))
        assert len(cluster.snapshot.kinds) >= 100
        del pod
        pods.clear()
        await anyio.sleep(70)
        assert len(cluster.snapshot.kinds) == 0
        gc.collect()
        assert (len(cluster.decoder._plain), len(cluster.decoder.kinds)) == (0, 0)
        plain = cluster.decoder.decode(stored(pod_json("plain"), 200))
        await cluster.comes(plain)
        assert cluster.choosing.of(plain, cluster.rows) is not None

    played(story)


def test_many_pods_with_preferences_of_their_own_cost_one_column_for_others() -> None:
    async def story(cluster: Cluster) -> None:
        for number in range(40):
            pod = cluster.decoder.decode(stored(SHAPES["preferred pods, NotIn"](40), number, node=f"n-{number % N_NODES}"))
            assert pod.kind.n_rules <= MOST_RULES
            cluster.apply(PodSeen(pod))
        await anyio.sleep(1)
        plain = cluster.decoder.decode(stored(pod_json("plain"), 100))
        await cluster.comes(plain)
        columns = len(cluster.snapshot.counters._with_column)
        assert cluster.choosing.of(plain, cluster.rows) is not None
        assert len(cluster.snapshot.counters._carrying) == 1_600
        assert len(cluster.snapshot.counters._with_column) <= columns + 1

    played(story)


def test_where_too_many_selectors_would_be_compared_the_node_is_chosen_by_its_room() -> None:
    async def story(cluster: Cluster) -> None:
        base = pod_json("one")
        for number in range(400):
            base["metadata"]["labels"] = {"app": f"a-{number}"}
            cluster.apply(PodSeen(cluster.decoder.decode(stored(base, number, node=f"n-{number % N_NODES}"))))
        picky = [cluster.decoder.decode(stored(SHAPES["preferred pods, NotIn"](n), 1_000 + n)) for n in (5, 40)]
        for pod in picky:
            cluster.apply(PodSeen(pod))
        await anyio.sleep(1)
        assert [cluster.choosing.of(pod, cluster.rows) is None for pod in picky] == [False, True]
        assert np.count_nonzero(cluster.state_machine.filter(picky[1], cluster.rows, cluster.clock()) == Reason.OK) == 1

    played(story)


def test_a_resource_has_a_column_once_a_node_offers_it_and_counts_from_the_start() -> None:
    node = structs.replace(a_node("n-0"), scalars=(("pods", 110),))
    decoder = PodDecoder(KindInterner())
    pod = decoder.decode(stored(SHAPES["resources"](3), 7, node="n-0"))
    snapshot = ClusterSnapshot.build([node, structs.replace(a_node("n-1"), scalars=(("pods", 110),))], [pod])
    lines = len(snapshot.facts.resource)
    name = "tenant.example/x7-1"
    assert name not in snapshot.facts.resource
    with snapshot.fork():
        snapshot.put_node(snapshot.facts.row_of[NodeName("n-0")], structs.replace(node, scalars=((name, 4), ("pods", 110))))
        line = snapshot.facts.resource[name]
        assert len(snapshot.facts.resource) == lines + 1
        assert (int(snapshot.facts.allocatable[line, 0]), int(snapshot.used[line, 0])) == (4, 1)
        snapshot.place(snapshot.kind_id(pod.kind, pod.labels), 0)
        assert int(snapshot.used[line, 0]) == 2
    assert (int(snapshot.facts.allocatable[line, 0]), int(snapshot.used[line, 0])) == (0, 1)


@pytest.mark.anyio
async def test_filter_answers_about_a_large_pod_that_the_watch_has_not_shown() -> None:
    made = msgspec.json.decode(stored(SHAPES["preferred pods"](2_000), 1))
    made["spec"]["schedulerName"] = "slackwater"
    async with a_service() as service:
        service.has(a_node("n"), a_node("m"))
        answer = await service.ask("filter", {"Pod": made, "Nodes": None, "NodeNames": ["n", "m"]})
        assert (len(answer["NodeNames"]), answer["Error"]) == (1, "")
        assert service.reserved("n") == service.reserved("m")
