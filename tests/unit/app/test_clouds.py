"""Settings into providers: which there are, what their groups look like, and which rights they need."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
import yaml
from structlog.testing import capture_logs

from slackwater.adapters.api_calls import NotSent, Unanswered, ask
from slackwater.adapters.kube.client import open_client
from slackwater.adapters.kube.errors import KubeConfigError
from slackwater.app import rbac
from slackwater.app.clouds import CloudError, Clouds, missing_extra, open_clouds
from slackwater.app.settings import loads
from slackwater.cli.main import main
from slackwater.model.objects import Taint
from tests.support.configuration import HEADER
from tests.support.externalserver import RUNNING, ExternalServer, Pool
from tests.support.fakeapi import FakeApi, Reply, fake_api, status, write_kubeconfig

pytestmark = pytest.mark.anyio

ALL = """
autoscaler:
  enabled: true
  nodeGroups:
  - {name: a, maxSize: 5, kwok: {appearAfter: 20s, failing: 0.5}, template: {
      metadata: {labels: {tier: batch}}, spec: {taints: [{key: k, value: v, effect: NoSchedule}]},
      status: {capacity: {cpu: 4, memory: 16Gi, pods: 110}, allocatable: {cpu: 3900m}}}}
  - {name: b, provider: clusterapi, id: MachineDeployment/default/md-0, maxSize: 3}
  providers: {kwok: {namespace: ours, seed: 7}}
