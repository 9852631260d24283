"""Two Pods of a test's own."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from slackwater.sandbox.free_ports import FreePorts
from tests.cluster.replicas.pair import Pair
from tests.cluster.support.ground import Ground
from tests.support.controlplane.stack import ControlPlane


@pytest.fixture
async def pair(control_plane: ControlPlane, ground: Ground, free_ports: FreePorts, tmp_path: Path) -> AsyncIterator[Pair]:
    """Nothing runs yet: `await pair.up(...)`."""
    async with Pair(control_plane, ground, folder=tmp_path, ports=free_ports) as pair:
        try:
            yield pair
        finally:
            for title, text in pair.logs():
                print(f"--- {title}\n{text}")
