"""What krew installs: the manifest is as krew wants it, and the program in its archive runs that of the wheels."""

import io
import os
import re
import subprocess
import tarfile
from hashlib import sha256
from pathlib import Path

import pytest
import yaml

from deploy.krew.__main__ import archive, archive_name, main, manifest
from slackwater import __version__

URL = "https://files.invalid/v1"


def test_the_manifest_names_the_archive_of_this_version_by_its_hash(tmp_path: Path) -> None:
    assert main(["--url", URL, "--into", str(tmp_path)]) == 0
    written = yaml.safe_load((tmp_path / "slackwater.yaml").read_text())
    assert written == manifest(URL)
    assert (written["apiVersion"], written["kind"]) == ("krew.googlecontainertools.github.com/v1alpha2", "Plugin")
    assert re.fullmatch(r"[\w-]+", written["metadata"]["name"])
    spec = written["spec"]
    assert re.fullmatch(r"v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?", spec["version"])
    assert 0 < len(spec["shortDescription"]) <= 50
    (platform,) = spec["platforms"]
    data = (tmp_path / archive_name()).read_bytes()
    assert platform["uri"] == f"{URL}/{archive_name()}"
    assert platform["sha256"] == sha256(data).hexdigest()
    assert data == archive(), "the same bytes each time"
    with tarfile.open(fileobj=io.BytesIO(data)) as packed:
        assert {each["from"] for each in platform["files"]} == set(packed.getnames())
        assert packed.getmember(platform["bin"]).mode == 0o755
        assert f"version={__version__}\n" in packed.extractfile(platform["bin"]).read().decode()  # type: ignore[union-attr]


def test_an_address_without_tls_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--url", "http://files.invalid", "--into", str(tmp_path)]) == 2
    assert "want https://" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("there", "want"),
    [
        (("slackwater", "kubectl-slackwater", "uv"), "kubectl-slackwater explain"),
        (("uv", "pipx"), f"uv tool run --from slackwater=={__version__} kubectl-slackwater explain"),
        (("pipx",), f"pipx run --spec slackwater=={__version__} kubectl-slackwater explain"),
        ((), ""),
    ],
)
def test_its_program_runs_the_wheels(there: tuple[str, ...], want: str, tmp_path: Path) -> None:
    """And not itself, although krew puts it on the PATH under the plug-in's name."""
    with tarfile.open(fileobj=io.BytesIO(archive())) as packed:
        packed.extractall(tmp_path / "krew", filter="data")
    (folder := tmp_path / "bin").mkdir()
    for name in there:
        (folder / name).write_text(f'#!/bin/sh\necho {name} "$@"\n')
        (folder / name).chmod(0o755)
    program = tmp_path / "krew" / "kubectl-slackwater"
    path = f"{program.parent}:{folder}:/usr/bin:/bin"
    done = subprocess.run([program, "explain"], env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == want
    assert done.returncode == (0 if want else 2)
    assert bool(done.stderr) is not bool(want)
