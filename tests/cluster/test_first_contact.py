"""A newcomer's own cluster: a real API server with KWOK nodes, no service. The commands read it, and change nothing."""

import json
from subprocess import PIPE
from typing import Any

import anyio
import pytest

from tests.cluster.support.audit_tail import AuditTail
from tests.cluster.support.bodies import a_pod
from tests.cluster.support.ground import Ground
from tests.cluster.support.slackwater_process import PROGRAM
from tests.support.controlplane.stack import ControlPlane

pytestmark = [pytest.mark.anyio, pytest.mark.cluster]


async def reported(*arguments: str) -> Any:
    """What the installed command answers as JSON."""
    done = await anyio.run_process([str(PROGRAM), *arguments, "-o", "json"], check=False, stderr=PIPE)
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


async def test_a_pending_pod_is_explained_and_helped_without_a_service(ground: Ground, control_plane: ControlPlane) -> None:
    nodes = await ground.make_nodes(3, cpu="4", labels={"eks.amazonaws.com/nodegroup": ground.name})
    await ground.make_pods(
        [*(a_pod(f"on-{name}", cpu="3", on=name) for name in nodes), a_pod("waits", cpu="2", scheduler="any")]
    )
    audit = AuditTail(control_plane.audit_log)
    audit.read()
    here = ("--kubeconfig", str(control_plane.kubeconfig("admin")))

    why = await reported("explain", "pod", f"{ground.name}/waits", *here)
    assert why["state"] == "pending"
    (resources,) = [reason for reason in why["reasons"] if reason["plugin"] == "NodeResourcesFit"]
    assert (resources["nodes"], resources["short"]) == (3, {"milliCPU": 1000})
    assert f"add a node of group {ground.name}" in {remedy["change"] for remedy in why["remedies"]}

    plan = await reported("simulate", "scale-up", *here)
    assert {group["name"]: group["newNodes"] for group in plan["groups"]}[ground.name] == 1
    kept = await reported("simulate", "scale-down", *here)
    assert set(nodes) <= {each["node"] for each in kept["kept"]}
    command = [str(PROGRAM), "explain", "pod", f"{ground.name}/nobody", *here]
    done = await anyio.run_process(command, check=False, stderr=PIPE)
    want = f"slackwater: the cluster: pod {ground.name}/nobody: is not in the cluster\n"
    assert (done.returncode, done.stderr.decode()) == (3, want), "and nothing about the service, which it does not need"
    # Reads of this account are not in the log.
    assert [request for request in audit.read() if request.user == "admin"] == [], "it only reads"


async def test_the_doctor_looks_at_a_cluster_without_the_service(control_plane: ControlPlane) -> None:
    done = await anyio.run_process(
        [str(PROGRAM), "doctor", "--kubeconfig", str(control_plane.kubeconfig("admin")), "-o", "json"], check=False, stderr=PIPE
    )
    assert done.returncode == 0, done.stderr.decode()
    checks = {check["name"]: check for check in json.loads(done.stdout)}
    seen_well = ("Kubernetes", "clock", "your rights", "API server's flags", "feature gates", "APIs", "other clocks")
    assert {name: checks[name]["state"] for name in seen_well} == dict.fromkeys(seen_well, "ok")
    # Another test may have installed NeonVM's types in this cluster: then an agent is missed.
    agents = checks["agents"]
    assert agents["state"] == "ok" or agents["seen"].startswith("NeonVM is installed, and no Pod"), agents
    assert "authorization-mode [RBAC]" in checks["API server's flags"]["seen"]
    assert "pods/resize: yes, devices (DRA): yes" in checks["optional types"]["seen"]
    assert (checks["installation"]["state"], "not installed" in checks["installation"]["seen"]) == ("warning", True)


async def test_the_doctor_says_what_its_user_may_not_see(control_plane: ControlPlane) -> None:
    done = await anyio.run_process(
        [str(PROGRAM), "doctor", "--kubeconfig", str(control_plane.kubeconfig("scheduler")), "-o", "json"], check=False
    )
    checks = {check["name"]: check for check in json.loads(done.stdout)}
    for name, call in (("API server's flags", "get /flagz"), ("feature gates", "get /metrics")):
        assert (checks[name]["state"], checks[name]["seen"]) == ("unknown", f"cannot be seen: you may not {call}")
