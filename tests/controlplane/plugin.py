"""Fixtures for tests that need the real control plane; tests/cluster and tests/bench use them too.

The binaries are built before the first test rather than by a fixture: a build with a cold Go cache takes longer than
any test may. `SLACKWATER_TEST_KUBERNETES=1.35.4` chooses another version of Kubernetes than the recipe's default.
"""

import os
import sys
from collections.abc import AsyncIterator
from typing import Final

import pytest

from tests.support.controlplane.build import Binaries, build
from tests.support.controlplane.progress import shown_on
from tests.support.controlplane.stack import ControlPlane

#: The version of Kubernetes under test; None for the recipe's default.
KUBERNETES: Final = os.environ.get("SLACKWATER_TEST_KUBERNETES") or None


def pytest_collection_finish(session: pytest.Session) -> None:
    """Builds the control plane where a collected test uses it, with the progress in sight."""
    if session.config.option.collectonly or not any("binaries" in _fixtures(item) for item in session.items):
        return
    capture = session.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled(), shown_on(sys.stderr) as progress:
        build(progress, kubernetes=KUBERNETES)


def _fixtures(item: pytest.Item) -> list[str]:
    return item.fixturenames if isinstance(item, pytest.Function) else []


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Session-wide, so that async fixtures may be."""
    return "asyncio"


@pytest.fixture(scope="session")
def binaries() -> Binaries:
    """The built control plane."""
    return build(kubernetes=KUBERNETES)


@pytest.fixture(scope="session")
async def control_plane(
    anyio_backend: str, binaries: Binaries, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[ControlPlane]:
    """etcd, API server and KWOK for all tests of the session; they clean up what they create, and start schedulers."""
    async with ControlPlane(binaries, directory=tmp_path_factory.mktemp("control-plane")) as cp:
        yield cp
