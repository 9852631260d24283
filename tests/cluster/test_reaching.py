"""Commands find the service in the cluster by the kubeconfig, and ask it through the API server's port-forward.

The service runs beside the cluster, as in all tests of this folder. A second KWOK plays the kubelet of one node, by the
library that real kubelets and containerd use: it forwards a port of a Pod to the service's ops listener.
"""

import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from subprocess import PIPE
from typing import Any

import anyio
import pytest
import trustme
import yaml

from slackwater.sandbox.free_ports import FreePorts
from tests.cluster.support.bodies import a_pod
from tests.cluster.support.ground import MERGE_PATCH, Ground
from tests.cluster.support.slackwater_process import PROGRAM, SlackwaterProcess
from tests.cluster.support.stage import Stage
from tests.support.configuration import HEADER
from tests.support.controlplane.build import Binaries
from tests.support.controlplane.component import Component, Launch
from tests.support.controlplane.stack import ControlPlane
from tests.support.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.cluster]

KUBE_SYSTEM = "/api/v1/namespaces/kube-system/pods"
NETWORK_POLICIES = "/apis/networking.k8s.io/v1/namespaces/kube-system/networkpolicies"
#: The ports in the Pod. Nothing listens there; the kubelet forwards them to the service's real ones.
OPS, AGENTS = 10298, 10299


class Kubelet:
    """A KWOK that forwards ports of Pods, and nothing else."""

    def __init__(self, control_plane: ControlPlane, binaries: Binaries, folder: Path, port: int) -> None:
        self._control_plane = control_plane
        self._binaries = binaries
        self._folder = folder
        self.port = port
        self._component: Component | None = None

    async def forward(self, targets: Mapping[str, int], *, port: int = OPS) -> None:
        """Starts it; `targets` are ports of this machine by Pods of kube-system, whose port is `port`."""
        documents = [
            {
                "apiVersion": "kwok.x-k8s.io/v1alpha1",
                "kind": "PortForward",
                "metadata": {"name": pod, "namespace": "kube-system"},
                "spec": {"forwards": [{"ports": [port], "target": {"address": "127.0.0.1", "port": target}}]},
            }
            for pod, target in targets.items()
        ]
        (self._folder / "forwards.yaml").write_text(yaml.safe_dump_all(documents))
        certificate = trustme.CA().issue_cert("127.0.0.1")
        certificate.private_key_and_cert_chain_pem.write_to_path(str(self._folder / "kubelet.pem"))
        launch = Launch(
            name="kubelet",
            program=self._binaries.of("kwok"),
            url=f"https://127.0.0.1:{self.port}",
            ready_paths=(),
            arguments=(
                f"--kubeconfig={self._control_plane.kubeconfig('admin')}",
                f"--config={self._binaries.kwok_stages}",  # without any stage it would not start
                f"--config={self._folder / 'forwards.yaml'}",
                f"--server-address=127.0.0.1:{self.port}",
                f"--tls-cert-file={self._folder / 'kubelet.pem'}",
                f"--tls-private-key-file={self._folder / 'kubelet.pem'}",
                "--manage-nodes-with-label-selector=no=node",
            ),
        )
        self._component = Component(launch, log=self._folder / "kubelet.log", home=self._folder)
        await self._component.start()
        await eventually(self._listens, bool, within_seconds=60, wanted="the kubelet listens")

    async def _listens(self) -> bool:
        assert self._component is not None
        self._component.check()
        try:
            await (await anyio.connect_tcp("127.0.0.1", self.port)).aclose()
        except OSError:
            return False
        return True

    async def stop(self) -> None:
        if self._component is not None:
            await self._component.stop(within_seconds=5)


