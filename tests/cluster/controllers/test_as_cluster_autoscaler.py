"""A Deployment of Cluster Autoscaler becomes our configuration by the commands that users have. The service that runs with it
behaves in five scenarios, one after another, as Cluster Autoscaler's documentation says of these flags: on a real control plane
with its controllers, and nodes that KWOK plays.

The cloud is the only thing replaced: `--provider kwok` takes the place of `--cloud-provider`, and the groups that `--nodes`
names get what a cloud would know of them, the shape of their machines and how these start.
"""

import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import anyio
import pytest
import yaml

from slackwater.cli.main import main
from tests.cluster.support.bodies import Json, a_pod
from tests.cluster.support.ground import Ground
from tests.cluster.support.removals import History, followed
from tests.cluster.support.slackwater_process import SlackwaterProcess
from tests.cluster.support.stage import Stage
from tests.support.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.cluster]

DEPLOYMENT: Final = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: cluster-autoscaler, namespace: kube-system}
spec:
  template:
    spec:
      containers:
      - name: cluster-autoscaler
        image: registry.k8s.io/autoscaling/cluster-autoscaler:v1.35.0
        command:
        - ./cluster-autoscaler
        - --v=4
        - --cloud-provider=gce
        - --namespace=kube-system
        - --nodes=1:4:on-demand-pool
        - --nodes=0:3:spot-pool
        - --nodes=0:2:sold-out-pool
        - --nodes=0:2:batch-pool
        - --expander=priority,least-waste
        - --scan-interval=1s
        - --enforce-node-group-min-size=true
        - --balance-similar-node-groups=false
        - --max-nodes-total=6
        - --cores-total=0:400
        - --memory-total=0:1600
        - --expendable-pods-priority-cutoff=-5
        - --new-pod-scale-up-delay=5s
        - --max-node-provision-time=12s
        - --initial-node-group-backoff-duration=5m
        - --max-node-group-backoff-duration=10m
        - --node-group-backoff-reset-timeout=1h
        - --scale-down-enabled=true
        - --scale-down-utilization-threshold=0.6
        - --scale-down-unneeded-time=4s
        - --scale-down-unready-time=2m
        - --scale-down-delay-after-add=3s
        - --scale-down-delay-after-delete=0s
        - --scale-down-delay-after-failure=10s
        - --max-scale-down-parallelism=6
        - --max-drain-parallelism=5
        - --unremovable-node-recheck-timeout=1s
        - --node-delete-delay-after-taint=1s
        - --max-graceful-termination-sec=30
        - --max-pod-eviction-time=30s
        - --skip-nodes-with-local-storage=false
        - --skip-nodes-with-system-pods=true
        - --ignore-daemonsets-utilization=true
        - --startup-taint=example.com/booting
        - --status-config-map-name=status-of-the-converted
---
apiVersion: v1
kind: ConfigMap
metadata: {name: cluster-autoscaler-priority-expander, namespace: kube-system}
data:
  priorities: |
    10: ["on-demand"]
    20: ["spot"]
    50: ["sold-out"]
