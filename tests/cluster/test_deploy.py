"""deploy/ on a real API server: manifests and chart are accepted, the account is enough for both containers, and no more."""

import functools
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest
import yaml

from slackwater.cli.main import main
from slackwater.sandbox.free_ports import FreePorts
from tests.cluster.support.audit_tail import AuditTail
from tests.cluster.support.bodies import a_node, a_pod
from tests.cluster.support.slackwater_process import SlackwaterProcess
from tests.controlplane.talk import create, is_running, read, read_until
from tests.helm.program import Object, build, rendered
from tests.support.controlplane.build import Binaries
from tests.support.controlplane.pki import ApiUser, write_kubeconfig
from tests.support.controlplane.stack import ControlPlane

pytestmark = [pytest.mark.anyio, pytest.mark.cluster]

DEPLOY: Final = Path("deploy")
OBJECTS: Final = [
    item
    for name in yaml.safe_load((DEPLOY / "kustomization.yaml").read_text())["resources"]
    for item in yaml.safe_load_all((DEPLOY / name).read_text())
]
USER: Final = "system:serviceaccount:kube-system:slackwater"
ALL_OF_THE_ACCOUNT: Final = ({"level": "Metadata", "users": [USER]},)
ACCOUNT: Final = "/api/v1/namespaces/kube-system/serviceaccounts/slackwater"
_PLURALS: Final = {
    "NetworkPolicy": "networkpolicies",
    "MutatingAdmissionPolicy": "mutatingadmissionpolicies",
    "PriorityClass": "priorityclasses",
}
_CLUSTER_WIDE: Final = {
    "ClusterRole",
    "ClusterRoleBinding",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "PriorityClass",
}
#: Types that a cluster has from somebody else.
FOREIGN: Final = {"Certificate", "ServiceMonitor", "PrometheusRule"}


def the(kind: str, name: str) -> dict[str, Any]:
    return next(item for item in OBJECTS if (item["kind"], item["metadata"]["name"]) == (kind, name))


def path_of(item: dict[str, Any]) -> str:
    version, kind = item["apiVersion"], item["kind"]
    plural = _PLURALS.get(kind, f"{kind.lower()}s")
    place = "" if kind in _CLUSTER_WIDE else f"/namespaces/{item['metadata']['namespace']}"
    return f"{'/apis' if '/' in version else '/api'}/{version}{place}/{plural}"


@pytest.fixture(scope="module")
def helm() -> Path:
    return build()


