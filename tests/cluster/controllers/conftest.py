"""A control plane for each test, with the real controllers: Deployments make their pods again, budgets are counted."""

from collections.abc import AsyncIterator

import pytest

from tests.cluster.support.ground import Ground
from tests.support.controlplane.build import Binaries
from tests.support.controlplane.stack import ControlPlane


@pytest.fixture
async def control_plane(
    anyio_backend: str, binaries: Binaries, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[ControlPlane]:
    folder = tmp_path_factory.mktemp("controllers")
    async with ControlPlane(binaries, directory=folder / "control-plane", controllers=True) as cp:
        yield cp


@pytest.fixture
async def ground(control_plane: ControlPlane) -> AsyncIterator[Ground]:
    """It ends with its control plane, and is not cleared."""
    async with control_plane.session() as api:
        ground = Ground(api, "own")
        await ground.open()
        yield ground
