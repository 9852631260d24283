"""A Cluster Autoscaler with 25 flags, and what `slackwater config from-cluster-autoscaler` makes of it: both do the same.

Each scenario is played with the converted file, and once with the file of other flags, which must lead to something else. What
Cluster Autoscaler does in each follows from its rules.
"""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
import yaml

from slackwater.app.converters.cluster_autoscaler import from_cluster_autoscaler
from slackwater.app.converters.workloads import manifests
from slackwater.app.offline.cluster import Cluster, read_cluster
from slackwater.app.offline.files import documents
from slackwater.app.offline.scaleup import scale_up_answer
from slackwater.app.policies import policy_of, scale_down_policy_of
from slackwater.app.rounds.engine import Played, play
from slackwater.app.settings import Settings, loads
from slackwater.model.ids import UnixTime
from tests.support import installed
from tests.support.builders import a_node
from tests.support.manifests import Obj, node_labels, node_manifest, owned_by, pod_manifest
from tests.support.shrinking import ShrinkScene

EXAMPLE: Final = Path("docs/guides/cluster-autoscaler.yaml").read_text()
PRIORITIES: Final = msgspec.json.encode(yaml.safe_load(EXAMPLE.split("---\n")[1]))
START: Final = UnixTime(1_800_000_000.0)
READY: Final = {"conditions": [{"type": "Ready", "status": "True"}]}
HOUR: Final = 3600.0


def converted(**flags: str | None) -> Settings:
    """The example's file with other values of some flags; None: without the flag."""
    text = EXAMPLE
    for name, value in flags.items():
        flag = re.escape(name.replace("_", "-"))
        line = "" if value is None else f"        - --{name.replace('_', '-')}={value}\n"
        text, found = re.subn(rf"        - --{flag}[= ].*\n", line, text)
        assert found == 1, name
    result = from_cluster_autoscaler(manifests(documents(text.encode())), provider="kwok")
    assert result.refused == ()
    return loads(result.text)


def node(name: str, group: str = "on-demand-pool", *, cpu: str = "10") -> Obj:
    return node_manifest(name, cpu=cpu, memory="100Gi", labels=node_labels(name, group), status=READY)


def pod(name: str, cpu: str, on: str | None = None, **spec: Any) -> Obj:
    meta = {"uid": name, **owned_by("web", uid="web"), "labels": {"app": "web"}}
    replicas = {} if on is None else READY
    return pod_manifest(name, cpu=cpu, on=on, meta=meta, status=replicas, **spec)


def cluster(*items: Obj, priorities: Obj | None = None) -> Cluster:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web", "namespace": "shop", "uid": "web"}}
    replicas = sum(1 for each in items if each["kind"] == "Pod")
    owner |= {"spec": {"replicas": replicas}, "status": {"replicas": replicas}}
    whole = {"apiVersion": "v1", "kind": "List", "items": [*items, owner, priorities or json.loads(PRIORITIES)]}
    return read_cluster(msgspec.Raw(msgspec.json.encode(whole)))


def played(found: Cluster, settings: Settings) -> Played:
    return play(found, settings, start=START, horizon_seconds=2 * HOUR)


def half_full(cpu: str, **spec: Any) -> Cluster:
    """A node with one pod, beside one with room for it that is used too much to go."""
    return cluster(node("a"), node("b"), pod("small", cpu, "a", **spec), pod("large", "7", "b"))


def test_a_node_up_to_the_threshold_goes_and_one_above_it_stays() -> None:
    """60 % of the first node are in use; the other has room for that, and is used too much to go."""
    used = [pod(f"a{at}", "2", "a") for at in range(3)]
    found = cluster(node("a"), node("b", cpu="20"), *used, pod("b1", "14", "b"))
    assert played(found, converted()).removed == ("a",)
    assert played(found, converted(scale_down_utilization_threshold="0.59")).removed == ()
    assert played(found, converted(scale_down_utilization_threshold=None)).removed == ()


def test_a_node_goes_after_its_unneeded_time() -> None:
    for flag, seconds in (("4m", 240.0), ("30m", 1800.0), (None, 600.0)):
        result = played(half_full("2500m"), converted(scale_down_unneeded_time=flag))
        assert result.removed == ("a",)
        assert seconds < result.seconds < seconds + 120, flag


def test_the_cluster_grows_to_the_total_and_no_further() -> None:
    """Six nodes in all: twelve pods of a whole node each get four more."""
    busy = [node("a"), node("b"), pod("a1", "9", "a"), pod("b1", "9", "b")]
    pending = [pod(f"p{at}", "9") for at in range(12)]
    found = scale_up_answer(cluster(*busy, *pending), converted())
    assert sum(group.new_nodes for group in found.groups) == 4
    more = scale_up_answer(cluster(*busy, *pending), converted(max_nodes_total="9"))
    assert sum(group.new_nodes for group in more.groups) == 7


def test_the_group_of_the_higher_priority_grows() -> None:
    busy = [node("a"), node("s", "spot-pool"), pod("a1", "9", "a"), pod("s1", "9", "s")]
    found = scale_up_answer(cluster(*busy, pod("p", "5")), converted())
    assert [group.name for group in found.groups if group.new_nodes] == ["spot-pool"]
    turned = json.loads(PRIORITIES)
    turned["data"]["priorities"] = "10: ['.*spot.*']\n50: ['.*demand.*']"
    other = scale_up_answer(cluster(*busy, pod("p", "5"), priorities=turned), converted())
    assert [group.name for group in other.groups if group.new_nodes] == ["on-demand-pool"]


@pytest.mark.parametrize("volume", [{"emptyDir": {}}, {"hostPath": {"path": "/x"}}])
def test_a_pod_with_local_storage_does_not_keep_its_node(volume: Obj) -> None:
    found = half_full("2500m", volumes=[{"name": "v", **volume}])
    assert played(found, converted()).removed == ("a",)
    assert played(found, converted(skip_nodes_with_local_storage=None)).removed == ()


def test_pods_of_other_controllers_keep_their_node_as_by_cluster_autoscalers_default() -> None:
    """No flag says so: the default there is another one than ours."""
    found = half_full("2500m")
    own = {"apiVersion": "example.com/v1", "kind": "Game", "name": "g", "controller": True, "uid": "g"}
    foreign = pod_manifest("game", cpu="1", on="a", meta={"uid": "game", "ownerReferences": [own]}, status=READY)
    odd = cluster(node("a"), node("b"), foreign, pod("large", "7", "b"))
    assert played(odd, converted()).removed == ()
    assert played(found, converted()).removed == ("a",)


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_one_node_is_drained_at_a_time_in_the_running_loop() -> None:
    """The real loop over a cloud on virtual time, and again a default that no flag says."""
    ours = converted()
    policy = replace(scale_down_policy_of(ours), blocked_by=installed.BLOCKED_BY)  # the scene has no ReplicaSets
    scene = ShrinkScene(scale_down=policy, limits=policy_of(ours).drain)
    template = msgspec.structs.replace(a_node("template", cpu="4", memory="64Gi"), scalars=(("pods", 110),))
    scene.cloud.has("a", size=8, template=template)
    scene.settle()
    scene.runs("web", sorted(scene._shown))
    await scene.pass_time(230)
    assert scene.sizes() == {"a": 8}
    await scene.pass_time(1200)
    assert scene.watched.most_drains == 1
    assert scene.sizes()["a"] < 8
