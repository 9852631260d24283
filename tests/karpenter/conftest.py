"""The real Karpenter. It is built before the first test: with a cold Go cache that takes longer than a test may."""

import pytest

from tests.bench.karpenter.program import build
from tests.controlplane.plugin import anyio_backend, binaries
from tests.controlplane.plugin import pytest_collection_finish as build_control_plane

__all__ = ["anyio_backend", "binaries"]


def pytest_collection_finish(session: pytest.Session) -> None:
    """Builds the control plane and Karpenter, with the progress in sight."""
    build_control_plane(session)
    if not session.config.option.collectonly and any(
        "karpenter" in getattr(item, "fixturenames", ()) for item in session.items
    ):
        with session.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
            build()


@pytest.fixture(scope="session")
def karpenter() -> None:
    """Its controller, with the kwok provider, can be started."""
    build()