"""
NODES = "/api/v1/nodes"


@pytest.fixture
async def api(anyio_backend: str) -> AsyncIterator[FakeApi]:
    async with fake_api() as api:
        api.objects[NODES] = {}
        yield api


@asynccontextmanager
async def clouds_of(text: str, api: FakeApi, folder: Path) -> AsyncIterator[Clouds]:
    kubeconfig = write_kubeconfig(folder / "kubeconfig", api.url)
    async with open_client(kubeconfig=kubeconfig) as client, open_clouds(loads(HEADER + text), client) as clouds:
        yield clouds


async def test_without_node_groups_there_are_no_providers(api: FakeApi, tmp_path: Path) -> None:
    async with clouds_of("autoscaler: {enabled: true}", api, tmp_path) as clouds:
        assert (clouds.providers, clouds.tasks) == ((), {})


async def test_each_provider_that_is_named_is_there(api: FakeApi, tmp_path: Path) -> None:
    settings = yaml.safe_load(HEADER + ALL)
    further = {"externalgrpc": {"address": "127.0.0.1:1"}, "aws": {"region": "eu-west-1", "tags": {"k": "v"}}, "karpenter": {}}
    settings["autoscaler"]["providers"] |= further
    async with clouds_of(_body(settings), api, tmp_path) as clouds:
        found = [provider.name for provider in clouds.providers]
        assert found == ["kwok", "clusterapi", "karpenter", "externalgrpc", "aws"]
        assert list(clouds.tasks) == ["kwok arrivals"]


async def test_a_file_of_instance_types_that_cannot_be_read_is_named(api: FakeApi, tmp_path: Path) -> None:
    text = "autoscaler: {providers: {karpenter: {instanceTypes: nowhere.json}}}"
    with pytest.raises(CloudError, match=r"autoscaler\.providers\.karpenter\.instanceTypes: nowhere\.json: No such file"):
        async with clouds_of(text, api, tmp_path):
            pass


def _body(settings: dict[str, Any]) -> str:
    return yaml.safe_dump({key: value for key, value in settings.items() if key not in ("apiVersion", "kind")})


async def test_a_kwok_group_is_as_its_template_says(api: FakeApi, tmp_path: Path) -> None:
    async with clouds_of(ALL, api, tmp_path) as clouds:
        (group,) = await clouds.providers[0].groups(timeout_seconds=60)
    assert (group.name, group.min_size, group.max_size, group.target) == ("a", 0, 5, 0)
    template = group.template
    assert template is not None
    assert template.allocatable == (3900, 16 << 30)
    assert template.scalars == (("pods", 110),)
    assert template.labels == {"kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux", "tier": "batch"}
    assert template.taints == (Taint("k", "v", "NoSchedule"),)


async def test_a_group_keeps_its_configured_name_and_the_narrower_size(api: FakeApi, tmp_path: Path) -> None:
    prefix = "cluster.x-k8s.io/cluster-api-autoscaler-node-group"
    sizes = {f"{prefix}-min-size": "1", f"{prefix}-max-size": "10"}
    path = "/apis/cluster.x-k8s.io/v1beta1/machinedeployments"
    api.put(path, "md-0", "default", metadata={"annotations": sizes}, spec={"replicas": 2})
    api.put(path, "md-1", "default", metadata={"annotations": sizes}, spec={"replicas": 2})
    async with clouds_of(ALL, api, tmp_path) as clouds:
        groups = await clouds.providers[1].groups(timeout_seconds=60)
    found = [(group.name, group.min_size, group.max_size) for group in groups]
    assert found == [("MachineDeployment/default/md-1", 1, 10), ("b", 1, 3)]


async def test_an_external_provider_is_reached_as_configured(api: FakeApi, tmp_path: Path) -> None:
    server = ExternalServer(pools={"pool": Pool("pool", 0, 5, target=1)})
    server.pools["pool"].make(1, RUNNING)
    async with server.serving() as address:
        text = f'autoscaler: {{providers: {{externalgrpc: {{address: "{address}", timeout: 100s}}}}}}'
        async with clouds_of(text, api, tmp_path) as clouds:
            (group,) = await clouds.providers[0].groups(timeout_seconds=60)
    assert (group.name, group.target) == ("pool", 1)
    assert 50 < server.calls[0].seconds <= 100.1
    assert server.asked("NodeGroupGetOptions")[0].defaults.scaleDownUtilizationThreshold == 0.5
    assert server.asked("NodeGroupGetOptions")[0].defaults.scaleDownUnneededDuration.seconds == 600


async def test_a_queue_of_interruptions_has_a_task_that_waits_until_machines_are_known(
    api: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "x")
    section = {"region": "eu-west-1", "tags": {"k": "v"}, "interruptionQueue": "http://127.0.0.1:1/1/queue"}
    async with clouds_of(_body({"autoscaler": {"providers": {"aws": section}}}), api, tmp_path) as clouds:
        with capture_logs() as logs, anyio.move_on_after(0.3):
            await clouds.tasks["aws interruptions"]()
        assert logs == [], "nobody is asked yet"


async def test_without_a_region_of_aws_the_section_is_named(
    api: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    with pytest.raises(CloudError, match=r"autoscaler\.providers\.aws: .*region"):
        async with clouds_of("autoscaler: {nodeGroups: [{name: a, provider: aws}]}", api, tmp_path):
            pass


async def test_a_file_that_is_missing_is_named(api: FakeApi, tmp_path: Path) -> None:
    text = 'autoscaler: {providers: {externalgrpc: {address: "a:1", tls: {caFile: nowhere.pem}}}}'
    with pytest.raises(CloudError, match=r"externalgrpc\.tls: .*nowhere\.pem"):
        async with clouds_of(text, api, tmp_path):
            pass
    with pytest.raises(KubeConfigError, match=r"nowhere\.yaml"):
        async with clouds_of("autoscaler: {providers: {clusterapi: {kubeconfig: nowhere.yaml}}}", api, tmp_path):
            pass


def test_a_library_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = loads(HEADER + 'autoscaler: {enabled: true, providers: {externalgrpc: {address: "a:1"}}}')
    assert missing_extra(settings) is None
    monkeypatch.setitem(sys.modules, "grpc", None)  # as if it were not there
    reported = missing_extra(settings) or ""
    assert reported.startswith("autoscaler.providers.externalgrpc: got no module grpc")
    assert "slackwater[externalgrpc]" in reported
    assert missing_extra(loads(HEADER)) is None, "nobody asks for it"
    settings = loads(HEADER + "autoscaler: {enabled: true, nodeGroups: [{name: a, provider: aws}]}")
    assert missing_extra(settings) is None
    monkeypatch.setitem(sys.modules, "aiobotocore", None)
    assert missing_extra(settings) == (
        "autoscaler.providers.aws: got no module aiobotocore, want the extra: pip install 'slackwater[aws]'"
    )


async def test_another_cluster_may_manage(api: FakeApi, tmp_path: Path) -> None:
    async with fake_api() as management:
        kubeconfig = write_kubeconfig(tmp_path / "management", management.url)
        text = f"autoscaler: {{providers: {{clusterapi: {{kubeconfig: {kubeconfig}, namespace: fleet}}}}}}"
        async with clouds_of(text, api, tmp_path) as clouds:
            assert await clouds.providers[0].groups(timeout_seconds=60) == []
        assert {asked.path for asked in management.asked} >= {"/apis/cluster.x-k8s.io/v1beta1/namespaces/fleet/machinepools"}
    assert not api.asked


async def test_connection_errors_are_distinguished(api: FakeApi, tmp_path: Path) -> None:
    async with open_client(kubeconfig=write_kubeconfig(tmp_path / "k", api.url)) as client:
        api.reply("PATCH", NODES, Reply(drop=True), Reply(status=409, body=status(409, "Conflict")))
        with pytest.raises(Unanswered, match="PATCH"):
            await ask(client, "PATCH", NODES, body={"a": 1})
        assert (await ask(client, "PATCH", NODES, body={"a": 1})).status == 409
        assert api.asked[-1].body == b'{"a":1}'
    await api.stop()
    async with open_client(kubeconfig=str(tmp_path / "k")) as client:
        with pytest.raises(NotSent, match="cannot be reached"):
            await ask(client, "PATCH", NODES, body={"a": 1})


# --- rights -----------------------------------------------------------------------------------------------------------------


def granted(text: str) -> set[tuple[str, str]]:
    role = rbac.cluster_role(loads(HEADER + text))
    return {(verb, resource) for rule in role["rules"] for verb in rule["verbs"] for resource in rule["resources"]}


KWOK_RIGHTS = {("create", "nodes"), ("delete", "nodes")}
KARPENTER_RIGHTS = {("create", "nodeclaims"), ("delete", "nodeclaims"), ("list", "nodepools")}
CLUSTER_API_RIGHTS = {("update", "machinedeployments/scale"), ("patch", "machines"), ("list", "machinepools")}


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("autoscaler: {enabled: true}", set()),
        ("autoscaler: {nodeGroups: [{name: a}]}", set()),
        ("autoscaler: {enabled: true, nodeGroups: [{name: a}]}", KWOK_RIGHTS),
        ("autoscaler: {enabled: true, nodeGroups: [{name: a, provider: clusterapi}]}", CLUSTER_API_RIGHTS),
        ("autoscaler: {enabled: true, providers: {clusterapi: {}}}", CLUSTER_API_RIGHTS),
        ("autoscaler: {enabled: true, providers: {clusterapi: {kubeconfig: other}}}", set()),
        ('autoscaler: {enabled: true, providers: {externalgrpc: {address: "a:1"}}}', set()),
        ("autoscaler: {enabled: true, nodeGroups: [{name: a, provider: karpenter}]}", KARPENTER_RIGHTS),
        ("autoscaler: {enabled: true, providers: {karpenter: {}}}", KARPENTER_RIGHTS),
        (ALL, KWOK_RIGHTS | CLUSTER_API_RIGHTS),
    ],
)
def test_a_provider_has_its_rights_only_where_it_is_used(text: str, want: set[tuple[str, str]]) -> None:
    assert granted(text) & (KWOK_RIGHTS | CLUSTER_API_RIGHTS | KARPENTER_RIGHTS) == want
    assert granted("") <= granted(text)


@pytest.mark.parametrize("mode", ["serve", "shadow"])
def test_events_are_read_in_one_namespace_only(mode: str) -> None:
    roles = rbac.rights(
        loads(f"{HEADER}mode: {mode}\nautoscaler: {{enabled: true, providers: {{karpenter: {{}}}}}}"), rbac.user("u")
    )
    reads = [
        role["metadata"]
        for role in roles
        for rule in role.get("rules", ())
        if rule["resources"] == ["events"] and "list" in rule["verbs"]
    ]
    assert reads == [{"name": "slackwater-karpenter", "namespace": "default"}]


def test_the_rights_of_a_file_are_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "slackwater.yaml"
    file.write_text(HEADER + ALL)
    assert main(["config", "rbac", str(file)]) == 0
    objects = list(yaml.safe_load_all(capsys.readouterr().out))
    kinds = [item["kind"] for item in objects]
    assert kinds == ["ClusterRole", "ServiceAccount", "ClusterRoleBinding", *("Role", "RoleBinding") * 4]
    assert objects[3]["metadata"] == {"name": "slackwater-pause", "namespace": "kube-system"}
    assert objects[5]["metadata"] == {"name": "slackwater-history", "namespace": "kube-system"}
    record = objects[7]
    assert record["metadata"] == {"name": "slackwater-kwok", "namespace": "ours"}
    assert {name for rule in record["rules"] for name in rule.get("resourceNames", ())} == {"slackwater-kwok"}
    assert objects[8]["roleRef"]["name"] == "slackwater-kwok"
    assert objects[9]["metadata"] == {"name": "slackwater-autoscaler", "namespace": "kube-system"}

    file.write_text("autoscaler: {}")
    assert main(["config", "rbac", str(file)]) == 2
    assert "apiVersion" in capsys.readouterr().err
