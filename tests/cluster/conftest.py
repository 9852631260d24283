"""Fixtures of the tests that drive the service through a real control plane and a real kube-scheduler."""

import random
import re
from collections.abc import AsyncIterator, Generator, Iterator
from itertools import count
from pathlib import Path
from typing import Final

import pytest

from slackwater.app import rbac
from slackwater.sandbox.free_ports import FreePorts
from tests.cluster.support import asked
from tests.cluster.support.audit_tail import SERVICE_TOO
from tests.cluster.support.ground import Ground
from tests.cluster.support.stage import Stage
from tests.controlplane.plugin import anyio_backend, binaries, pytest_collection_finish
from tests.controlplane.talk import create
from tests.support.controlplane.build import Binaries
from tests.support.controlplane.stack import ControlPlane

__all__ = ["anyio_backend", "binaries", "pytest_collection_finish"]

_LONGEST_NAME: Final = 30
#: Files that take longest. They come first, so that at the end of a parallel run no worker waits for one of them alone.
_FIRST: Final = (
    "test_scale_down.py",
    "test_scale_up.py",
    "test_node_choice.py",
    "test_as_cluster_autoscaler.py",
    "test_nearly_full.py",
    "test_explaining.py",
    "test_binding.py",
    "test_chaos.py",
    "test_two_replicas.py",
    "test_vertical.py",
    "test_slack.py",
    "test_crashes.py",
    "test_upgrade.py",
)
#: It looks back on what all others did.
_LAST: Final = "test_rights.py"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the longest files before all others and the test of rights behind them."""
    items.sort(key=lambda item: _place(item.path.name))


def _place(file: str) -> int:
    if file in _FIRST:
        return _FIRST.index(file)
    return len(_FIRST) + (file == _LAST)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Adds the ends of the logs to the report of a test that failed."""
    report = yield
    stage = item.funcargs.get("stage") if isinstance(item, pytest.Function) else None
    if isinstance(stage, Stage) and report.failed:
        report.sections += stage.logs()
    return report


@pytest.fixture(scope="session")
async def control_plane(
    anyio_backend: str, binaries: Binaries, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> AsyncIterator[ControlPlane]:
    """One for all tests of this folder, or for those of one worker. The service's account has the service's role and no other.

    All it asks is audited, and kept for the test of rights where that runs in a session of its own.
    """
    folder = tmp_path_factory.mktemp("cluster") / "control-plane"
    # With one worker, clearing 2,000 pods takes as long as binding them.
    arguments = {"kube-apiserver": ["--delete-collection-workers=20"]}
    async with ControlPlane(binaries, directory=folder, arguments=arguments, audited=SERVICE_TOO) as cp:
        async with cp.session() as api:
            for item in rbac.rights(None, rbac.user("slackwater")):
                await create(api, rbac.collection_path(item), item)
        yield cp
        asked.keep(cp.audit_log, files={item.path.name for item in request.session.items})


@pytest.fixture(scope="session")
def grounds() -> Iterator[int]:
    """Numbers, so that no two tests of the session share a name."""
    return count(1)


@pytest.fixture(scope="session")
def free_ports() -> FreePorts:
    return FreePorts(random.Random())


@pytest.fixture
async def ground(control_plane: ControlPlane, grounds: Iterator[int], request: pytest.FixtureRequest) -> AsyncIterator[Ground]:
    """A namespace and nodes of this test alone; both empty afterwards."""
    words = re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_").lower())[:_LONGEST_NAME].strip("-")
    async with control_plane.session() as api:
        ground = Ground(api, f"t{next(grounds)}-{words}")
        await ground.open()
        yield ground
        await ground.clear()


@pytest.fixture
async def stage(control_plane: ControlPlane, ground: Ground, free_ports: FreePorts, tmp_path: Path) -> AsyncIterator[Stage]:
    """Nothing runs on it yet: `await stage.up(...)`."""
    async with Stage(control_plane, ground, folder=tmp_path, ports=free_ports) as stage:
        yield stage