@pytest.fixture
async def kubelet(
    control_plane: ControlPlane, binaries: Binaries, tmp_path: Path, ground: Ground, free_ports: FreePorts
) -> AsyncIterator[Kubelet]:
    made = Kubelet(control_plane, binaries, tmp_path, free_ports.take())
    (node,) = await ground.make_nodes(1)
    status = {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],  # no Hostname: the API server would prefer it
        "daemonEndpoints": {"kubeletEndpoint": {"Port": made.port}},
    }

    async def initialized() -> bool:
        conditions = (await ground.read(f"/api/v1/nodes/{node}"))["status"].get("conditions", ())
        return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)

    # KWOK takes addresses away when it initializes a node.
    await eventually(initialized, bool, within_seconds=60, wanted="a node that KWOK has initialized")
    await ground.patch_node(node, {"status": status}, part="/status")
    yield made
    with anyio.CancelScope(shield=True):
        await made.stop()
        await ground._send("DELETE", KUBE_SYSTEM, params={"labelSelector": f"name={ground.name}", "gracePeriodSeconds": "0"})


async def make_replica(ground: Ground, name: str) -> None:
    """A Pod as the chart makes it, as far as commands look at it; it runs."""
    body = a_pod(name, on=f"{ground.name}-n-000", labels={"name": ground.name})
    body["spec"]["containers"][0]["ports"] = [{"name": "ops", "containerPort": OPS}]
    await ground.create(KUBE_SYSTEM, body)
    ready = [{"type": "Ready", "status": "True"}]
    status = {"status": {"phase": "Running", "conditions": ready, "podIP": "10.9.9.9", "podIPs": [{"ip": "10.9.9.9"}]}}
    await ground._send("PATCH", f"{KUBE_SYSTEM}/{name}/status", json=status, headers=MERGE_PATCH)


