"""What a loop makes of nodes and of providers that answer, or do not."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest
from msgspec import structs
from structlog.testing import capture_logs

from slackwater.cluster.nodegroups.registry import NodeGroupRegistry
from slackwater.cluster.nodegroups.status import NodeGroupPolicy, NodeObservation
from slackwater.model.events import NodeSeen, PodSeen
from slackwater.model.eviction_facts import EvictionFacts, Owner
from slackwater.model.ids import Instant, UnixTime
from slackwater.model.nodegroups import InstanceId, NodeGroup
from slackwater.model.objects import Node, Pod, Taint
from slackwater.model.pod_constraints import Toleration
from slackwater.ports.clock import Clocks, Watch
from slackwater.ports.protocols import ProviderError
from slackwater.runtime.autoscaler.group_observations import GroupObserver, ask_providers, observations
from slackwater.runtime.state_machine import StateMachine
from tests.support import installed
from tests.support.builders import a_node, a_pod
from tests.support.cloud import Cloud
from tests.support.nodegroups import a_group, an_instance

GPU = "nvidia.com/gpu"


def seen_of(node: Node, *pods: Pod, expected: str | None = None) -> NodeObservation:
    """What is seen of a new node of a group whose nodes have a device."""
    template = None if expected is None else structs.replace(a_node("template"), scalars=((expected, 1),))
    group = replace(a_group(instances=[replace(an_instance("n"), node=node.name)]), template=template)
    state_machine = a_state_machine(node)
    for pod in pods:
        state_machine.apply(PodSeen(pod), Instant(0.0))
    return observations([group], state_machine, NodeGroupPolicy(), now=Instant(1000.0), unix_now=UnixTime(100.0))[
        InstanceId("i-n")
    ]


def tainted(key: str) -> Node:
    return a_node("n", taints=[Taint(key, "", "NoSchedule")])


@pytest.mark.parametrize(
    ("node", "want"),
    [
        (a_node("n"), True),
        (a_node("n", ready=False), False),
        (tainted("node.kubernetes.io/not-ready"), False),
        (tainted("node.cloudprovider.kubernetes.io/uninitialized"), False),
        (tainted("startup-taint.cluster-autoscaler.kubernetes.io/cni"), False),
        (tainted("ignore-taint.cluster-autoscaler.kubernetes.io/cni"), False),
        (tainted("node.kubernetes.io/network-unavailable"), False),
        (tainted("node.cilium.io/agent-not-ready"), False),
        (tainted("ebs.csi.aws.com/agent-not-ready"), False),
        (tainted("node.cluster.x-k8s.io/uninitialized"), False),
        (tainted("node.kubernetes.io/disk-pressure"), True),
        (tainted("dedicated"), True),
    ],
)
def test_a_node_is_started_once_it_takes_the_pods_it_is_for(node: Node, want: bool) -> None:
    assert seen_of(node).started is want


def test_a_node_without_the_devices_of_its_group_is_not_started() -> None:
    node = a_node("n")
    assert seen_of(node, expected=GPU).lacks == (GPU,)
    assert not seen_of(structs.replace(node, scalars=((GPU, 0),)), expected=GPU).started
    assert seen_of(structs.replace(node, scalars=((GPU, 1),)), expected=GPU).started


ANYTHING = [Toleration("", "Exists", "", "")]


@pytest.mark.parametrize(
    ("pod", "want"),
    [
        (a_pod("q", on="n"), (True, True)),
        (a_pod("q", on="n", tolerations=ANYTHING), (True, False)),
        (structs.replace(a_pod("q", on="n"), eviction_facts=EvictionFacts(mirror_pod=True)), (False, False)),
        (
            structs.replace(a_pod("q", on="n"), eviction_facts=EvictionFacts(owner=Owner("apps", "DaemonSet", "d"))),
            (False, False),
        ),
    ],
    ids=["a pod", "one that tolerates anything", "a mirror pod", "a DaemonSet's"],
)
def test_a_new_node_is_taken_by_pods_that_did_not_come_with_it(pod: Pod, want: tuple[bool, bool]) -> None:
    seen = seen_of(tainted("dedicated"), pod)
    assert (seen.used, seen.taken) == want


def a_state_machine(*objects: Node) -> StateMachine:
    state_machine = StateMachine(installed.POLICY)
    for node in objects:
        state_machine.apply(NodeSeen(node), Instant(0.0))
    state_machine.apply(PodSeen(a_pod("p", on="used")), Instant(0.0))
    return state_machine


def test_nodes_are_found_by_name_or_by_their_machines_id() -> None:
    known, unnamed = replace(an_instance("known"), node=a_node("used").name), an_instance("unnamed")
    group = a_group(instances=[known, unnamed, an_instance("alone")])
    state_machine = a_state_machine(a_node("used", ready=False), a_node("other", provider_id="i-unnamed", created_at=70.0))
    seen = observations([group], state_machine, NodeGroupPolicy(), now=Instant(1000.0), unix_now=UnixTime(100.0))
    assert {id_: observation.name for id_, observation in seen.items()} == {"i-known": "used", "i-unnamed": "other"}
    stood_on = seen[InstanceId("i-known")]
    assert (stood_on.used, stood_on.ready) == (True, False), "a pod stands there"
    assert seen[InstanceId("i-known")].created_at is None
    assert seen[InstanceId("i-unnamed")].created_at == 970.0


@dataclass
class Broken:
    """A provider with a bug, or without an answer."""

    error: Exception
    name: str = "broken"

    async def groups(self, *, timeout_seconds: float) -> Sequence[NodeGroup]:
        raise self.error

    async def grow(self, *_: object, **__: object) -> None:
        raise AssertionError

    lower = delete = grow


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("error", "want"),
    [
        (ProviderError("unknown", None, "no answer"), "node groups: unknown: no answer"),
        (ZeroDivisionError("a bug"), "ZeroDivisionError: a bug"),
    ],
    ids=["no answer", "a bug"],
)
async def test_a_provider_that_fails_does_not_silence_the_others(error: Exception, want: str) -> None:
    cloud = Cloud(lambda: 0.0)
    cloud.has("a", size=2)
    groups, silent = await ask_providers([Broken(error), cloud], timeout_seconds=60)
    assert [group.name for group in groups] == ["a"]
    assert silent == {"broken": want}


@pytest.mark.anyio
async def test_why_a_group_cannot_be_read_is_logged_once_for_as_long_as_it_cannot() -> None:
    cloud = Cloud(now=lambda: 0.0)
    cloud.has("a").unreadable = "it is odd"
    registry = NodeGroupRegistry(NodeGroupPolicy())
    clocks = Clocks(clock=lambda: Instant(0.0), wall=lambda: UnixTime(0.0), steady=lambda: UnixTime(0.0))
    observer = GroupObserver(a_state_machine(a_node("n")), [cloud], registry, clocks=clocks, timeout_seconds=1.0)
    with capture_logs() as logs:
        for unreadable in ("it is odd", "it is odd", "", "it is odd"):
            cloud.pool("a").unreadable = unreadable
            await observer.observe(Watch(clocks.clock))
    assert [entry["problem"] for entry in logs] == ["it is odd", "it is odd"]
