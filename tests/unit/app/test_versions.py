"""Rules that differ between versions of Kubernetes, each on a small cluster that shows it; and where the version comes from."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from slackwater.app.offline import placement_lines, read_cluster
from slackwater.app.offline.files import load_cluster
from slackwater.app.offline.version import VersionRequest
from slackwater.cli.main import main
from slackwater.model.kubernetes_rules import KubernetesVersion
from tests.support.answers import json_of
from tests.support.configuration import HEAD
from tests.support.manifests import Obj, node_manifest
from tests.support.scores import score_lines

_CSI = "csi.example.com"


def an_object(kind: str, name: str, group: str = "v1", **rest: Any) -> Obj:
    meta = {"name": name, **rest.pop("metadata", {})}
    return {"apiVersion": group, "kind": kind, "metadata": meta, **rest}


def a_node(name: str = "n", *, memory: str = "8Gi", **more: Any) -> Obj:
    return node_manifest(name, memory=memory, **more)


def a_pod(name: str = "p", *, cpu: str = "1", memory: str = "1Gi", status: Obj | None = None, **spec: Any) -> Obj:
    container = {"name": "c", "image": "c:1", "resources": {"requests": {"cpu": cpu, "memory": memory}}}
    return an_object("Pod", name, spec={"containers": [container], **spec}, status=status or {})


def cluster(version: str, objects: list[Obj], gates: Mapping[str, bool] | None = None) -> Any:
    request = VersionRequest(version=KubernetesVersion.parse(version, gates or {}))
    return read_cluster({"kind": "List", "items": objects}, request=request)


def refusals(version: str, *objects: Obj, gates: Mapping[str, bool] | None = None) -> dict[str, tuple[str, list[str]]]:
    """The plug-in and the reasons of each node that is refused for the only pending pod."""
    [line] = map(json_of, placement_lines(cluster(version, list(objects), gates)))
    return {node: (verdict["plugin"], verdict["reasons"]) for node, verdict in line["rejected"].items()}


def points(version: str, plugin: str, *objects: Obj, gates: Mapping[str, bool] | None = None) -> dict[str, int]:
    [line] = score_lines(cluster(version, list(objects), gates))
    found: dict[str, int] = line["scores"].get(plugin, {})
    return found


def test_the_operators_gt_and_lt_tolerate_only_with_their_gate() -> None:
    taint = {"key": "sla", "value": "950", "effect": "NoSchedule"}
    compared = [{"key": "sla", "operator": "Gt", "value": "900"}]
    objects = (a_node(taints=[taint]), a_pod(tolerations=compared))
    assert refusals("1.37", *objects) == {"n": ("TaintToleration", ["node(s) had untolerated taint(s)"])}
    assert refusals("1.37", *objects, gates={"TaintTolerationComparisonOperators": True}) == {}


@pytest.mark.parametrize(
    ("operator", "limit", "value", "want"),
    [
        ("Gt", "900", "900", False),
        ("Gt", "-3", "0", True),
        ("Lt", "900", "899", True),
        ("Lt", "900", "900", False),
        ("Gt", "0900", "950", False),
        ("Gt", "+9", "950", False),
        ("Gt", "9", "x", False),
        ("Lt", "9223372036854775808", "1", False),
        ("Lt", "9223372036854775807", "-9223372036854775808", True),
    ],
)
def test_a_toleration_compares_whole_numbers_of_64_bits(operator: str, limit: str, value: str, want: bool) -> None:
    node = a_node(taints=[{"key": "k", "value": value, "effect": "NoSchedule"}])
    pod = a_pod(tolerations=[{"key": "k", "operator": operator, "value": limit}])
    found = refusals("1.36", node, pod, gates={"TaintTolerationComparisonOperators": True})
    assert (found == {}) == want


def of_a_driver(needed: bool) -> list[Obj]:
    group = "storage.k8s.io/v1"
    return [
        a_node("has"),
        a_node("lacks"),
        a_node("silent"),
        an_object("CSIDriver", _CSI, group, spec={"preventPodSchedulingIfMissing": True} if needed else {}),
        an_object("CSINode", "has", group, spec={"drivers": [{"name": _CSI, "nodeID": "has"}]}),
        an_object("CSINode", "lacks", group, spec={"drivers": []}),
        an_object("StorageClass", "later", group, provisioner=_CSI, volumeBindingMode="WaitForFirstConsumer"),
        an_object(
            "PersistentVolumeClaim",
            "data",
            spec={"storageClassName": "later", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "5Gi"}}},
        ),
        a_pod(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]),
    ]


def test_a_node_without_a_needed_csi_driver_is_refused_where_the_gate_is_on() -> None:
    want = {node: ("NodeVolumeLimits", [f"{_CSI} CSI driver is not installed on the node"]) for node in ("lacks", "silent")}
    assert refusals("1.37", *of_a_driver(needed=True)) == want
    assert refusals("1.37", *of_a_driver(needed=False)) == {}
    assert refusals("1.37", *of_a_driver(needed=True), gates={"VolumeLimitScaling": False}) == {}
    assert refusals("1.36", *of_a_driver(needed=True)) == {}
    assert refusals("1.35", *of_a_driver(needed=False), gates={"VolumeLimitScaling": True}) == want


def test_published_room_scores_where_the_gate_is_on() -> None:
    group = "storage.k8s.io/v1"

    def room(node: str, amount: str) -> Obj:
        topology = {"matchLabels": {"kubernetes.io/hostname": node}}
        return an_object("CSIStorageCapacity", node, group, storageClassName="later", nodeTopology=topology, capacity=amount)

    objects = [thing for thing in of_a_driver(needed=False) if thing["metadata"]["name"] != "silent"]
    objects[2]["spec"] = {"storageCapacity": True}
    objects += [room("has", "10Gi"), room("lacks", "100Gi")]
    assert points("1.37", "VolumeBinding", *objects) == {"has": 50, "lacks": 95}
    assert points("1.36", "VolumeBinding", *objects) == {}


def test_existing_volumes_are_scored_by_the_class_of_their_spec() -> None:
    """Claims find a volume by its beta annotation, but kube-scheduler's `BindingInfo.StorageClassName` reads the spec."""
    group = "storage.k8s.io/v1"

    def volume(name: str, amount: str, spec_class: str, **metadata: Any) -> Obj:
        spec = {"capacity": {"storage": amount}, "accessModes": ["ReadWriteOnce"], "storageClassName": spec_class}
        return an_object("PersistentVolume", name, metadata=metadata, spec=spec, status={"phase": "Available"})

    def claim(name: str, amount: str) -> Obj:
        asked = {"resources": {"requests": {"storage": amount}}, "accessModes": ["ReadWriteOnce"]}
        return an_object("PersistentVolumeClaim", name, spec={"storageClassName": "later", **asked})

    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in ("small", "large")]
    objects = (
        a_node(),
        *(
            an_object("StorageClass", name, group, provisioner=_CSI, volumeBindingMode="WaitForFirstConsumer")
            for name in ("later", "other")
        ),
        volume("by-annotation", "5Gi", "other", annotations={"volume.beta.kubernetes.io/storage-class": "later"}),
        volume("by-spec", "20Gi", "later"),
        claim("small", "1Gi"),
        claim("large", "7Gi"),
        a_pod(volumes=volumes),
    )
    # 20 % of class other and 35 % of class later are used: the mean of 80 and 65. Of one class 32 % would be: 68.
    assert points("1.37", "VolumeBinding", *objects) == {"n": 73}