@pytest.fixture(scope="module")
async def cluster(
    anyio_backend: str, binaries: Binaries, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[ControlPlane]:
    """A control plane of its own, as other tests use the same names; all that the account asks is logged."""
    async with ControlPlane(binaries, directory=tmp_path_factory.mktemp("deploy"), audited=ALL_OF_THE_ACCOUNT) as cp:
        yield cp


@pytest.fixture(scope="module")
async def api(cluster: ControlPlane) -> AsyncIterator[aiohttp.ClientSession]:
    async with cluster.session() as session:
        yield session


@pytest.fixture(scope="module")
async def deployed(api: aiohttp.ClientSession) -> None:
    """All objects of deploy/, created once."""
    for item in OBJECTS:
        await create(api, f"{path_of(item)}?fieldValidation=Strict", item)


#: Everything that the chart can be asked for, in one.
_EVERYTHING: Final = {
    "replicas": 2,
    "gate": {"enabled": True},
    "priorityClass": {"create": True, "name": "slackwater"},
    "certificates": {"agents": {"enabled": True, "clientCA": True}, "ops": {"enabled": True}},
    "config": {
        "leaderElection": {"mode": "scheduler"},
        "autoscaler": {
            "enabled": True,
            "providers": {"clusterapi": {}},
            "nodeGroups": [{"name": "a", "template": {"status": {"capacity": {"cpu": "4", "memory": "8Gi"}}}}],
        },
    },
}


async def applies(api: aiohttp.ClientSession, item: Object) -> None:
    """A dry run, strict about unknown fields."""
    params = {"fieldManager": "test", "fieldValidation": "Strict", "dryRun": "All"}
    path = f"{path_of(item)}/{item['metadata']['name']}"
    headers = {"Content-Type": "application/apply-patch+yaml"}
    async with api.patch(path, params=params, data=json.dumps(item), headers=headers) as answer:
        assert answer.status == 201, await answer.text()


async def test_server_side_apply_accepts_every_object(api: aiohttp.ClientSession) -> None:
    """It comes first: nothing is there yet."""
    for item in OBJECTS:
        await applies(api, item)


async def test_server_side_apply_accepts_what_the_chart_renders(api: aiohttp.ClientSession, helm: Path) -> None:
    """Everything at the same time; but for types that others bring into a cluster."""
    for item in rendered(helm, _EVERYTHING, hooks=True):
        if item["kind"] not in FOREIGN:
            await applies(api, item)


@pytest.mark.usefixtures("deployed")
async def test_every_object_is_created_as_it_was_written(api: aiohttp.ClientSession) -> None:
    for item in OBJECTS:
        stored = await read(api, f"{path_of(item)}/{item['metadata']['name']}")
        assert missing(item, stored) == [], item["kind"]


def missing(wanted: Any, seen: Any, at: str = "") -> list[str]:
    """Where `seen`, which may say more, does not say what is wanted."""
    if isinstance(wanted, dict) and isinstance(seen, dict):
        return [path for key, value in wanted.items() for path in missing(value, seen.get(key), f"{at}.{key}")]
    if isinstance(wanted, list) and isinstance(seen, list) and len(wanted) == len(seen):
        return [path for n, value in enumerate(wanted) for path in missing(value, seen[n], f"{at}[{n}]")]
    return [] if wanted == seen else [f"{at}: {seen}, want {wanted}"]


@pytest.mark.usefixtures("deployed")
async def test_the_pod_is_accepted_where_the_restricted_standard_is_enforced(api: aiohttp.ClientSession) -> None:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    await create(api, "/api/v1/namespaces", {"metadata": {"name": "restricted", "labels": labels}})
    template = the("Deployment", "slackwater")["spec"]["template"]
    pod = {"metadata": {"name": "slackwater", **template["metadata"]}, "spec": template["spec"]}
    made = await create(api, "/api/v1/namespaces/restricted/pods?dryRun=All&fieldValidation=Strict", pod)
    assert made["spec"]["priority"] == 2_000_000_000, "system-cluster-critical"
    pod["spec"] = {**template["spec"], "securityContext": {}}
    async with api.post("/api/v1/namespaces/restricted/pods", json=pod) as answer:
        assert answer.status == 403, "the standard is enforced here"


@pytest.mark.parametrize(
    ("verb", "group", "resource"),
    [
        ("create", "", "pods"),
        ("delete", "", "nodes"),
        ("patch", "", "nodes"),
        ("get", "", "secrets"),
        ("list", "", "configmaps"),
        ("update", "rbac.authorization.k8s.io", "clusterroles"),
        ("create", "apps", "deployments"),
    ],
)
@pytest.mark.usefixtures("deployed")
async def test_the_account_may_not(api: aiohttp.ClientSession, verb: str, group: str, resource: str) -> None:
    attributes = {"namespace": "default", "verb": verb, "group": group, "resource": resource}
    review = {"spec": {"user": USER, "resourceAttributes": attributes}}
    answer = await create(api, "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    assert answer["status"]["allowed"] is False, answer["status"]


def schedulers_configuration(folder: Path) -> dict[str, Any]:
    """What the Pod's first container writes for kube-scheduler, its folders being this one."""
    ours, theirs = folder / "slackwater.yaml", folder / "scheduler.yaml"
    ours.write_text(the("ConfigMap", "slackwater")["data"][ours.name])
    (first,) = the("Deployment", "slackwater")["spec"]["template"]["spec"]["initContainers"]
    replaced = (("/etc/slackwater/", f"{folder}/"), ("/etc/kube-scheduler/", f"{folder}/"))
    arguments = [functools.reduce(lambda text, pair: text.replace(*pair), replaced, argument) for argument in first["args"]]
    assert main(arguments) == 0
    assert main(["scheduler-config", "--config", str(ours), "--check", str(theirs)]) == 0
    return dict(yaml.safe_load(theirs.read_text()))


async def kubeconfig_of_the_account(cluster: ControlPlane, api: aiohttp.ClientSession, folder: Path) -> Path:
    """A kubeconfig with a token that the API server gives out for the ServiceAccount, as a kubelet would ask for it."""
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    granted = await create(api, f"{ACCOUNT}/token", request)
    account = ApiUser(name="account", user=USER, token=granted["status"]["token"])
    path = folder / "kubeconfig.yaml"
    write_kubeconfig(path, account, server=cluster.api_url, ca_file=cluster.ca_file)
    return path


@pytest.mark.usefixtures("deployed")
async def test_both_containers_do_their_work_with_the_account_and_the_two_configurations(
    cluster: ControlPlane, api: aiohttp.ClientSession, free_ports: FreePorts, tmp_path: Path
) -> None:
    kubeconfig = await kubeconfig_of_the_account(cluster, api, tmp_path)
    settings = yaml.safe_load(the("ConfigMap", "slackwater")["data"]["slackwater.yaml"])
    ports = settings.pop("listeners")  # taken by others on this machine
    audit = AuditTail(cluster.audit_log)
    async with SlackwaterProcess(folder=tmp_path, kubeconfig=kubeconfig, ports=free_ports, settings=settings) as service:
        await service.start()
        (written := tmp_path / "written").mkdir()
        scheduler = schedulers_configuration(written)
        extender = yaml.safe_load(service.config.read_text())["listeners"]["extender"]["address"]
        scheduler["extenders"][0]["urlPrefix"] = f"http://{extender}/scheduler"
        scheduler["clientConnection"]["kubeconfig"] = str(kubeconfig)
        lookups = [f"--{what}-kubeconfig={kubeconfig}" for what in ("authentication", "authorization")]
        await cluster.start_scheduler(yaml.safe_dump(scheduler), arguments=lookups)
        await create(api, "/api/v1/nodes", a_node("deployed-1"))
        await create(api, "/api/v1/namespaces/default/pods", a_pod("placed"))
        await read_until(api, "/api/v1/namespaces/default/pods/placed", is_running)
        await cluster.stop("kube-scheduler")

    asked = [request for request in audit.read() if request.user == USER]
    assert ("create", "pods/binding", 201) in {(request.verb, request.resource, request.status) for request in asked}
    assert {"nodes", "poddisruptionbudgets", "storageclasses", "configmaps"} <= {request.resource for request in asked}
    assert [request for request in asked if request.status == 403] == []
    assert set(ports) == {"agents", "ops"}, "the extender stays on loopback"
