"""The shared control plane: what works in it, and who may do what."""

import stat
from collections.abc import AsyncIterator
from pathlib import Path
from signal import SIGKILL
from typing import Any

import aiohttp
import anyio
import pytest
import yaml

from tests.controlplane.talk import a_node, a_pod, create, is_ready, is_running, read, read_until, remove
from tests.support.controlplane.build import Binaries
from tests.support.controlplane.errors import ComponentFailed, ControlPlaneError, NotReady
from tests.support.controlplane.launches import BindRequest, bind_requests
from tests.support.controlplane.stack import ControlPlane

pytestmark = [pytest.mark.anyio, pytest.mark.cluster]

PODS = "/api/v1/namespaces/default/pods"
SCHEDULER_CONFIG = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


@pytest.fixture
async def api(control_plane: ControlPlane) -> AsyncIterator[aiohttp.ClientSession]:
    async with control_plane.session() as session:
        yield session


async def test_a_pod_placed_by_kube_scheduler_runs_on_a_node_played_by_kwok(
    control_plane: ControlPlane, api: aiohttp.ClientSession
) -> None:
    await create(api, "/api/v1/nodes", a_node("sched-1"))
    await read_until(api, "/api/v1/nodes/sched-1", is_ready)
    await control_plane.start_scheduler(SCHEDULER_CONFIG)

    await create(api, PODS, a_pod("sched-pod"))
    pod = await read_until(api, f"{PODS}/sched-pod", is_running)

    want = BindRequest(user="system:kube-scheduler", namespace="default", pod="sched-pod", status=201)
    assert [bind for bind in bind_requests(control_plane.audit_log) if bind.pod == "sched-pod"] == [want]
    assert pod["spec"]["nodeName"] == "sched-1"
    await control_plane.stop("kube-scheduler")
    await remove(api, f"{PODS}/sched-pod")
    await remove(api, "/api/v1/nodes/sched-1")


async def test_two_schedulers_can_run_and_one_can_restart_with_another_config(control_plane: ControlPlane) -> None:
    await control_plane.start_scheduler(SCHEDULER_CONFIG, name="one")
    await control_plane.start_scheduler(SCHEDULER_CONFIG, name="two", leader_elect=True, arguments=["-v=1"])
    assert control_plane.running()[-2:] == ["one", "two"]

    with pytest.raises(ControlPlaneError, match="one is running already"):
        await control_plane.start_scheduler(SCHEDULER_CONFIG, name="one")
    await control_plane.stop("one")
    await control_plane.start_scheduler(SCHEDULER_CONFIG, name="one")

    assert control_plane.running()[-2:] == ["two", "one"]
    for name in ("one", "two"):
        await control_plane.stop(name)


async def test_a_component_that_ends_by_itself_is_reported_with_its_last_words(control_plane: ControlPlane) -> None:
    with pytest.raises(ComponentFailed) as failure:
        await control_plane.start_scheduler(SCHEDULER_CONFIG + "parallelism: -7\n", name="broken")

    assert failure.value.exit_code == 1
    assert "broken exited with 1" in str(failure.value)
    assert "parallelism: Invalid value: -7" in str(failure.value)
    assert "parallelism: Invalid value: -7" in failure.value.log.read_text()


async def test_something_else_than_a_scheduler_configuration_is_refused(control_plane: ControlPlane) -> None:
    with pytest.raises(ValueError, match="got kind 'Pod', want KubeSchedulerConfiguration"):
        await control_plane.start_scheduler("kind: Pod")


async def test_a_killed_api_server_comes_back_on_its_port_with_its_data(
    control_plane: ControlPlane, api: aiohttp.ClientSession
) -> None:
    made = await create(api, PODS, a_pod("kept", on="nowhere"))
    url = control_plane.api_url

    control_plane.kill("kube-apiserver", SIGKILL)
    assert await control_plane.ended("kube-apiserver") == -SIGKILL
    with pytest.raises(aiohttp.ClientConnectionError):
        await read(api, f"{PODS}/kept")
    with pytest.raises(ComponentFailed, match="kube-apiserver exited with -9"):
        await control_plane.wait_ready()
    await control_plane.restart("kube-apiserver")

    assert control_plane.api_url == url
    assert (await read(api, f"{PODS}/kept"))["metadata"]["uid"] == made["metadata"]["uid"]
    await remove(api, f"{PODS}/kept")


def thread_states(pid: int) -> set[str]:
    """The states of the process's threads, as `ps` names them; T: stopped."""
    return {(thread / "stat").read_text().rpartition(")")[2].split()[0] for thread in Path(f"/proc/{pid}/task").iterdir()}


async def test_a_paused_api_server_answers_nothing_until_it_is_resumed(
    control_plane: ControlPlane, api: aiohttp.ClientSession
) -> None:
    control_plane.pause("kube-apiserver")
    try:
        assert thread_states(control_plane.pid("kube-apiserver")) == {"T"}
        with pytest.raises(TimeoutError), anyio.fail_after(0.5):
            await read(api, "/api/v1/nodes")
    finally:
        control_plane.resume("kube-apiserver")
    await control_plane.wait_ready()

    assert (await read(api, "/api/v1/nodes"))["kind"] == "NodeList"


async def test_rights_are_those_of_default_rbac(control_plane: ControlPlane) -> None:
    want = {"admin": (200, 200), "scheduler": (200, 403), "slackwater": (403, 403)}
    seen = {}
    for account in want:
        async with (
            control_plane.session(account) as session,
            session.get("/api/v1/nodes") as nodes,
            session.get("/api/v1/secrets") as secrets,
        ):
            seen[account] = (nodes.status, secrets.status)

    assert seen == want