async def asked(where: ControlPlane | str, ground: Ground, *arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command that is given the kubeconfig alone."""
    kubeconfig = where if isinstance(where, str) else str(where.kubeconfig("admin"))
    to = ("--kubeconfig", kubeconfig, "--scheduler-name", ground.name)
    done = await anyio.run_process([str(PROGRAM), *arguments, *to], check=False, stderr=PIPE)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def ops_port(service: SlackwaterProcess) -> int:
    return int(service.ops_url.rpartition(":")[2])


async def test_commands_reach_the_service_through_the_api_server(
    stage: Stage, ground: Ground, control_plane: ControlPlane, kubelet: Kubelet
) -> None:
    service = await stage.up()
    replica = f"{ground.name}-a"
    await kubelet.forward({replica: ops_port(service)})
    await make_replica(ground, replica)
    await ground.make_pods([a_pod("large", cpu="20")])
    await ground.until_refused("large")

    code, out, err = await asked(control_plane, ground, "dumpstate", "-o", "json")
    assert err == ""
    assert code == 0
    state: dict[str, Any] = json.loads(out)
    assert [pod["name"] for pod in state["pending"] if pod["namespace"] == ground.name] == ["large"]

    code, out, err = await asked(control_plane, ground, "explain", "pod", f"{ground.name}/large", "-o", "json")
    assert (code, err) == (0, ""), "no note: the service itself has answered"
    assert json.loads(out)["facts"]["schedulerSays"]

    code, out, err = await asked(control_plane, ground, "simulate", "placement", "--live", "-o", "json")
    assert (code, err) == (0, ""), "a POST: through the kubelet it comes from the Pod's loopback"
    assert [line["feasible"] for line in map(json.loads, out.splitlines()) if line["pod"] == f"{ground.name}/large"] == [[]]

    code, _, err = await asked(control_plane, ground, "explain", "pod", f"{ground.name}/nobody")
    assert code == 3
    assert f"pod kube-system/{replica}/explain/pods/{ground.name}/nobody: got status 404" in err


async def test_a_replica_that_does_not_answer_is_passed_over_and_named_if_none_does(
    stage: Stage, ground: Ground, control_plane: ControlPlane, kubelet: Kubelet, free_ports: FreePorts
) -> None:
    service = await stage.up_service()
    await kubelet.forward({f"{ground.name}-a": free_ports.take(), f"{ground.name}-b": ops_port(service)})
    await make_replica(ground, f"{ground.name}-a")
    code, _, err = await asked(control_plane, ground, "dumpstate", "-o", "json")
    assert code == 4
    assert f"slackwater: pod kube-system/{ground.name}-a, port {OPS}: " in err
    assert "want the rights to get and create pods/portforward" in err

    await make_replica(ground, f"{ground.name}-b")
    code, out, _ = await asked(control_plane, ground, "dumpstate", "-o", "json")
    assert code == 0
    assert json.loads(out)["nodes"]


async def test_without_a_service_it_is_said_what_was_looked_for(ground: Ground, control_plane: ControlPlane) -> None:
    code, _, err = await asked(control_plane, ground, "dumpstate")
    assert code == 4
    assert f"found none that runs of the Pods with the label name={ground.name} in namespace kube-system" in err
    assert "--scheduler-name names another scheduler" in err

    nodes = await ground.make_nodes(1)
    code, out, err = await asked(control_plane, ground, "explain", "node", nodes[0], "-o", "json")
    assert code == 0
    assert json.loads(out)["object"] == f"node {nodes[0]}"
    assert err == "slackwater: note: no service answers, explained from the objects of the API\n"


async def test_without_the_right_to_list_pods_the_right_is_named(
    ground: Ground, control_plane: ControlPlane, tmp_path: Path
) -> None:
    kubeconfig = yaml.safe_load(control_plane.kubeconfig("admin").read_text())
    kubeconfig["users"][0]["user"] = {}
    (tmp_path / "anonymous.yaml").write_text(yaml.safe_dump(kubeconfig))
    code, _, err = await asked(str(tmp_path / "anonymous.yaml"), ground, "dumpstate")
    assert code == 5
    assert "ask for the rights to list pods" in err


async def test_the_doctor_asks_the_agents_listener_and_judges_the_policies(
    stage: Stage, ground: Ground, control_plane: ControlPlane, kubelet: Kubelet, tmp_path: Path
) -> None:
    service = await stage.up_service()
    replica, agent = f"{ground.name}-a", f"{ground.name}-agent"
    await kubelet.forward({replica: int(service.agents_url.rstrip("/").rpartition(":")[2])}, port=AGENTS)
    await make_replica(ground, replica)
    await ground.create(KUBE_SYSTEM, a_pod(agent, on=f"{ground.name}-n-000", labels={"name": "autoscaler-agent"}))
    status = {"status": {"phase": "Running"}}
    await ground._send("PATCH", f"{KUBE_SYSTEM}/{agent}/status", json=status, headers=MERGE_PATCH)
    config = tmp_path / "slackwater.yaml"
    config.write_text(f"{HEADER}schedulerName: {ground.name}\n")

    async def checks() -> dict[str, Any]:
        where = ("--kubeconfig", str(control_plane.kubeconfig("admin")), "--config", str(config), "-o", "json")
        done = await anyio.run_process([str(PROGRAM), "doctor", *where], check=False, stderr=PIPE)
        assert done.stderr == b""
        return {check["name"]: check for check in json.loads(done.stdout)}

    try:
        found = await checks()
        assert found["agents' port"]["seen"] == f"pod kube-system/{replica} answers on port {AGENTS} through a port-forward"
        assert found["agents' NetworkPolicy"]["state"] == "warning"
        for name in ("API server's flags", "feature gates", "APIs", "other clocks", "agents", "agents' port"):
            assert found[name]["state"] == "ok", found[name]
        spec = {"podSelector": {"matchLabels": {"name": ground.name}}, "policyTypes": ["Ingress"], "ingress": []}
        body = {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": ground.name}, "spec": spec}
        await ground.create(NETWORK_POLICIES, body)
        found = await checks()
        assert found["agents' NetworkPolicy"]["seen"] == f"{ground.name} lets no agent reach port {AGENTS}"
        await service.kill()
        found = await checks()
        assert found["agents' port"]["state"] == "problem"
    finally:
        with anyio.CancelScope(shield=True):
            await ground._send("DELETE", f"{KUBE_SYSTEM}/{agent}", params={"gracePeriodSeconds": "0"})
            await ground._send("DELETE", f"{NETWORK_POLICIES}/{ground.name}")