def test_balance_is_scored_by_what_the_pod_improves_since_1_36() -> None:
    full = a_pod("running", cpu="3", memory="1Gi", nodeName="n")
    objects = (a_node(cpu="8", memory="8Gi"), full, a_pod(cpu="1", memory="3Gi"))
    # Shares of CPU and memory: 3/8 and 1/8 without the pod, 4/8 and 4/8 with it.
    assert points("1.35", "NodeResourcesBalancedAllocation", *objects) == {"n": 100}
    assert points("1.36", "NodeResourcesBalancedAllocation", *objects) == {"n": 81}


def test_image_volumes_count_by_version() -> None:
    images = [{"names": ["model:1"], "sizeBytes": 900 * 1024 * 1024}]
    node = a_node(status={"images": images})
    pod = a_pod(volumes=[{"name": "model", "image": {"reference": "model:1"}}])
    assert points("1.35", "ImageLocality", node, pod).get("n", 0) == 0
    assert points("1.36", "ImageLocality", node, pod) == {"n": 89}
    assert points("1.37", "ImageLocality", node, pod) == {"n": 44}


def test_declared_features_are_asked_for_by_version() -> None:
    objects = (a_node(), a_pod(hostNetwork=True, hostUsers=False))
    assert refusals("1.35", *objects) == {}
    assert refusals("1.36", *objects) == {"n": ("NodeDeclaredFeatures", ["node(s) didn't match Pod's required features"])}
    pod = a_pod()
    pod["spec"]["containers"][0]["restartPolicyRules"] = [{"action": "RestartAllContainers"}]
    found = refusals("1.35", a_node(), pod, gates={"NodeDeclaredFeatures": True})
    words = "node declared features check failed - unsatisfied requirements: RestartAllContainersOnContainerExits"
    assert found == {"n": ("NodeDeclaredFeatures", [words])}


