"""deploy/ agrees with itself and with the code. That a real API server takes it is tested in tests/cluster."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from slackwater import __version__
from slackwater.app.scheduler_config.check import check
from slackwater.app.settings import loads, notes
from slackwater.cli.main import main
from slackwater_protocol.names import SCHEDULER_NAME_LABEL, SCHEDULER_NAMESPACE

DEPLOY = Path("deploy")
KUSTOMIZATION = yaml.safe_load((DEPLOY / "kustomization.yaml").read_text())
OBJECTS = [item for name in KUSTOMIZATION["resources"] for item in yaml.safe_load_all((DEPLOY / name).read_text())]


def the(kind: str, name: str = "slackwater") -> dict[str, Any]:
    return next(item for item in OBJECTS if (item["kind"], item["metadata"]["name"]) == (kind, name))


SETTINGS = loads(the("ConfigMap")["data"]["slackwater.yaml"])
TEMPLATE = the("Deployment")["spec"]["template"]
CONTAINERS = {container["name"]: container for container in TEMPLATE["spec"]["containers"]}
(FIRST,) = TEMPLATE["spec"]["initContainers"]


def schedulers_configuration(folder: Path) -> str:
    """What the first container leaves for kube-scheduler, its folders being here."""
    file = folder / "slackwater.yaml"
    file.write_text(the("ConfigMap")["data"][file.name])
    folders = {"/etc/slackwater": folder, "/etc/kube-scheduler": folder}
    assert {mount["mountPath"] for mount in FIRST["volumeMounts"]} == set(folders)
    arguments = FIRST["args"]
    for mounted, here in folders.items():
        arguments = [argument.replace(f"={mounted}/", f"={here}/") for argument in arguments]
    assert main(arguments) == 0
    return (folder / "scheduler.yaml").read_text()


def test_slackwaters_configuration_is_valid_and_asks_for_nothing_that_has_no_effect(tmp_path: Path) -> None:
    file = tmp_path / "slackwater.yaml"
    file.write_text(the("ConfigMap")["data"][file.name])
    assert main(["config", "check", str(file)]) == 0
    assert notes(SETTINGS) == []


def test_the_schedulers_configuration_is_clean(tmp_path: Path) -> None:
    assert check(schedulers_configuration(tmp_path), SETTINGS) == []


def test_slackwater_reads_the_file_that_its_config_map_has() -> None:
    (mount,) = CONTAINERS["slackwater"]["volumeMounts"]
    assert "subPath" not in mount, "a file mounted by subPath never changes"
    volume = next(volume for volume in TEMPLATE["spec"]["volumes"] if volume["name"] == mount["name"])
    (file,) = the("ConfigMap", volume["configMap"]["name"])["data"]
    assert f"--config={mount['mountPath']}/{file}" in CONTAINERS["slackwater"]["args"]
    assert f"--config={mount['mountPath']}/{file}" in FIRST["args"]


def test_kube_scheduler_reads_the_file_that_the_first_container_has_written() -> None:
    (mount,) = CONTAINERS["kube-scheduler"]["volumeMounts"]
    written = {each["name"]: each for each in FIRST["volumeMounts"]}[mount["name"]]
    assert (mount["mountPath"], mount["readOnly"]) == (written["mountPath"], True)
    assert not written.get("readOnly")
    (path,) = [argument.removeprefix("--write=") for argument in FIRST["args"] if argument.startswith("--write=")]
    assert f"--config={path}" in CONTAINERS["kube-scheduler"]["command"]
    assert FIRST["image"] == CONTAINERS["slackwater"]["image"]


def test_agents_find_the_pod_by_the_schedulers_name() -> None:
    assert TEMPLATE["metadata"]["labels"][SCHEDULER_NAME_LABEL] == SETTINGS.scheduler_name
    assert {item["metadata"]["namespace"] for item in OBJECTS if "namespace" in item["metadata"]} == {SCHEDULER_NAMESPACE}


def test_selectors_match_the_pod() -> None:
    labels = TEMPLATE["metadata"]["labels"].items()
    assert the("Deployment")["spec"]["selector"]["matchLabels"].items() <= labels
    assert the("NetworkPolicy")["spec"]["podSelector"]["matchLabels"].items() <= labels


def test_two_never_run_at_the_same_time(tmp_path: Path) -> None:
    assert the("Deployment")["spec"]["replicas"] == 1
    assert the("Deployment")["spec"]["strategy"] == {"type": "Recreate"}
    assert yaml.safe_load(schedulers_configuration(tmp_path))["leaderElection"] == {"leaderElect": False}


def test_the_extender_is_on_loopback_and_the_ops_listener_where_probes_reach_it() -> None:
    assert SETTINGS.listeners.extender.address.is_loopback
    assert SETTINGS.listeners.ops.address.is_every_interface
    ports = {port["name"]: port["containerPort"] for port in CONTAINERS["slackwater"]["ports"]}
    listeners = SETTINGS.listeners
    assert ports == {"ops": listeners.ops.address.port, "agents": listeners.agents.address.port}
    for probe in ("livenessProbe", "readinessProbe"):
        assert CONTAINERS["slackwater"][probe]["httpGet"]["port"] == "ops"


def test_the_network_policy_opens_the_containers_ports_and_no_others() -> None:
    rules = the("NetworkPolicy")["spec"]["ingress"]
    opened = [port["port"] for rule in rules for port in rule["ports"]]
    assert sorted(opened) == sorted(port["containerPort"] for container in CONTAINERS.values() for port in container["ports"])
    assert all(rule["from"] for rule in rules)


def test_only_agents_reach_the_agents_listener() -> None:
    (rule,) = [rule for rule in the("NetworkPolicy")["spec"]["ingress"] if {"port": 10299} in rule["ports"]]
    assert rule == {"from": [{"podSelector": {"matchLabels": {"name": "autoscaler-agent"}}}], "ports": [{"port": 10299}]}


@pytest.mark.parametrize("container", [FIRST, *CONTAINERS.values()], ids=lambda container: container["name"])
def test_each_container_is_confined(container: dict[str, Any]) -> None:
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    pod = TEMPLATE["spec"]["securityContext"]
    assert (pod["runAsNonRoot"], pod["seccompProfile"]) == (True, {"type": "RuntimeDefault"})
    assert container["resources"]["requests"].keys() == {"cpu", "memory"}
    assert container["resources"]["limits"].keys() == {"memory"}


def test_all_rights_go_to_the_pods_account() -> None:
    account = {"kind": "ServiceAccount", "name": TEMPLATE["spec"]["serviceAccountName"], "namespace": SCHEDULER_NAMESPACE}
    bindings = [item for item in OBJECTS if item["kind"] in {"ClusterRoleBinding", "RoleBinding"}]
    assert [binding["subjects"] for binding in bindings] == [[account]] * 6


def test_images_have_a_version_and_kube_schedulers_has_kubernetes_registry() -> None:
    """Nobody publishes ours: the kustomization and the pages say where to name it."""
    built = Path("tests/support/controlplane/go/kubernetes/go.mod").read_text()
    (tested,) = re.findall(r"k8s\.io/kubernetes (v1\.\d+\.\d+)\b", built)
    want = {"slackwater": f"slackwater:{__version__}", "kube-scheduler": f"registry.k8s.io/kube-scheduler:{tested}"}
    assert {name: container["image"] for name, container in CONTAINERS.items()} == want
    assert {f"{image['name']}:{image['newTag']}" for image in KUSTOMIZATION["images"]} == {*want.values()}
    dockerfile = (DEPLOY / "Dockerfile").read_text()
    for image in re.findall(r"^FROM (\S+)", dockerfile, re.MULTILINE):
        assert image == "scratch" or re.fullmatch(r"[a-z-]+:v?\d[\w.-]*", image), image


def test_the_charts_alerts_are_the_alerts() -> None:
    assert (DEPLOY / "chart" / "files" / "alerts.yaml").read_text() == (DEPLOY / "monitoring" / "alerts.yaml").read_text()
