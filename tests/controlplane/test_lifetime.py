"""Control planes of the tests' own: how they end, and what is left of them."""

import contextlib
import os
import random
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE

import pytest

from slackwater.sandbox.free_ports import FreePorts
from tests.controlplane.talk import a_node, create, is_ready, read, read_until
from tests.support.controlplane.build import Binaries
from tests.support.controlplane.errors import ComponentFailed
from tests.support.controlplane.stack import ControlPlane

pytestmark = [pytest.mark.anyio, pytest.mark.cluster]

#: Prints the folder and the process ids, and waits for its end. Who was started in the background ignores Ctrl-C, and so do its
#: children, unless they say otherwise.
OWNER = """
import signal
import sys
from pathlib import Path
import anyio
from tests.support.controlplane.build import Binaries
from tests.support.controlplane.stack import ControlPlane

async def main():
    async with ControlPlane(Binaries(directory=Path(sys.argv[1]))) as cp:
        print(cp.logs.parent, *(cp.pid(name) for name in cp.running()), flush=True)
        await anyio.sleep(120)

signal.signal(signal.SIGINT, signal.default_int_handler)
anyio.run(main)
"""


def is_there(pid: int) -> bool:
    """Whether the process exists and is no zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def running_in(folder: Path) -> list[str]:
    """Command lines of the processes whose arguments name the folder."""
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            lines.append(path.read_text())
    return [line for line in lines if str(folder) in line]


@contextmanager
def an_owner(binaries: Binaries, temporary: Path) -> Iterator[tuple[subprocess.Popen[str], Path, list[int]]]:
    """Another Python process with a running control plane: the process, the folder, the components' process ids."""
    command = [sys.executable, "-c", OWNER, str(binaries.directory)]
    environ = {**os.environ, "TMPDIR": str(temporary)}
    with subprocess.Popen(command, env=environ, stdout=PIPE, stderr=PIPE, text=True) as owner:
        try:
            assert owner.stdout is not None
            folder, *pids = owner.stdout.readline().split()
            assert len(pids) == 3
            yield owner, Path(folder), [int(pid) for pid in pids]
        finally:
            owner.kill()


async def test_leaving_the_block_leaves_no_process_and_no_file(binaries: Binaries) -> None:
    async with ControlPlane(binaries) as cp:
        pids = [cp.pid(name) for name in cp.running()]
        folder = cp.logs.parent
        assert all(is_there(pid) for pid in pids)

    assert len(pids) == 3
    assert not any(is_there(pid) for pid in pids)
    assert not folder.exists()


async def test_an_error_in_the_block_keeps_the_logs_and_says_where(
    binaries: Binaries, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    cp = ControlPlane(binaries, kwok=False)
    with pytest.raises(RuntimeError, match="a test failed") as failure:
        async with cp:
            raise RuntimeError("a test failed")

    assert failure.value.__notes__ == [f"logs of the control plane: {cp.logs}"]
    assert {path.name for path in cp.logs.iterdir()} == {"etcd.log", "kube-apiserver.log", "audit.log"}


async def test_a_bad_flag_is_shown_in_the_error_and_nothing_runs_on(binaries: Binaries, tmp_path: Path) -> None:
    arguments = {"kube-apiserver": ["--no-such-flag"]}
    with pytest.raises(ComponentFailed, match=r"(?s)kube-apiserver exited with 1.*unknown flag: --no-such-flag"):
        async with ControlPlane(binaries, directory=tmp_path, arguments=arguments):
            raise AssertionError("it must not come up")

    assert running_in(tmp_path) == []


async def test_a_port_that_is_snatched_away_is_replaced(binaries: Binaries) -> None:
    with socket.socket() as potential_victim:
        potential_victim.bind(("127.0.0.1", 0))
        potential_victim.listen()
        snatched = potential_victim.getsockname()[1]

        class OneSnatched(FreePorts):
            """Gives as third port, that of the API server, one that is taken by the time it is used."""

            given = 0

            def take(self) -> int:
                self.given += 1
                return snatched if self.given == 3 else super().take()

        async with ControlPlane(binaries, kwok=False, ports=OneSnatched(random.Random())) as cp:
            assert f":{snatched}" not in cp.api_url
            assert cp.running() == ["etcd", "kube-apiserver"]


def test_ctrl_c_stops_everything_and_removes_the_folder(binaries: Binaries, tmp_path: Path) -> None:
    with an_owner(binaries, tmp_path) as (owner, folder, pids):
        assert folder.exists()
        owner.send_signal(signal.SIGINT)
        _, errors = owner.communicate(timeout=60)

        assert "KeyboardInterrupt" in errors
        assert not any(is_there(pid) for pid in pids)
        assert not folder.exists()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child that its parent died")
def test_nothing_outlives_an_owner_that_is_killed(binaries: Binaries, tmp_path: Path) -> None:
    with an_owner(binaries, tmp_path) as (owner, _, pids):
        components = [os.pidfd_open(pid) for pid in pids]
        assert select.select(components, [], [], 0)[0] == []

        owner.kill()

        for component in components:
            assert select.select([component], [], [], 60)[0] == [component]
            os.close(component)


async def test_with_the_controller_manager_a_deployment_becomes_pods_and_nodes_lose_their_taint(
    binaries: Binaries,
) -> None:
    async with ControlPlane(binaries, controllers=True) as cp, cp.session() as api:
        node = await create(api, "/api/v1/nodes", a_node("managed"))
        assert [taint["key"] for taint in node["spec"]["taints"]] == ["node.kubernetes.io/not-ready"]
        labels = {"app": "web"}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        spec = {"replicas": 3, "selector": {"matchLabels": labels}, "template": template}
        await create(api, "/apis/apps/v1/namespaces/default/deployments", {"metadata": {"name": "web"}, "spec": spec})

        await read_until(api, "/api/v1/nodes/managed", lambda node: is_ready(node) and "taints" not in node["spec"])
        await read_until(api, "/api/v1/namespaces/default/pods", lambda pods: len(pods["items"]) == 3)
        assert (await read(api, "/api/v1/namespaces/default/serviceaccounts"))["items"] != []
