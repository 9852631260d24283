"""The README's first commands, as a newcomer types them: from an empty folder to an explained pending pod of an own cluster."""

import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Final

import anyio.to_thread
import pytest

from tests.cluster.support.bodies import a_pod
from tests.cluster.support.ground import Ground
from tests.support.controlplane.stack import ControlPlane
from tests.support.sources import ROOT, copy_sources

pytestmark = [pytest.mark.anyio, pytest.mark.cluster, pytest.mark.timeout(600)]

NODES: Final = 100
#: What issue and README promise, with nothing read but the README.
WITHIN_SECONDS: Final = 300


def commands() -> list[str]:
    """The first block of commands in the README."""
    block = (ROOT / "README.md").read_text().partition("```sh\n")[2].partition("```")[0]
    return [line.partition(" #")[0].rstrip() for line in block.splitlines()]


def typed(command: str, folder: Path, kubeconfig: Path) -> str:
    """What a command prints, typed into a shell of somebody who has uv and nothing else of ours."""
    (programs := folder / "programs").mkdir(exist_ok=True)
    if not (programs / "uv").exists():
        (programs / "uv").symlink_to(Path(sys.executable).with_name("uv"))
    path = f"{programs}:{folder / 'home/.local/bin'}:{os.environ['PATH']}"
    kept = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_", "UV_"))}
    environ = {**kept, "PATH": path, "HOME": str(folder / "home"), "KUBECONFIG": str(kubeconfig)}
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder / "clone", env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout


async def test_the_first_commands_from_an_empty_folder_explain_a_pending_pod(
    ground: Ground, control_plane: ControlPlane, tmp_path: Path
) -> None:
    nodes = await ground.make_nodes(NODES, cpu="4", labels={"eks.amazonaws.com/nodegroup": ground.name})
    await ground.make_pods(
        [*(a_pod(f"on-{name}", cpu="3", on=name) for name in nodes), a_pod("waits", cpu="2", scheduler="any")]
    )
    copy_sources(tmp_path / "clone")
    install, explain, simulate, worth = commands()
    type_in = partial(typed, folder=tmp_path, kubeconfig=control_plane.kubeconfig("admin"))
    began = time.monotonic()
    await anyio.to_thread.run_sync(type_in, install)
    why = await anyio.to_thread.run_sync(type_in, explain.replace("NAMESPACE/NAME", f"{ground.name}/waits"))
    took = time.monotonic() - began
    assert f"add a node of group {ground.name}" in why
    assert nodes[0] in await anyio.to_thread.run_sync(type_in, simulate)
    assert ground.name in await anyio.to_thread.run_sync(type_in, worth)
    print(f"explained after {took:.0f} s")
    assert took < WITHIN_SECONDS
