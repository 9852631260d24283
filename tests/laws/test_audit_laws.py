"""Whatever is broken in a cluster state, and whatever it was never told: after one audit it is the cluster, and its sums add
up."""

from collections.abc import Callable
from dataclasses import replace

import anyio
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from slackwater.controllers.audit.loop import Audit
from slackwater.model.columns import SCHEMA
from slackwater.model.events import Event, NodeGone, NodeSeen, PodGone, PodSeen, Synced
from slackwater.model.ids import Instant, NodeName
from slackwater.model.objects import Node, Pod
from slackwater.model.pod_resources import ordinary_resources
from slackwater.runtime.state_machine import StateMachine
from tests.support import installed
from tests.support.audited import Cluster
from tests.support.builders import a_node, a_pod, amounts
from tests.support.invariants import violations

NOW = Instant(100.0)
_NODES, _PODS = 3, 6

Break = Callable[[StateMachine, Cluster], None]


def _pods(state_machine: StateMachine) -> list[Pod]:
    return sorted(state_machine.state.pods, key=lambda pod: pod.key)


def wrong_number(which: int, node: int, by: int) -> Break:
    def it(state_machine: StateMachine, _: Cluster) -> None:
        row = state_machine.state.nodes.row_of.get(NodeName(f"n{node}"))
        if row is not None:
            getattr(state_machine.state.ledger.columns, SCHEMA[which].name)[by % 2, row] += by

    return it


def lost_pod(index: int) -> Break:
    def it(state_machine: StateMachine, _: Cluster) -> None:
        for pod in _pods(state_machine)[index : index + 1]:
            state_machine.apply(PodGone(pod.uid, pod.key), NOW)
            state_machine.state.pods.expire(Instant(NOW + 1000))

    return it


def lost_node(index: int) -> Break:
    def it(state_machine: StateMachine, _: Cluster) -> None:
        state_machine.apply(NodeGone(NodeName(f"n{index}")), NOW)

    return it


def deleted_unheard(index: int) -> Break:
    def it(_: StateMachine, cluster: Cluster) -> None:
        for key in sorted(cluster.pods_now)[index : index + 1]:
            del cluster.pods_now[key]
        cluster.version += 1

    return it


def moved(index: int, node: int) -> Break:
    def it(state_machine: StateMachine, _: Cluster) -> None:
        for pod in _pods(state_machine)[index : index + 1]:
            claim = state_machine.state.reservations.get(pod.uid)
            if claim is not None:
                state_machine.state.reservations.put(pod.uid, structs.replace(claim, node=NodeName(f"n{node}")))

    return it


def other_resources(index: int, cpu: int) -> Break:
    def it(state_machine: StateMachine, _: Cluster) -> None:
        for pod in _pods(state_machine)[index : index + 1]:
            if state_machine.state.reservations.get(pod.uid) is not None:
                state_machine.state.reservations.recount(pod.uid, ordinary_resources(amounts(f"{cpu}m", "1Gi")))

    return it


def changed_unheard(index: int, *, ended: bool) -> Break:
    def it(_: StateMachine, cluster: Cluster) -> None:
        for key in sorted(cluster.pods_now)[index : index + 1]:
            pod = cluster.pods_now[key]
            cluster.has(structs.replace(pod, node=NodeName("n0"), ended=ended, resource_version=cluster.version + 1))

    return it


_index, _node = st.integers(0, _PODS - 1), st.integers(0, _NODES - 1)
breaks = st.lists(
    st.one_of(
        st.builds(wrong_number, st.integers(0, len(SCHEMA) - 1), _node, st.integers(1, 10_000)),
        st.builds(lost_pod, _index),
        st.builds(lost_node, _node),
        st.builds(deleted_unheard, _index),
        st.builds(moved, _index, _node),
        st.builds(other_resources, _index, st.integers(0, 9_000)),
        st.builds(changed_unheard, _index, ended=st.booleans()),
    ),
    max_size=8,
)


@settings(max_examples=60)
@given(broken=breaks)
def test_after_an_audit_the_state_is_the_cluster(broken: list[Break]) -> None:
    state_machine, cluster = StateMachine(installed.POLICY), Cluster()

    def take(event: Event) -> None:
        state_machine.apply(event, NOW)

    objects: list[Node | Pod] = [a_node(f"n{n}") for n in range(_NODES)]
    objects += [a_pod(f"p{n}", on=None if n % 3 == 2 else f"n{n % _NODES}") for n in range(_PODS)]
    cluster.has(*objects)
    for each in objects:
        take(NodeSeen(each) if isinstance(each, Node) else PodSeen(each))
    take(Synced())
    for each_break in broken:
        each_break(state_machine, cluster)
    audit = Audit(state_machine.state, cluster, take, config=replace(installed.AUDIT, settle_seconds=0.0))
    audit.sample()
    assert anyio.run(audit.audit)
    assert violations(state_machine) == []
    assert {pod.key: pod for pod in state_machine.state.pods} == cluster.pods_now
    assert {node.name: node for _, node in state_machine.state.nodes} == cluster.nodes_now
    counted = {uid: claim.node for uid, claim in state_machine.state.reservations.copy().items()}
    assert counted == {pod.uid: pod.node for pod in cluster.pods_now.values() if pod.node is not None and not pod.ended}
    assert len(state_machine.state.quarantine) == 0
