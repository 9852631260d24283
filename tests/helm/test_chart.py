"""deploy/chart, rendered by the real helm: what it makes of its values, and what it refuses."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.version import as_chart
from slackwater import __version__
from slackwater.app import rbac
from slackwater.app.settings import loads
from tests.helm.manifests import DEPLOY, manifests
from tests.helm.program import (
    CHART,
    EXAMPLES,
    KUBERNETES,
    NAMES,
    NAMESPACE,
    SOURCES,
    HelmRefused,
    Object,
    ask,
    objects,
    rendered,
    template,
    the,
)
from tests.support.configuration import HEAD
from tests.support.controlplane.recipe import GO_FILES, required_version
from tests.support.deployed import DEPLOYED

GROUP = {"name": "a", "template": {"status": {"capacity": {"cpu": "4", "memory": "8Gi"}}}}
AGENTS_TLS = {"listeners": {"agents": {"tls": {"certFile": "/c", "keyFile": "/k"}}}}
OPS = {"listeners": {"ops": {"address": "0.0.0.0:10298"}}}

AUTOSCALERS: dict[str, dict[str, Any]] = {
    "off": {},
    "off_with_groups": {"autoscaler": {"enabled": False, "nodeGroups": [GROUP]}},
    "kwok": {"autoscaler": {"enabled": True, "nodeGroups": [GROUP]}},
    "kwok_elsewhere": {
        "autoscaler": {
            "enabled": True,
            "statusConfigMap": "mine",
            "nodeGroups": [{**GROUP, "provider": "kwok"}],
            "providers": {"kwok": {"namespace": "default"}},
        }
    },
    "clusterapi": {"autoscaler": {"enabled": True, "providers": {"clusterapi": {}}}},
    "clusterapi_by_group": {"autoscaler": {"enabled": True, "nodeGroups": [{"name": "md", "provider": "clusterapi"}]}},
    "clusterapi_far_away": {"autoscaler": {"enabled": True, "providers": {"clusterapi": {"kubeconfig": "/etc/far"}}}},
    "karpenter": {"autoscaler": {"enabled": True, "providers": {"karpenter": {}}}},
    "karpenter_by_group": {"autoscaler": {"enabled": True, "nodeGroups": [{"name": "a", "provider": "karpenter"}]}},
    "no_headroom": {"autoscaler": {"enabled": True, "slack": {"headroom": False}, "nodeGroups": [GROUP]}},
    "following_the_scheduler": {"schedulerName": "batch", "leaderElection": {"mode": "scheduler"}},
    "no_history": {"history": {"persist": False}},
    "node_use": {"kube": {"nodeUse": True}},
    "a_lease_of_its_own": {
        "leaderElection": {"mode": "own", "resourceName": "companion", "resourceNamespace": "default"},
    },
    "no_slack": {"featureGates": {"ResourceSlack": False}, "autoscaler": {"enabled": True, "nodeGroups": [GROUP]}},
}


def named(items: list[Object]) -> dict[tuple[str, str, str], Object]:
    return {(item["kind"], item["metadata"].get("namespace", ""), item["metadata"]["name"]): item for item in items}


# --- rights ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", AUTOSCALERS)
def test_the_roles_are_those_that_the_code_generates(helm: Path, name: str) -> None:
    settings = loads(yaml.safe_dump({**HEAD, **AUTOSCALERS[name]}))
    want = named([*objects(rbac.manifest(settings)), rbac.reader_role()])
    seen = named(rendered(helm, {"config": AUTOSCALERS[name]}))
    ours = {key: item for key, item in seen.items() if key[0] in {"ServiceAccount", "ClusterRole", "Role"}}
    assert {key: item for key, item in want.items() if "Binding" not in key[0]} == ours
    assert {key: seen[key] for key in want} == want, "bindings too"


def test_readers_get_a_role_that_only_reads_the_service_through_the_api_server(helm: Path) -> None:
    subject = {"kind": "Group", "name": "on-call", "apiGroup": "rbac.authorization.k8s.io"}
    machines = {"ipBlock": {"cidr": "10.0.0.0/28"}}
    seen = rendered(helm, {"readers": [subject], "networkPolicy": {"apiServer": [machines]}})
    binding = the(seen, "RoleBinding", "slackwater-reader")
    assert (binding["subjects"], binding["roleRef"]["name"]) == ([subject], "slackwater-reader")
    (rule,) = the(seen, "Role", "slackwater-reader")["rules"]
    assert (rule["resources"], rule["verbs"]) == (["services/proxy"], ["get"])
    service = the(seen, "Service")
    (port,) = service["spec"]["ports"]
    assert rule["resourceNames"] == [f"{scheme}:{service['metadata']['name']}:{port['name']}" for scheme in ("http", "https")]
    ingress = the(seen, "NetworkPolicy")["spec"]["ingress"]
    assert [each["ports"] for each in ingress if each["from"] == [machines]] == [[{"port": 10298}]]


@pytest.mark.parametrize("name", AUTOSCALERS)
def test_a_shadow_has_the_roles_of_a_reader_and_no_others(helm: Path, name: str) -> None:
    settings = loads(yaml.safe_dump({**HEAD, **AUTOSCALERS[name], "mode": "shadow"}))
    want = named([*objects(rbac.manifest(settings)), rbac.reader_role()])
    seen = named(rendered(helm, {"config": AUTOSCALERS[name], "shadow": True}, hooks=True))
    rights = {key: item for key, item in seen.items() if key[0] == "ServiceAccount" or "Role" in key[0]}
    assert rights == want
    verbs = {verb for item in rights.values() for rule in item.get("rules", ()) for verb in rule["verbs"]}
    assert verbs == {"get", "list", "watch"}


def test_a_shadow_runs_alone_and_agents_do_not_find_it(helm: Path) -> None:
    items = rendered(helm, {"shadow": True, "config": {"schedulerName": "batch"}})
    spec = the(items, "Deployment")["spec"]
    [container] = spec["template"]["spec"]["containers"]
    assert (container["name"], "initContainers" in spec["template"]["spec"], spec["replicas"]) == ("slackwater", False, 1)
    label = {"name": "batch-shadow"}
    assert spec["template"]["metadata"]["labels"].items() >= label.items()
    assert spec["selector"]["matchLabels"] == the(items, "Service")["spec"]["selector"] == label
    assert the(items, "NetworkPolicy")["spec"]["podSelector"]["matchLabels"] == label
    settings = loads(the(items, "ConfigMap")["data"]["slackwater.yaml"])
    file = settings.history.file
    assert settings.mode == "shadow"
    assert file is not None
    mounted = [each["mountPath"] for each in container["volumeMounts"] if not each.get("readOnly")]
    assert mounted == [str(Path(file).parent)], "the one place where it writes"


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"shadow": True, "replicas": 2}, "want 1 with shadow"),
        ({"shadow": True, "gate": {"enabled": True}}, "a shadow opens no gate"),
        ({"config": {"mode": "shadow"}}, "want the value shadow: true"),
    ],
)
def test_what_does_not_go_with_a_shadow_is_refused(helm: Path, values: dict[str, Any], words: str) -> None:
    with pytest.raises(HelmRefused, match=words):
        rendered(helm, values)


def test_uninstalling_runs_the_cleanup_with_the_rights_that_it_needs(helm: Path) -> None:
    hooks = [item for item in rendered(helm, hooks=True) if "helm.sh/hook" in item["metadata"].get("annotations", {})]
    assert {item["metadata"]["annotations"]["helm.sh/hook"] for item in hooks} == {"post-delete"}
    assert the(hooks, "ClusterRole", "slackwater-cleanup")["rules"] == [dict(rule) for rule in rbac.cleanup_rules()]
    pod = the(hooks, "Job", "slackwater-cleanup")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert (pod["serviceAccountName"], container["args"]) == ("slackwater-cleanup", ["cleanup"])
    without = rendered(helm, {"cleanup": {"onUninstall": False}}, hooks=True)
    assert "slackwater-cleanup" not in {item["metadata"]["name"] for item in without}


def test_rights_go_to_the_account_in_the_namespace_of_the_release(helm: Path) -> None:
    items = rendered(helm, {"serviceAccount": {"name": "mine"}, "config": AUTOSCALERS["kwok"]}, namespace="elsewhere")
    account = {"kind": "ServiceAccount", "name": "mine", "namespace": "elsewhere"}
    bindings = [item for item in items if "Binding" in item["kind"]]
    assert len(bindings) == 8
    assert [binding["subjects"] for binding in bindings] == [[account]] * 8
    assert the(items, "ServiceAccount", "mine")["metadata"]["namespace"] == "elsewhere"
    assert the(items, "Deployment")["spec"]["template"]["spec"]["serviceAccountName"] == "mine"


def test_with_an_account_and_roles_of_ones_own_none_are_rendered(helm: Path) -> None:
    items = rendered(helm, {"serviceAccount": {"create": False}, "rbac": {"create": False}})
    assert {item["kind"] for item in items} == {"ConfigMap", "Deployment", "Service", "NetworkPolicy"}


# --- the plain manifests --------------------------------------------------------------------------------------------------


def test_the_plain_manifests_are_the_chart_with_its_defaults(helm: Path) -> None:
    assert named([*objects((DEPLOY / "rbac.yaml").read_text()), *DEPLOYED]) == named(rendered(helm))


@pytest.mark.parametrize("path", ["slackwater.yaml", "gate/policy.yaml", "shadow/slackwater.yaml"])
def test_the_plain_manifests_are_up_to_date(helm: Path, path: str) -> None:
    assert (DEPLOY / path).read_text() == manifests(helm)[path], "run `make docs HELM=1`"


# --- what the values do ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("example", NAMES)
def test_an_example_renders_and_the_service_takes_its_configuration(helm: Path, example: str) -> None:
    items = rendered(helm, files=[example])
    loads(the(items, "ConfigMap")["data"]["slackwater.yaml"])
    assert len(named(items)) == len(items), "no object twice"
    assert ask(helm, "lint", str(CHART), "--strict", "--values", str(EXAMPLES / example / "values.yaml"))


def test_two_replicas_are_spread_and_keep_one_another_running(helm: Path) -> None:
    items = rendered(helm, files=["two-replicas"])
    deployment = the(items, "Deployment")["spec"]
    assert deployment["strategy"]["type"] == "RollingUpdate"
    labels = deployment["template"]["metadata"]["labels"].items()
    (spread,) = deployment["template"]["spec"]["topologySpreadConstraints"]
    budget = the(items, "PodDisruptionBudget")["spec"]
    assert budget["minAvailable"] == 1
    for selector in (spread["labelSelector"], budget["selector"]):
        assert selector["matchLabels"].items() <= labels
    agents = the(items, "NetworkPolicy")["spec"]["ingress"][1]
    assert {"podSelector": {"matchLabels": {"name": "slackwater"}}} in agents["from"], "they hand agents on to the leader"
    (service,) = [each for each in deployment["template"]["spec"]["containers"] if each["name"] == "slackwater"]
    fields = {each["name"]: each["valueFrom"]["fieldRef"]["fieldPath"] for each in service["env"]}
    assert fields == {"POD_NAME": "metadata.name", "POD_NAMESPACE": "metadata.namespace"}


def test_one_replica_has_no_budget_that_would_keep_its_node(helm: Path) -> None:
    assert "PodDisruptionBudget" not in {item["kind"] for item in rendered(helm)}


def test_the_schedulers_name_is_everywhere_the_same(helm: Path) -> None:
    items = rendered(helm, {"config": {"schedulerName": "batch"}, "gate": {"enabled": True}})
    assert the(items, "Deployment")["spec"]["template"]["metadata"]["labels"]["name"] == "batch"
    assert the(items, "Service")["spec"]["selector"] == {"name": "batch"}
    assert the(items, "NetworkPolicy")["spec"]["podSelector"]["matchLabels"] == {"name": "batch"}
    policy = the(items, "MutatingAdmissionPolicy", "slackwater-gate")
    assert "schedulerName == 'batch'" in policy["spec"]["matchConditions"][0]["expression"]


def test_ports_follow_the_configuration(helm: Path) -> None:
    listeners = {"ops": {"address": "0.0.0.0:8080"}, "agents": {"address": "[::]:8081"}}
    items = rendered(helm, {"config": {"listeners": listeners}})
    containers = the(items, "Deployment")["spec"]["template"]["spec"]["containers"]
    assert [port["containerPort"] for port in containers[1]["ports"]] == [8080, 8081]
    ingress = the(items, "NetworkPolicy")["spec"]["ingress"]
    assert [[port["port"] for port in rule["ports"]] for rule in ingress] == [[8080, 10259], [8081]]
    assert the(items, "Service")["spec"]["ports"][0]["port"] == 8080


@pytest.mark.parametrize(
    ("values", "address"),
    [
        ({}, "0.0.0.0:10299"),
        ({"networkPolicy": {"enabled": False}}, "127.0.0.1:10299"),
        ({"networkPolicy": {"enabled": False}, "certificates": {"agents": {"enabled": True}}}, "0.0.0.0:10299"),
        ({"networkPolicy": {"enabled": False}, "config": AGENTS_TLS}, "0.0.0.0:10299"),
        ({"networkPolicy": {"enabled": False}, "config": {"listeners": {"agents": {"address": "[::]:1"}}}}, "[::]:1"),
        ({"config": {"listeners": {"agents": {"address": "127.0.0.1:1"}}}}, "127.0.0.1:1"),
        ({"shadow": True}, "127.0.0.1:10299"),
    ],
)
def test_agents_are_let_in_where_a_policy_or_tls_guards_them(helm: Path, values: dict[str, Any], address: str) -> None:
    items = rendered(helm, values)
    assert str(loads(the(items, "ConfigMap")["data"]["slackwater.yaml"]).listeners.agents.address) == address
    guarded = [item["kind"] for item in items if item["kind"] == "NetworkPolicy"]
    assert guarded == ([] if values.get("networkPolicy") else ["NetworkPolicy"])


def test_a_listener_with_a_certificate_reads_it_from_its_secret(helm: Path) -> None:
    issuer = {"enabled": True, "issuerRef": {"name": "ca"}}
    chosen = {"agents": {"enabled": True, "clientCA": True}, "ops": {"enabled": True, "secretName": "o"}, "certManager": issuer}
    items = rendered(helm, {"certificates": chosen})
    listeners = loads(the(items, "ConfigMap")["data"]["slackwater.yaml"]).listeners
    assert listeners.agents.tls is not None
    assert listeners.ops.tls is not None
    assert listeners.agents.tls.client_ca_file == "/etc/slackwater-tls/agents/ca.crt"
    assert listeners.ops.tls.client_ca_file is None
    pod = the(items, "Deployment")["spec"]["template"]["spec"]
    mounts = {mount["name"]: mount["mountPath"] for mount in pod["containers"][1]["volumeMounts"]}
    assert listeners.agents.tls.cert_file == f"{mounts['agents-tls']}/tls.crt"
    assert listeners.ops.tls.key_file == f"{mounts['ops-tls']}/tls.key"
    assert pod["containers"][1]["readinessProbe"]["httpGet"]["scheme"] == "HTTPS"
    secrets = {volume["name"]: volume["secret"]["secretName"] for volume in pod["volumes"] if "secret" in volume}
    made = {item["spec"]["secretName"]: item["spec"]["dnsNames"] for item in items if item["kind"] == "Certificate"}
    assert set(made) == set(secrets.values()) == {"slackwater-agents-tls", "o"}
    assert made["o"] == ["slackwater.kube-system.svc"]


def test_a_changed_configuration_restarts_the_pods_where_that_is_wanted(helm: Path) -> None:
    def stamp(restart: bool, **config: object) -> object:
        items = rendered(helm, {"config": config, "restartOnConfigChange": restart})
        return the(items, "Deployment")["spec"]["template"]["metadata"].get("annotations")

    assert stamp(True) != stamp(True, migration={"enabled": False})
    assert stamp(False) is None


def test_a_schedulers_configuration_of_ones_own_is_checked_before_it_is_used(helm: Path) -> None:
    items = rendered(helm, {"kubeScheduler": {"existingConfigMap": "mine"}})
    pod = the(items, "Deployment")["spec"]["template"]["spec"]
    assert pod["initContainers"][0]["args"][-1] == "--check=/etc/kube-scheduler/scheduler.yaml"
    assert {"name": "kube-scheduler", "configMap": {"name": "mine"}} in pod["volumes"]


def test_the_alerts_are_those_of_the_folder_monitoring(helm: Path) -> None:
    items = rendered(helm, {"prometheusRule": {"enabled": True, "labels": {"team": "a"}}, "serviceMonitor": {"enabled": True}})
    rule = the(items, "PrometheusRule")
    assert rule["spec"] == yaml.safe_load((DEPLOY / "monitoring" / "alerts.yaml").read_text())
    assert rule["metadata"]["labels"]["team"] == "a"
    monitor = the(items, "ServiceMonitor")["spec"]
    assert monitor["selector"]["matchLabels"].items() <= the(items, "Service")["metadata"]["labels"].items()
    assert monitor["endpoints"][0]["port"] == the(items, "Service")["spec"]["ports"][0]["name"]


def test_an_image_with_a_digest_needs_no_tag(helm: Path) -> None:
    digest = f"sha256:{'0' * 64}"
    pod = the(rendered(helm, {"image": {"digest": digest}}), "Deployment")["spec"]["template"]["spec"]
    assert pod["containers"][1]["image"] == pod["initContainers"][0]["image"] == f"slackwater@{digest}"


# --- what is refused ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"replica": 2}, "additional properties 'replica' not allowed"),
        ({"config": {"autoscaler": {"nodeGroup": []}}}, "additional properties 'nodeGroup' not allowed"),
        ({"config": {"extender": {"httpTimeout": "5 seconds"}}}, "/config/extender/httpTimeout"),
        ({"config": {"apiVersion": "v1"}}, "additional properties 'apiVersion' not allowed"),
        ({"replicas": 0}, "at '/replicas': minimum: got 0, want 1"),
        ({"replicas": 2}, "config.leaderElection.mode: got none, want scheduler with replicas: 2"),
        ({"replicas": 2, "config": {"leaderElection": {"mode": "own"}}}, "got own, want scheduler"),
        ({"resources": {"requests": {"cpu": ["1"]}}}, "/resources/requests/cpu"),
        ({"config": {"listeners": {"ops": {"address": "127.0.0.1:10298"}}}}, "an address that the kubelet's probes reach"),
        ({"priorityClass": {"create": True}}, "want a name of your own"),
        ({"readers": [{"kind": "Group", "name": "on-call"}]}, "networkPolicy.apiServer: got nothing"),
        ({"certificates": {"certManager": {"enabled": True}}}, "want the name of an issuer"),
    ],
    ids=lambda part: "" if isinstance(part, dict) else part.replace(" ", "-"),
)
def test_wrong_values_are_refused_by_name(helm: Path, values: dict[str, Any], words: str) -> None:
    with pytest.raises(HelmRefused) as refused:
        rendered(helm, values)
    assert words in str(refused.value)


# --- the chart itself -----------------------------------------------------------------------------------------------------


def test_the_chart_has_the_services_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == __version__


def test_helm_is_compiled_with_the_control_planes_modules() -> None:
    """Where both need one: else what Go has compiled for one is of no use for the other."""
    ours = (SOURCES / "go.mod").read_text()
    theirs = (GO_FILES / "kubernetes" / "go.mod").read_text()
    assert f"k8s.io/client-go => k8s.io/client-go {required_version(theirs, 'k8s.io/kubernetes').replace('v1.', 'v0.')}" in ours


def test_the_packed_chart_renders_as_its_folder(helm: Path, tmp_path: Path) -> None:
    subprocess.run(["make", "dist", "CHART=1", f"DIST={tmp_path}"], cwd=CHART.parents[1], capture_output=True, check=True)
    (packed,) = tmp_path.glob("*.tgz")
    place = ("--namespace", NAMESPACE, "--kube-version", KUBERNETES, "--no-hooks")
    assert packed.name == f"slackwater-{__version__}.tgz"
    assert ask(helm, "template", "slackwater", str(packed), *place) == template(helm)
    assert f"version: {__version__}\n" in ask(helm, "show", "chart", str(packed))
    ask(helm, "lint", str(packed))


@pytest.mark.parametrize("version", ["1.2.3", "1.2.3rc10"])
def test_helm_takes_the_version_that_a_chart_is_given(helm: Path, tmp_path: Path, version: str) -> None:
    shutil.copytree(CHART, tmp_path / "slackwater")
    (described := tmp_path / "slackwater/Chart.yaml").write_text(
        re.sub(r"(?m)^version: .*$", f"version: {as_chart(version)}", (CHART / "Chart.yaml").read_text())
    )
    assert as_chart(version) in described.read_text()
    ask(helm, "lint", str(tmp_path / "slackwater"))