async def test_the_user_slackwater_is_in_no_group_of_its_own(control_plane: ControlPlane) -> None:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    async with control_plane.session("slackwater") as session:
        me = await create(session, "/apis/authentication.k8s.io/v1/selfsubjectreviews", body)

    assert me["status"]["userInfo"]["username"] == "slackwater"
    assert me["status"]["userInfo"]["groups"] == ["system:authenticated"]


async def test_a_kubeconfig_needs_no_other_file_and_is_readable_by_its_owner_only(control_plane: ControlPlane) -> None:
    path = control_plane.kubeconfig("slackwater")
    config = yaml.safe_load(path.read_text())

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert config["clusters"][0]["cluster"]["server"] == control_plane.api_url
    assert config["users"][0]["user"]["token"]
    with pytest.raises(ControlPlaneError, match="no account 'nobody'; there are admin, scheduler"):
        control_plane.kubeconfig("nobody")


async def test_a_running_pod_is_resized_in_place_and_reports_what_it_got(api: aiohttp.ClientSession) -> None:
    await create(api, "/api/v1/nodes", a_node("roomy"))
    sidecar = {"name": "s", "image": "i", "restartPolicy": "Always", "resources": {"requests": {"cpu": "100m"}}}
    body = a_pod("growing", on="roomy")
    body["spec"]["initContainers"] = [sidecar]
    await create(api, PODS, body)
    before = await read_until(api, f"{PODS}/growing", is_running)
    assert given(before) == {"c": ({"cpu": "1"}, {"cpu": "1"}), "s": ({"cpu": "100m"}, {"cpu": "100m"})}

    resized = [{"name": "c", "resources": {"requests": {"cpu": "1500m"}}}]
    resized_init = [{"name": "s", "resources": {"requests": {"cpu": "0.2"}}}]
    change = {"spec": {"containers": resized, "initContainers": resized_init}}
    headers = {"Content-Type": "application/strategic-merge-patch+json"}
    async with api.patch(f"{PODS}/growing/resize", json=change, headers=headers) as answer:
        assert answer.status == 200, await answer.text()

    want = {"c": ({"cpu": "1500m"}, {"cpu": "1500m"}), "s": ({"cpu": "200m"}, {"cpu": "200m"})}
    await read_until(api, f"{PODS}/growing", lambda pod: given(pod) == want)
    await remove(api, f"{PODS}/growing")
    await remove(api, "/api/v1/nodes/roomy")


def given(pod: dict[str, Any]) -> dict[str, tuple[object, object]]:
    """Of each container, the requests that are in effect and those that are allocated."""
    statuses = [*pod["status"]["containerStatuses"], *pod["status"]["initContainerStatuses"]]
    return {status["name"]: (status["resources"]["requests"], status["allocatedResources"]) for status in statuses}


async def test_a_pod_that_the_node_controller_called_unready_is_ready_again(api: aiohttp.ClientSession) -> None:
    await create(api, "/api/v1/nodes", a_node("unheard"))
    await create(api, PODS, a_pod("marked", on="unheard"))
    await read_until(api, f"{PODS}/marked", is_running)
    unready = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    headers = {"Content-Type": "application/strategic-merge-patch+json"}
    async with api.patch(f"{PODS}/marked/status", json=unready, headers=headers) as answer:
        assert answer.status == 200, await answer.text()
        assert not says_ready(await answer.json())

    await read_until(api, f"{PODS}/marked", says_ready)
    await remove(api, f"{PODS}/marked")
    await remove(api, "/api/v1/nodes/unheard")


def says_ready(pod: dict[str, Any]) -> bool:
    return any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"]["conditions"])


async def test_a_deleted_pod_is_gone_once_kwok_has_seen_it(api: aiohttp.ClientSession) -> None:
    await create(api, "/api/v1/nodes", a_node("graceful"))
    await create(api, PODS, a_pod("leaving", on="graceful"))
    await read_until(api, f"{PODS}/leaving", is_running)

    async with api.delete(f"{PODS}/leaving", params={"gracePeriodSeconds": "30"}) as answer:
        assert answer.status == 200

    await read_until(api, PODS, lambda pods: all(pod["metadata"]["name"] != "leaving" for pod in pods["items"]))
    await remove(api, "/api/v1/nodes/graceful")


async def test_the_version_is_the_stamped_one(api: aiohttp.ClientSession) -> None:
    assert (await read(api, "/version"))["gitVersion"] == "v1.36.3"


async def test_a_component_that_was_never_started_is_named(control_plane: ControlPlane) -> None:
    with pytest.raises(ControlPlaneError, match="no component 'kubelet' was started; there are etcd, kube-apiserver"):
        control_plane.url("kubelet")


async def test_a_component_that_stays_unready_is_reported_with_what_was_seen(binaries: Binaries, tmp_path: Path) -> None:
    # Where this process stands still etcd is ready when it is looked at first; the API server needs seconds to be.
    reported = r"(?s)(etcd|kube-apiserver) is not ready after 0\.01 s: /readyz: .*whole log: "
    with pytest.raises(NotReady, match=reported) as failure:
        async with ControlPlane(binaries, directory=tmp_path, ready_within_seconds=0.01):
            raise AssertionError("it must not come up")

    assert failure.value.log == tmp_path / "logs" / f"{failure.value.component}.log"
    assert not (tmp_path / "etcd").exists()