def test_a_namespace_selector_counts_the_namespaces_that_it_lists_since_1_37() -> None:
    selector = {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["blue"]}]}
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {}, "namespaceSelector": selector}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    blue = an_object("Namespace", "blue", metadata={"labels": {"team": "blue"}})
    running = a_pod("running", nodeName="n")
    running["metadata"]["namespace"] = "blue"
    objects = (blue, a_node(), running, a_pod(affinity=apart))
    assert refusals("1.36", *objects) == {"n": ("InterPodAffinity", ["node(s) didn't match pod anti-affinity rules"])}
    assert refusals("1.37", *objects) == {}


def test_portworx_volumes_count_by_version() -> None:
    def objects(*plugins: str) -> list[Obj]:
        notes = {"annotations": {"storage.alpha.kubernetes.io/migrated-plugins": ",".join(plugins)}}
        driver = {"name": "pxd.portworx.com", "nodeID": "n", "allocatable": {"count": 0}}
        csi_node = an_object("CSINode", "n", "storage.k8s.io/v1", metadata=notes, spec={"drivers": [driver]})
        return [a_node(), csi_node, a_pod(volumes=[{"name": "v", "portworxVolume": {"volumeID": "v"}}])]

    full = {"n": ("NodeVolumeLimits", ["node(s) exceed max volume count"])}
    assert refusals("1.35", *objects("kubernetes.io/aws-ebs")) == {}
    assert refusals("1.35", *objects("kubernetes.io/portworx-volume")) == full
    assert refusals("1.36", *objects("kubernetes.io/aws-ebs")) == full


def in_resize() -> Obj:
    """Two containers that ask for a CPU each; one of them still has 3, the other was granted 2."""
    pod = a_pod("running", nodeName="n")
    [first] = pod["spec"]["containers"]
    pod["spec"]["containers"] = [first, {**first, "name": "d"}]
    amounts = {"cpu": "1", "memory": "1Gi"}
    pod["status"] = {
        "containerStatuses": [
            {"name": "c", "resources": {"requests": {**amounts, "cpu": "3"}}, "allocatedResources": amounts},
            {"name": "d", "resources": {"requests": amounts}, "allocatedResources": {**amounts, "cpu": "2"}},
        ]
    }
    return pod


def test_a_pod_in_resize_counts_by_its_largest_sum_since_1_37() -> None:
    # Before 1.37: 3 + 2 CPUs. Since then: the largest of 1 + 1, 1 + 2 and 3 + 1.
    short = {"n": ("NodeResourcesFit", ["Insufficient cpu"])}
    assert refusals("1.36", a_node(cpu="6"), in_resize(), a_pod(cpu="2")) == short
    assert refusals("1.37", a_node(cpu="6"), in_resize(), a_pod(cpu="2")) == {}
    assert refusals("1.37", a_node(cpu="6"), in_resize(), a_pod(cpu="2500m")) == short


def test_requests_of_the_pod_itself_count_by_its_gate() -> None:
    pod = a_pod(cpu="100m", resources={"requests": {"cpu": "6"}})
    assert refusals("1.36", a_node(), pod) == {"n": ("NodeResourcesFit", ["Insufficient cpu"])}
    assert refusals("1.36", a_node(), pod, gates={"PodLevelResources": False}) == {}


# --- where the version comes from -------------------------------------------------------------------------------------------


def of_scheduler(image: str, *command: str, name: str = "kube-scheduler-cp") -> Obj:
    container = {"name": "kube-scheduler", "image": image, "command": ["kube-scheduler", *command]}
    return an_object("Pod", name, metadata={"namespace": "kube-system"}, spec={"containers": [container], "nodeName": "cp"})


def test_kube_schedulers_own_pod_says_version_and_gates() -> None:
    pod = of_scheduler("registry.k8s.io/kube-scheduler:v1.35.4", "--feature-gates=VolumeLimitScaling=true")
    found = read_cluster({"kind": "List", "items": [a_node(), pod]}).kubernetes
    assert (str(found.version), found.version.gates) == ("1.35.4", (("VolumeLimitScaling", True),))
    assert found.source == "as of the pod kube-system/kube-scheduler"