"""
#: What the flags above say.
TOTAL, DELAY_SECONDS, UNNEEDED_SECONDS = 6, 5.0, 4.0
ON_DEMAND, SPOT, SOLD_OUT, BATCH = "on-demand-pool", "spot-pool", "sold-out-pool", "batch-pool"
#: What a cloud knows of a group: nodes of 8 CPU and 32 Gi. Machines of one group never become nodes.
_CAPACITY: Final = {"cpu": "8", "memory": "32Gi", "pods": "110"}
_NEVER_COMES: Final = {"silent": 1.0}
#: A pod that fills a node beyond the threshold, for itself.
_LARGE: Final = "5"
_PATIENCE_SECONDS: Final = 60.0


def converted(folder: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """The configuration by `config from-cluster-autoscaler`, which `config check` finds valid; all flags but that of the log
    have a counterpart."""
    source, target = folder / "deployment.yaml", folder / "converted.yaml"
    source.write_text(DEPLOYMENT)
    assert main(["config", "from-cluster-autoscaler", str(source), "--provider", "kwok", "--output", str(target)]) == 0
    assert [line.partition("--")[2] for line in capsys.readouterr().err.splitlines()] == ["v=4: a flag of the log"]
    assert main(["config", "check", str(target)]) == 0
    return dict(yaml.safe_load(target.read_text()))


def with_cloud(settings: dict[str, Any]) -> dict[str, Any]:
    """Adds to each group what its cloud would know; nothing else is changed."""
    for group in settings["autoscaler"]["nodeGroups"]:
        group["template"] = {"metadata": {"labels": {"pool": group["name"]}}, "status": {"capacity": _CAPACITY}}
        group["kwok"] = _NEVER_COMES if group["name"] == SOLD_OUT else {}
    return settings


def a_template(name: str, cpu: str, *, annotations: Mapping[str, str] | None = None, **spec: Any) -> Json:
    pod = a_pod(name, cpu=cpu, labels={"app": name}, restartPolicy="Always", **spec)
    return {"metadata": {"labels": {"app": name}, "annotations": dict(annotations or {})}, "spec": pod["spec"]}


@dataclass(frozen=True, slots=True)
class Scene:
    """The cluster and what was seen of it; pods are those of ReplicaSets, which make them again."""

    ground: Ground
    history: History
    service: SlackwaterProcess

    async def replicas(self, name: str, count: int, template: Json) -> None:
        spec = {"replicas": count, "selector": {"matchLabels": {"app": name}}, "template": template}
        body = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name}, "spec": spec}
        await self.ground.create(f"/apis/apps/v1/namespaces/{self.ground.name}/replicasets", body)

    async def delete(self, name: str) -> None:
        """A ReplicaSet with its pods."""
        path = f"/apis/apps/v1/namespaces/{self.ground.name}/replicasets/{name}?propagationPolicy=Background"
        async with self.ground.api.delete(path) as answer:
            assert answer.status == 200, await answer.text()

    async def put(self, name: str, node: str, template: Json) -> None:
        """A pod on this node, in a ReplicaSet that adopts it."""
        whole = {**template, "spec": {**template["spec"], "nodeName": node}}
        body = {"apiVersion": "v1", "kind": "Pod", **whole, "metadata": {**template["metadata"], "name": f"{name}-first"}}
        await self.ground.create(self.ground.pods_path, body)
        await self.until_ready(name, 1)
        await self.replicas(name, 1, template)

    def pods(self, app: str) -> dict[str, Mapping[str, Any]]:
        found = self.history.there["pod"]
        return {name: pod for name, pod in found.items() if pod["labels"].get("app") == app}

    async def until_ready(self, app: str, count: int) -> None:
        async def ready() -> int:
            return sum(pod["ready"] for pod in self.pods(app).values())

        await eventually(ready, lambda n: n == count, within_seconds=_PATIENCE_SECONDS, wanted=f"{count} pods of {app} ready")

    async def nodes(self) -> dict[str, int]:
        """Ready nodes of each group."""
        ready = (name for name, node in self.history.there["node"].items() if node["ready"])
        return dict(Counter(name.rpartition("-")[0] for name in ready))

    async def until_nodes(self, **wanted: int) -> None:
        want = {f"{name.replace('_', '-')}-pool": count for name, count in wanted.items()}
        what = f"nodes {want}"
        await eventually(self.nodes, lambda found: found == want, within_seconds=_PATIENCE_SECONDS, wanted=what)

    async def groups(self) -> dict[str, Json]:
        """What the last loop says of each group; together they never exceed `--max-nodes-total`."""
        record = (await self.service.dumpstate())["autoscaler"] or {"groups": []}
        found = {group["name"]: group for group in record["groups"]}
        assert sum(group["target"] for group in found.values()) <= TOTAL, found
        return found

    async def until_targets(self, **wanted: int) -> None:
        want = {f"{name.replace('_', '-')}-pool": count for name, count in wanted.items()}

        async def targets() -> dict[str, int]:
            return {name: group["target"] for name, group in (await self.groups()).items() if group["target"]}

        what = f"targets {want}"
        await eventually(targets, lambda found: found == want, within_seconds=_PATIENCE_SECONDS, wanted=what, every_seconds=0.2)

    async def check_delay(self, app: str, group: str) -> None:
        """No node of the group was made before the first pod of the app was as old as `--new-pod-scale-up-delay` says."""
        pods = [pod for name, pod in (await self.ground.pods()).items() if name.startswith(app)]
        nodes = [node for node in await self.ground.nodes() if node["metadata"]["name"].startswith(group)]
        age = min(map(_created, nodes)) - min(map(_created, pods))
        assert age >= DELAY_SECONDS, f"{group} grew when the first pod of {app} was {age:g} s old"


def _created(item: Json) -> float:
    return datetime.fromisoformat(item["metadata"]["creationTimestamp"]).timestamp()


@asynccontextmanager
async def timed(what: str) -> AsyncIterator[None]:
    began = anyio.current_time()
    yield
    print(f"{anyio.current_time() - began:5.1f} s: {what}")


@pytest.mark.timeout(420)
async def test_what_was_cluster_autoscalers_behaves_alike(
    stage: Stage, ground: Ground, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = set(re.findall("- --([a-z-]+)", DEPLOYMENT))
    assert len(flags) >= 25
    settings = with_cloud(converted(tmp_path, capsys))
    await ground.create("/api/v1/namespaces/kube-system/configmaps", yaml.safe_load(DEPLOYMENT.split("---\n")[1]))
    lowest = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "filler"}, "value": -6}
    await ground.create("/apis/scheduling.k8s.io/v1/priorityclasses", lowest)
    async with stage.control_plane.session() as watching, followed(watching) as history:
        service = await stage.up(settings, kubeconfig=stage.control_plane.kubeconfig("admin"))
        assert main(["config", "check", str(service.config)]) == 0
        print(f"\n{len(flags)} flags")
        scene = Scene(ground, history, service)
        async with timed("1. a group below its minimum grows, nothing grows for expendable pods"):
            await the_minimum_comes_and_nothing_for_expendable_pods(scene)
        async with timed("2. pods old enough bring nodes by priority, up to the total"):
            await a_burst_grows_the_groups_by_priority_up_to_the_total(scene)
        async with timed("3. a group whose machines do not come backs off, the next one takes its place"):
            await the_next_group_takes_the_place_of_one_whose_machines_do_not_come(scene)
        async with timed("4. nodes up to the threshold go, unless a pod or a budget keeps them"):
            await underused_nodes_go_unless_a_pod_keeps_them(scene)
        async with timed("5. an empty cluster keeps its minimum, a group grows from zero"):
            await an_empty_cluster_keeps_its_minimum_and_a_group_grows_from_zero(scene)
    assert (await service.metrics()).total("slackwater_autoscaler_failed_loops_total") == 0


async def the_minimum_comes_and_nothing_for_expendable_pods(scene: Scene) -> None:
    """`--enforce-node-group-min-size`. The pods below `--expendable-pods-priority-cutoff` pend until the end."""
    filler = a_template("filler", "6", priorityClassName="filler", nodeSelector={"pool": BATCH})
    await scene.replicas("filler", 2, filler)
    await scene.until_nodes(on_demand=1)


async def a_burst_grows_the_groups_by_priority_up_to_the_total(scene: Scene) -> None:
    """Eight pods of a node each, one of which has a node already. The group of the highest priority takes two, its maximum, the
    next one three, its maximum; then `--max-nodes-total` is reached, although the last group could grow."""
    await scene.replicas("burst", 8, a_template("burst", _LARGE))
    await scene.until_targets(on_demand=1, spot=3, sold_out=2)
    await scene.until_nodes(on_demand=1, spot=3)
    await scene.check_delay("burst", SPOT)
    await scene.until_ready("burst", 4)


async def the_next_group_takes_the_place_of_one_whose_machines_do_not_come(scene: Scene) -> None:
    """After `--max-node-provision-time` its increase is taken back, and it is not tried again for
    `--initial-node-group-backoff-duration`."""
    await scene.until_targets(on_demand=3, spot=3)
    await scene.until_nodes(on_demand=3, spot=3)
    await scene.until_ready("burst", TOTAL)
    backoff = (await scene.groups())[SOLD_OUT]["backoff"]
    assert 60 < backoff["endsInSeconds"] <= 300, backoff
    assert len(scene.pods("burst")) == 8


async def underused_nodes_go_unless_a_pod_keeps_them(scene: Scene) -> None:
    """`--scale-down-utilization-threshold`: the larger share counts, of CPU or of memory. That node could take the pods of all
    others. `--skip-nodes-with-local-storage=false` lets the node of a pod with an emptyDir go."""
    pools = (sorted(name for name in scene.history.there["node"] if name.startswith(pool)) for pool in (ON_DEMAND, SPOT))
    (above, annotated, below), (guarded, local, _empty) = pools
    budget = {"selector": {"matchLabels": {"app": "guarded"}}, "maxUnavailable": 0}
    body = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "guarded"}, "spec": budget}
    await scene.ground.create(f"/apis/policy/v1/namespaces/{scene.ground.name}/poddisruptionbudgets", body)
    kept = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
    await scene.put("above", above, a_template("above", "1", memory="22Gi"))
    await scene.put("annotated", annotated, a_template("annotated", "1", annotations=kept))
    await scene.put("below", below, a_template("below", "2"))
    await scene.put("guarded", guarded, a_template("guarded", "1"))
    await scene.put("local", local, a_template("local", "1", volumes=[{"name": "v", "emptyDir": {}}]))
    since, began = len(scene.history.changes), time.monotonic()
    await scene.delete("burst")
    await scene.until_nodes(on_demand=2, spot=1)
    await anyio.sleep(UNNEEDED_SECONDS)  # so that a node that is only later than the others would go, too
    assert set(scene.history.there["node"]) == {above, annotated, guarded}
    for app in ("above", "annotated", "below", "guarded", "local"):
        await scene.until_ready(app, 1)
    marked = [each for each in scene.history.changes[since:] if each.kind == "node" and each.now and each.now["tainted"]]
    assert {each.name for each in marked}.isdisjoint({above, annotated, guarded})
    assert min(each.at for each in marked) - began >= UNNEEDED_SECONDS
    stayed = {app: f"{scene.ground.name}/{app}-first" in scene.history.there["pod"] for app in ("above", "below", "local")}
    assert stayed == {"above": True, "below": False, "local": False}, "pods of the nodes that went were evicted"


async def an_empty_cluster_keeps_its_minimum_and_a_group_grows_from_zero(scene: Scene) -> None:
    """The expendable pods have been pending for this group since the beginning; only the other one brings a node."""
    for app in ("above", "annotated", "below", "guarded", "local"):
        await scene.delete(app)
    await scene.until_nodes(on_demand=1)
    assert not any(each.name.startswith(BATCH) for each in scene.history.changes), "nothing grows for expendable pods"
    await scene.replicas("batch", 1, a_template("batch", _LARGE, nodeSelector={"pool": BATCH}))
    await scene.until_nodes(on_demand=1, batch=1)
    await scene.until_ready("batch", 1)
    await scene.check_delay("batch", BATCH)
    assert {pod["refused"] for pod in scene.pods("filler").values()} == {True}
