"""Wheels of others come as the lock file has them, or the build fails."""

import re
import subprocess
from pathlib import Path

import pytest

from deploy.image.build import architecture
from deploy.image.wheels import NotLocked, install_others
from slackwater import __version__
from tests.image.conftest import ROOT

pytestmark = pytest.mark.timeout(900)
LOCK = (ROOT / "requirements.lock").read_text()


def install(layout: Path, folder: Path, lock: str) -> None:
    """Into an empty folder, with our wheels from beside the image."""
    (folder / "requirements.lock").write_text(lock)
    install_others(
        folder / "site",
        wheels=layout.parent,
        version=__version__,
        lock=folder / "requirements.lock",
        architecture=architecture(),
    )


def test_a_file_with_another_hash_is_refused(layout: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        install(layout, tmp_path, re.sub(r"sha256:[0-9a-f]{64}", f"sha256:{'0' * 64}", LOCK))
    assert "Hash mismatch" in capfd.readouterr().err


def test_what_the_lock_file_does_not_have_is_refused(layout: Path, tmp_path: Path) -> None:
    shorter = re.sub(r"^h11==.*?(?=^\w)", "", LOCK, flags=re.MULTILINE | re.DOTALL)
    assert shorter != LOCK
    with pytest.raises(NotLocked, match=r"not in requirements\.lock: h11 "):
        install(layout, tmp_path, shorter)