@pytest.mark.parametrize(
    ("flags", "on"),
    [
        ([], False),
        (["--min-compatibility-version=1.36"], False),
        (["--min-compatibility-version", "1.37"], True),
        (["--min-compatibility-version=1.37", "--feature-gates=DRAFractionalCapacityRange=false"], False),
    ],
)
def test_kube_schedulers_compatibility_turns_gates_on(flags: list[str], on: bool) -> None:
    pod = of_scheduler("registry.k8s.io/kube-scheduler:v1.37.2", *flags)
    found = read_cluster({"kind": "List", "items": [a_node(), pod]}).kubernetes.version
    assert found.enabled("DRAFractionalCapacityRange") is on


@pytest.mark.parametrize("image", ["mirror/kube-scheduler", "kube-scheduler:latest", "kube-scheduler@sha256:ab", "x:v1.2.3.4"])
def test_an_image_that_names_no_version_says_nothing(image: str) -> None:
    found = read_cluster({"kind": "List", "items": [a_node(), of_scheduler(image)]}).kubernetes
    assert (str(found.version), found.source) == ("1.36.3", "")


def test_of_two_schedulers_the_newer_one_counts_and_a_request_before_both() -> None:
    pods = [of_scheduler(f"k:v1.{minor}.1", name=f"kube-scheduler-{minor}") for minor in (37, 36)]
    items = {"kind": "List", "items": [a_node(), *pods]}
    assert str(read_cluster(items).kubernetes.version) == "1.37.1"
    request = VersionRequest(version=KubernetesVersion.parse("1.34"))
    assert str(read_cluster(items, request=request).kubernetes.version) == "1.34.0"
    assert str(read_cluster(items, said=KubernetesVersion.parse("1.35")).kubernetes.version) == "1.37.1"


def a_file(folder: Path, *objects: Obj) -> str:
    file = folder / "cluster.yaml"
    file.write_text(yaml.safe_dump_all(objects))
    return str(file)


def test_the_options_choose_version_and_gates(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = a_file(tmp_path, *of_a_driver(needed=True))
    command = ["simulate", "placement", "--cluster", file]
    assert main([*command, "--kubernetes-version", "1.37"]) == 0
    assert "csi.example.com CSI driver is not installed on the node" in capsys.readouterr().out
    assert main([*command, "--kubernetes-version", "1.37", "--feature-gates", "VolumeLimitScaling=false"]) == 0
    assert "not installed" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--kubernetes-version", "1.33"], "--kubernetes-version: got 1.33.0, want 1.34 or newer"),
        (["--kubernetes-version", "new"], "--kubernetes-version: got 'new', want a version of Kubernetes like 1.36"),
        (["--feature-gates", "X"], "--feature-gates: got 'X', want Name=true or Name=false"),
        (["--kubernetes-version", "1.34", "--feature-gates", "VolumeLimitScaling=true"], "1.35 is the first that does"),
        (["--live", "--kubernetes-version", "1.36"], "--kubernetes-version: got it with --live, want the service's own"),
    ],
)
def test_what_cannot_be_followed_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], words: str
) -> None:
    source = [] if "--live" in options else ["--cluster", a_file(tmp_path, a_node(), a_pod())]
    assert main(["simulate", "placement", *source, *options]) == 2
    assert words in capsys.readouterr().err


def test_a_newer_version_is_followed_as_the_newest_with_a_note(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = a_file(tmp_path, a_node(), a_pod())
    assert (
        main(["simulate", "placement", "--cluster", file, "--kubernetes-version", "1.41", "--feature-gates", "Odd=true"]) == 0
    )
    reported = capsys.readouterr().err
    assert "Kubernetes 1.41.0 is newer than what Slackwater knows; it follows the rules of 1.37" in reported
    assert "feature gates without effect here: Odd" in reported


def test_the_configuration_chooses_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump({**HEAD, "scheduler": {"version": "1.37", "featureGates": "Odd=true"}}))
    file = a_file(tmp_path, *of_a_driver(needed=True))
    assert main(["simulate", "placement", "--cluster", file, "--config", str(config)]) == 0
    assert "csi.example.com CSI driver is not installed" in capsys.readouterr().out


def test_gates_that_the_stated_version_lacks_are_refused_in_the_configuration(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "config.yaml"
    scheduler = {"version": "1.34", "featureGates": "VolumeLimitScaling=true"}
    config.write_text(yaml.safe_dump({**HEAD, "scheduler": scheduler}))
    assert main(["config", "check", str(config)]) != 0
    assert "scheduler.featureGates" in "".join(capsys.readouterr())


def test_a_cluster_of_a_file_is_followed_by_default_as_1_36(tmp_path: Path) -> None:
    assert str(load_cluster(a_file(tmp_path, a_node(), a_pod())).kubernetes.version) == "1.36.3"
