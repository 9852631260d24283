"""What-if on a running service: the same answer as on a file, with what a question supposes, and refusals that say where."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

from slackwater.app.offline import read_cluster
from slackwater.app.policies import policy_of
from slackwater.app.prices import price_book_of
from slackwater.app.settings import Settings, loads
from slackwater.app.whatif.question import GroupRegistryView, WhatIfService
from slackwater.cli.main import main
from slackwater.cluster.nodegroups.status import NodeGroupBackoff, NodeGroupStatus
from slackwater.configuration.problems import show
from slackwater.configuration.values import Section
from slackwater.model.auxiliary import AuxiliaryObjects
from slackwater.model.events import NodeSeen, PodSeen
from slackwater.model.ids import Instant, NodeName, PodKey, PodUid
from slackwater.model.nodegroups import EVEN_ZONES, GroupName, NodeGroup
from slackwater.ports.protocols import Question, Supposed, WhatIfRefused
from slackwater.runtime.state_machine import StateMachine
from tests.support.configuration import HEAD
from tests.support.manifests import Obj, node_labels, node_manifest, pod_manifest
from tests.support.planners import Conversation, KnownAuxiliary, a_feed

pytestmark = pytest.mark.anyio

NOW = Instant(100.0)


def a_node(name: str, *, cpu: str = "4", group: str = "pool-a") -> Obj:
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    return node_manifest(name, cpu=cpu, labels=node_labels(name, group), meta={"uid": name}, status=ready)


def a_pod(name: str, *, cpu: str = "2", **spec: Any) -> Obj:
    return pod_manifest(name, cpu=cpu, meta={"uid": name}, **spec)


def a_group(name: str, *, cpu: str = "4", **more: Any) -> Obj:
    capacity = {"cpu": cpu, "memory": "16Gi", "pods": "110"}
    return {"name": name, "template": {"status": {"capacity": capacity}}, **more}


def settings_of(*groups: Obj, **autoscaler: Any) -> Settings:
    return loads(yaml.safe_dump({**HEAD, "autoscaler": {**autoscaler, "nodeGroups": list(groups)}}))


class Running:
    """A service with these objects; `node groups' status` of its groups, where the autoscaler has looked at them."""

    def __init__(self, *objects: Obj, settings: Settings, group_status: list[NodeGroupStatus] | None = None) -> None:
        self.state_machine, self.settings = StateMachine(policy_of(settings)), settings
        cluster = read_cluster({"kind": "List", "items": list(objects)})
        for node in cluster.nodes:
            self.state_machine.apply(NodeSeen(node), NOW)
        for pod in cluster.pods:
            self.state_machine.apply(PodSeen(pod), NOW)
        around = AuxiliaryObjects(namespaces=cluster.namespaces, storage=cluster.storage, daemons=cluster.daemons)
        known = {each.name: each for each in group_status or ()}
        self.conversation = Conversation(a_feed(self.state_machine, KnownAuxiliary(around)))
        self.group_registry: GroupRegistryView | None = GroupRegistryView(group_status=known)

    async def answer(self, question: Question, supposed: Supposed) -> bytes:
        answering = WhatIfService(
            self.state_machine,
            self.conversation,
            group_registry=lambda: self.group_registry,
            settings=lambda: self.settings,
            clock=lambda: NOW,
        )
        return await answering(question, supposed)

    async def lines(self, question: Question, **supposed: Any) -> list[Obj]:
        found = [json.loads(line) for line in (await self.answer(question, Supposed(**supposed))).splitlines()]
        assert all(line.pop("seconds") > 0 for line in found if question != "placement")
        return found

    async def ask(self, **supposed: Any) -> Obj:
        (found,) = await self.lines("scale-up", **supposed)
        return found

    async def new_nodes(self, **supposed: Any) -> Obj:
        return {group["name"]: group["newNodes"] for group in (await self.ask(**supposed))["groups"]}


def a_group_status(
    name: str, *, nodes: int = 0, max_size: int = 10, backoff: NodeGroupBackoff | None = None, coming: int = 0
) -> NodeGroupStatus:
    template = read_cluster(a_node("template", group=name)).nodes[0]
    group = NodeGroup(
        name=GroupName(name),
        provider="clusterapi",
        min_size=0,
        max_size=max_size,
        target=nodes + coming,
        instances=(),
        template=template,
    )
    return NodeGroupStatus(
        group=group,
        known=True,
        ready=(),
        unready=(),
        starting=(),
        coming=coming,
        missing=0,
        lost=(),
        leaving=0,
        backoff=backoff,
    )


async def test_the_answer_is_that_of_the_command_on_the_same_objects(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pods = [a_pod(f"p{number}") for number in range(7)]
    refused = a_pod("gpu", nodeSelector={"gpu": "yes"})
    objects = [a_node("n"), *pods, refused, a_pod("stands", cpu="1", nodeName="n")]
    settings = settings_of(a_group("pool-a", maxSize=3), a_group("pool-b", cpu="2"))
    cluster, config = tmp_path / "cluster.json", tmp_path / "config.json"
    cluster.write_text(json.dumps({"kind": "List", "items": objects}))
    config.write_text(json.dumps(settings.model_dump(mode="json", by_alias=True)))
    assert main(["simulate", "scale-up", "--cluster", str(cluster), "--config", str(config), "-o", "json"]) == 0
    want = json.loads(capsys.readouterr().out)
    want.pop("seconds")
    assert want.pop("skipped") == [
        "the room that DaemonSets take on new nodes of groups without a node: no DaemonSet in the file"
    ]
    assert await Running(*objects, settings=settings).ask() == want
    assert want["groups"][0]["newNodes"] == 2


async def test_a_supposed_price_counts_and_the_table_is_the_one_that_the_service_has_read(tmp_path: Path) -> None:
    table = tmp_path / "prices.csv"
    table.write_text("instance type,price per hour\nlarge,0.5\n")
    typed = a_group("typed")
    typed["template"]["metadata"] = {"labels": {"node.kubernetes.io/instance-type": "large"}}
    settings = settings_of(typed, a_group("other", price="1"), prices={"table": str(table)})
    running = Running(a_node("n"), a_pod("p", nodeSelector={"node.kubernetes.io/instance-type": "large"}), settings=settings)
    running.group_registry = replace(GroupRegistryView(group_status={}), prices=price_book_of(settings))
    table.unlink()
    supposed = {"autoscaler": {"nodeGroups": [{"name": "other", "price": "2"}]}}
    found = await running.ask(configuration=supposed)
    assert found["cost"] == {"perHour": "0.50", "currency": "USD", "basis": "table"}
    assert {group["name"]: group["price"]["perHour"] for group in found["groups"]} == {"typed": "0.50", "other": "2.00"}


@pytest.mark.parametrize("question", ["placement", "scale-down"])
async def test_placement_and_scale_down_are_those_of_their_commands_too(
    question: Question, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stands = [a_pod(f"s{number}", cpu="1", nodeName=f"n{number}") for number in range(3)]
    # In the order of names: a running service has no other.
    objects = [*(a_node(f"n{number}") for number in range(3)), a_pod("gpu", nodeSelector={"gpu": "yes"}), a_pod("p"), *stands]
    settings = settings_of(a_group("pool-a", minSize=1))
    cluster, config = tmp_path / "cluster.json", tmp_path / "config.json"
    cluster.write_text(json.dumps({"kind": "List", "items": objects}))
    config.write_text(json.dumps(settings.model_dump(mode="json", by_alias=True)))
    assert main(["simulate", question, "--cluster", str(cluster), "--config", str(config), "-o", "json"]) == 0
    want = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    for line in want:
        line.pop("seconds", None)
        line.pop("skipped", None)
    assert await Running(*objects, settings=settings).lines(question) == want
    assert len(want) == (2 if question == "placement" else 1)


async def test_pods_are_placed_one_after_another_where_that_is_asked() -> None:
    running = Running(a_node("n"), *(a_pod(f"p{number}") for number in range(3)), settings=settings_of())
    found = await running.lines("placement", sequential=True)
    assert [line["node"] for line in found] == ["n", "n", None]


async def test_a_group_of_a_provider_keeps_its_minimum() -> None:
    group_status = a_group_status("theirs", nodes=2)
    group_status = replace(group_status, group=replace(group_status.group, min_size=1))
    nodes = [a_node(f"n{number}", group="theirs") for number in range(2)]
    (found,) = await Running(*nodes, settings=settings_of(), group_status=[group_status]).lines("scale-down")
    assert (len(found["removable"]), len(found["kept"])) == (1, 1)


async def test_nodes_are_as_the_api_server_shows_them_and_with_accounting_less_what_the_system_takes() -> None:
    settings = loads(yaml.safe_dump({**HEAD, "nodes": {"system": {"cpu": "3"}}}))
    running = Running(a_node("n"), a_pod("p"), settings=settings)
    running.state_machine.state.quarantine.put(NodeName("n"), "a test says so", NOW)
    assert [line["feasible"] for line in await running.lines("placement")] == [["n"]]
    assert [line["feasible"] for line in await running.lines("placement", accounting=True)] == [[]]


async def test_a_pod_whose_bind_is_under_way_takes_room_on_its_node() -> None:
    running = Running(a_node("n"), a_pod("going", cpu="3"), a_pod("p"), settings=settings_of())
    going = PodKey("shop", "going")
    assert [line["pod"] for line in await running.lines("placement")] == ["shop/going", "shop/p"]
    running.state_machine.bind(PodUid("going"), going, NodeName("n"), NOW)
    assert [(line["pod"], line["feasible"]) for line in await running.lines("placement")] == [("shop/p", [])]


async def test_objects_are_there_besides_or_in_place_of_their_name() -> None:
    running = Running(a_node("n"), a_pod("p"), settings=settings_of(a_group("pool-a")))
    assert await running.new_nodes() == {"pool-a": 0}
    assert await running.new_nodes(objects=[a_pod(f"new{number}") for number in range(3)]) == {"pool-a": 1}
    assert await running.new_nodes(objects=[a_node("n", cpu="1", group="other")]) == {"pool-a": 1}


async def test_what_is_removed_is_not_there_and_a_node_takes_its_pods_along() -> None:
    objects = [a_node("n"), a_pod("stands", cpu="3", nodeName="n"), a_pod("p")]
    running = Running(*objects, settings=settings_of(a_group("pool-a", maxSize=1)))
    assert await running.new_nodes() == {"pool-a": 0}
    assert await running.new_nodes(remove=[{"kind": "Node", "name": "n"}]) == {"pool-a": 1}
    assert (await running.ask(remove=[{"kind": "Pod", "namespace": "shop", "name": "stands"}]))["schedulable"]


async def test_a_pod_that_has_ended_may_be_removed_too() -> None:
    ended = a_pod("ended", nodeName="n") | {"status": {"phase": "Succeeded"}}
    running = Running(a_node("n"), ended, settings=settings_of(a_group("pool-a")))
    assert await running.new_nodes(remove=[{"kind": "Pod", "namespace": "shop", "name": "ended"}]) == {"pool-a": 0}


async def test_a_group_of_the_configuration_is_changed_by_its_name_alone() -> None:
    running = Running(*(a_pod(f"p{n}") for n in range(8)), settings=settings_of(a_group("pool-a", maxSize=2)))
    assert await running.new_nodes() == {"pool-a": 2}
    changed = {"autoscaler": {"nodeGroups": [{"name": "pool-a", "maxSize": 9}]}}
    assert await running.new_nodes(configuration=changed) == {"pool-a": 4}
    more = {"autoscaler": {"nodeGroups": [a_group("pool-b")]}}
    assert await running.new_nodes(configuration=more) == {"pool-a": 2, "pool-b": 2}


async def test_groups_are_those_of_their_provider_with_what_is_on_its_way() -> None:
    pods = [a_pod(f"p{number}") for number in range(8)]
    running = Running(*pods, settings=settings_of(), group_status=[a_group_status("theirs", coming=1)])
    assert await running.new_nodes() == {"theirs": 3}
    changed = {"autoscaler": {"nodeGroups": [{"name": "theirs", "maxSize": 2}]}}
    assert await running.new_nodes(configuration=changed) == {"theirs": 1}


async def test_a_group_that_backs_off_says_so() -> None:
    backoff = NodeGroupBackoff(
        code="out-of-resources", message="none left", failed_at=NOW, until=Instant(NOW + 300.0), seconds=300.0
    )
    running = Running(a_pod("p"), settings=settings_of(), group_status=[a_group_status("theirs", backoff=backoff)])
    (unhelpable,) = (await running.ask())["unhelpable"]
    assert unhelpable["groups"]["theirs"]["reasons"] == ["backing off after: out-of-resources"]


async def test_without_an_autoscaler_unwatched_objects_are_named() -> None:
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    running = Running(a_pod("p", volumes=[claim]), settings=settings_of(a_group("pool-a")))
    running.group_registry = None
    found = json.loads(await running.answer("scale-up", Supposed()))
    assert "VolumeBinding, VolumeZone: no PersistentVolume is watched" in found["skipped"]


@pytest.mark.parametrize(
    ("supposed", "want"),
    [
        ({"objects": [{"kind": "Deployment"}]}, "objects[0].kind: got 'Deployment', want one of Node, Pod"),
        ({"objects": [a_pod("p"), {"kind": "Pod"}]}, "objects[1].metadata.name (Pod): got None, want a name"),
        ({"remove": [{"kind": "Node", "name": "x"}]}, "remove[0]: got Node x, want one that is there"),
        ({"remove": [{"kind": "Job", "name": "x"}]}, "remove[0].kind: got 'Job', want one of Node"),
        ({"configuration": {"autoscaler": {"expander": []}}}, "autoscaler.expander"),
    ],
    ids=["unread kind", "no name", "not there", "not removable", "unknown key"],
)
async def test_what_cannot_be_supposed_is_refused_with_its_place(supposed: Obj, want: str) -> None:
    running = Running(a_node("n"), settings=settings_of(a_group("pool-a")))
    with pytest.raises(WhatIfRefused) as refused:
        await running.ask(**supposed)
    assert want in str(refused.value)


#: A configuration in which every setting that names a file does.
EVERY_FILE = """
autoscaler:
  prices: {table: FILE}
  providers:
    clusterapi: {kubeconfig: FILE}
    karpenter: {instanceTypes: FILE}
    externalgrpc: {address: "a:1", tls: {caFile: FILE, certFile: FILE, keyFile: FILE}}
