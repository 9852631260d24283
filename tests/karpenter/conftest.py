"""The real Karpenter. It is built before the first test: with a cold Go cache that takes longer than a test may."""

import pytest

from tests.bench.karpenter.program import build
from tests.controlplane.plugin import anyio_backend, binaries
from tests.controlplane.plugin import pytest_collection_finish as build_control_plane
from tests.support.goprogram import build_if_used

__all__ = ["anyio_backend", "binaries"]


def pytest_collection_finish(session: pytest.Session) -> None:
    """Builds the control plane and Karpenter, with the progress in sight."""
    build_control_plane(session)
    build_if_used(session, "karpenter", build)


@pytest.fixture(scope="session")
def karpenter() -> None:
    """Its controller, with the kwok provider, can be started."""
    build()
