"""The image, built by `make image` before the tests that use it, and podman with it."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from slackwater import __version__
from tests.controlplane.plugin import anyio_backend, binaries, pytest_collection_finish
from tests.image.podman import Podman, loaded

__all__ = ["anyio_backend", "binaries", "pytest_collection_finish"]

ROOT = Path(__file__).parents[2]


def build(folder: Path, **environ: str) -> Path:
    """Runs `make image` with that DIST; the layout. Time and commit are fixed: somebody may commit between two builds."""
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "1800000000", "IMAGE_ARGS": "--revision test", **environ}
    done = subprocess.run(
        ["make", "image", f"DIST={folder}"], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "slackwater-image"


@pytest.fixture(scope="session")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The image as an OCI layout."""
    return build(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="session")
def podman(layout: Path) -> Iterator[Podman]:
    """podman with the image in its store."""
    with loaded(layout, __version__) as program:
        yield program