extender: {schedulerConfig: FILE, schedulerTLS: {caFile: FILE, certFile: FILE, keyFile: FILE}}
listeners:
  extender: {tls: {certFile: FILE, keyFile: FILE, clientCAFile: FILE}}
  agents: {tls: {certFile: FILE, keyFile: FILE, clientCAFile: FILE}, authentication: {certificates: {commonNamePrefix: agent-}}}
  ops: {tls: {certFile: FILE, keyFile: FILE, clientCAFile: FILE}}
recording: {file: FILE}
history: {file: FILE}
report: {file: FILE}
notifications: {webhook: {urlFile: FILE, allowedHosts: [hooks.slack.com]}}
"""


def settings_with_files(section: type[Section] = Settings, at: str = "") -> Iterator[str]:
    """The places of the settings whose example is a path."""
    for name, field in section.model_fields.items():
        key = f"{at}{field.alias or name}"
        if any(str(example).startswith("/") for example in field.examples or ()):
            yield key
        for part in (field.annotation, *get_args(field.annotation)):
            if isinstance(part, type) and issubclass(part, Section):
                yield from settings_with_files(part, f"{key}.")


async def test_a_supposed_configuration_names_no_file(tmp_path: Path) -> None:
    secret = tmp_path / "token"
    secret.write_text("s3cret,and more\nabc,def\n")
    running = Running(a_node("n"), a_pod("p"), settings=settings_of(a_group("pool-a")))
    for text in (EVERY_FILE, "extender: {schedulerConfig: FILE}", "autoscaler: {prices: {table: FILE}}"):
        with pytest.raises(WhatIfRefused) as refused:
            await running.ask(configuration=yaml.safe_load(text.replace("FILE", str(secret))))
        places = [line.split(": ")[1] for line in str(refused.value).splitlines()]
        want = f"got {show(str(secret))}, want no file that the service would read: a supposed configuration may name none"
        assert str(refused.value).splitlines() == [f"configuration: {place}: {want}" for place in places]
        assert text != EVERY_FILE or sorted(places) == sorted(settings_with_files())


async def test_a_supposed_configuration_keeps_the_files_of_the_service_and_moves_none(tmp_path: Path) -> None:
    table = tmp_path / "prices.csv"
    table.write_text("instance type,price per hour\nlarge,0.5\n")
    running = Running(a_node("n"), settings=settings_of(a_group("pool-a"), prices={"table": str(table)}))
    await running.ask(configuration={"autoscaler": {"prices": {"table": str(table)}}})
    await running.ask(configuration={"autoscaler": {"prices": None}})
    with pytest.raises(WhatIfRefused, match=r"extender\.schedulerConfig: got"):
        await running.ask(configuration={"extender": {"schedulerConfig": str(table)}})


async def test_asking_changes_nothing() -> None:
    running = Running(a_node("n"), a_pod("p"), settings=settings_of(a_group("pool-a")))
    before, generation = await running.ask(), running.state_machine.generation
    await running.ask(objects=[a_pod(f"new{number}") for number in range(9)], remove=[{"kind": "Node", "name": "n"}])
    assert (await running.ask(), running.state_machine.generation) == (before, generation)


async def test_a_group_whose_nodes_differ_has_the_same_plan_live_as_in_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    zone, type_ = "topology.kubernetes.io/zone", "node.kubernetes.io/instance-type"
    nodes = [a_node(f"n-{place}-{cpu}", cpu=cpu, group="asg") for place in "abc" for cpu in ("4", "8")]
    for node, place in zip(nodes, "aabbcc", strict=True):
        node["metadata"]["labels"] |= {zone: place, type_: f"m.{node['status']['allocatable']['cpu']}"}
    full = [
        a_pod(f"on-{at}", cpu=node["status"]["allocatable"]["cpu"], nodeName=node["metadata"]["name"])
        for at, node in enumerate(nodes)
    ]
    pods = [a_pod(f"p{number}", cpu="3", nodeSelector={zone: "abc"[number % 3]}) for number in range(6)]
    objects = [*nodes, *full, *pods, a_pod("large", cpu="6")]
    settings = settings_of({"name": "asg", "provider": "externalgrpc"}, providers={"externalgrpc": {"address": "localhost:1"}})
    status = a_group_status("asg", nodes=6, max_size=5000)
    group = replace(status.group, template=None, choice=EVEN_ZONES)
    running = Running(
        *objects,
        settings=settings,
        group_status=[replace(status, group=group, ready=tuple(NodeName(node["metadata"]["name"]) for node in nodes))],
    )
    cluster, config = tmp_path / "cluster.json", tmp_path / "config.json"
    cluster.write_text(json.dumps({"kind": "List", "items": objects}))
    config.write_text(json.dumps(settings.model_dump(mode="json", by_alias=True)))
    assert main(["simulate", "scale-up", "--cluster", str(cluster), "--config", str(config), "-o", "json"]) == 0
    want, found = json.loads(capsys.readouterr().out), await running.ask()
    assert found["groups"] == want["groups"]
    assert found["unhelpable"] == want["unhelpable"]
    assert found["groups"][0]["variants"] == {f"asg ({place})": 2 for place in "abc"}
    assert found["unhelpable"][0]["groups"]["asg"]["reasons"] == ["Insufficient cpu", "the cloud chooses the type: m.4, m.8"]
