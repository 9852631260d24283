"""The workflow of a release: checked by actionlint, and each of its steps that needs no registry run on a commit with a tag."""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from deploy.image import layers, oci
from deploy.version import as_chart
from tests.packaging.conftest import ROOT, run
from tests.support import goprogram
from tests.support.sources import copy_sources

WORKFLOWS: Final = ROOT / ".github" / "workflows"
VERSION: Final = "7.8.9rc1"
#: By the job's name and the step's: why nothing here runs it.
ELSEWHERE: Final = {
    ("image", "What builds the image"): "changes the machine",
    ("image", "The image of this architecture"): "tests/image runs `make image`, where its programs are",
    ("registry", "The image of all architectures, and the chart"): "needs a registry",
    ("registry", "Signatures, by the identity of this workflow"): "needs a registry, and an identity of the forge",
    ("wheels", "To the package index, which trusts this workflow; no password"): "needs the index, and its trust",
    ("announce", "The release, with all files"): "needs the forge",
}
#: These run in the order of the workflow; each job has the folder that its steps begin in.
CHECKED_OUT: Final = ("check", "files", "wheels")


def scripts() -> Iterator[tuple[str, str, str]]:
    """Job, name and text of each step that is a script."""
    jobs: dict[str, dict[str, Any]] = yaml.safe_load((WORKFLOWS / "release.yml").read_text())["jobs"]
    for job, content in jobs.items():
        for step in content["steps"]:
            if "run" in step:
                yield job, step["name"], step["run"]


@pytest.mark.timeout(600)
def test_actionlint_finds_nothing_in_the_workflows(tmp_path: Path) -> None:
    program = goprogram.build("actionlint", Path(__file__).parent / "go", package="github.com/rhysd/actionlint/cmd/actionlint")
    files = sorted(WORKFLOWS.glob("*.yml"))
    checked = run(program, "-no-color", *files, cwd=ROOT, check=False)
    assert (checked.returncode, checked.stdout) == (0, "")
    (wrong := tmp_path / "wrong.yml").write_text(files[0].read_text().replace("needs: check", "needs: nobody"))
    assert 'needs job "nobody" which does not exist' in run(program, "-no-color", wrong, cwd=ROOT, check=False).stdout


def environment(folder: Path) -> None:
    """A virtual environment with the packages of this one. What is installed there does not come here."""
    run(sys.executable, "-m", "venv", "--without-pip", folder)
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "those_of_the_tests.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
    (folder / ".installed").touch()


@pytest.fixture
def tagged(tmp_path: Path) -> Path:
    """A clone whose last commit is a release by docs/releasing.md."""
    clone = tmp_path / "clone"
    copy_sources(clone)
    git = ("git", "-c", "user.name=A", "-c", "user.email=a@example.invalid")
    for command in (["init", "--quiet"], ["add", "--all"], ["commit", "--quiet", "--message", "Before"]):
        run(*git, *command, cwd=clone)
    run(sys.executable, "-m", "deploy.version", VERSION, cwd=clone)
    towncrier = Path(sys.executable).with_name("towncrier")
    run(towncrier, "build", "--yes", "--version", VERSION, "--date", "2026-12-24", cwd=clone)
    changelog = clone / "CHANGELOG.md"
    changelog.write_text(changelog.read_text().replace("## Unreleased\n", ""))
    run(*git, "commit", "--quiet", "--all", "--message", "Release", cwd=clone)
    environment(clone / ".venv")
    return clone


def an_image(into: Path, architecture: str) -> None:
    """As `make image` builds it on a machine of that architecture, but with one file in it."""
    status = into.parent / f"root-{architecture}/var/lib/dpkg/status.d"
    status.mkdir(parents=True)
    (status / "libc6").write_text(
        f"Package: libc6\nVersion: 2.41\nArchitecture: {architecture}\nX-Slackwater-Sha256: {'ab' * 32}\n"
    )
    layer = layers.write(status.parents[3], into.with_suffix(".tar.gz"), content="")
    oci.write(into, [layer], version=VERSION, architecture=architecture, created=0, revision="")


def shell(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A step's script as the forge runs it."""
    environ = {
        **os.environ,
        "GITHUB_REF_NAME": f"v{VERSION}",
        "GITHUB_OUTPUT": str(folder / "output"),
        "IMAGE": "example/slackwater",
    }
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
    return subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, timeout=240, check=False)


@pytest.mark.timeout(600)
def test_the_steps_of_the_workflow_make_all_files_of_a_release(tagged: Path, tmp_path: Path) -> None:
    for architecture in ("amd64", "arm64"):  # what the job `image` uploads, and the job `files` downloads
        an_image(tagged / "build" / f"image-{architecture}", architecture)
    (tagged / ".git/info/exclude").write_text("build/\n")
    dist = tagged / "dist"
    ran: set[tuple[str, str]] = set()
    for job, name, script in scripts():
        if (job, name) in ELSEWHERE:
            continue
        done = shell(script, tagged if job in CHECKED_OUT else dist)
        assert done.returncode == 0, f"{job}, {name}: {done.stdout}{done.stderr}"
        ran.add((job, name))
    assert ran | ELSEWHERE.keys() == {(job, name) for job, name, _ in scripts()}

    assert (dist / "output").read_text() == "registry=example\n"
    (bundle,) = (text for _, _, text in scripts() if "make release" in text)
    assert re.findall(r"build/image-(\w+)", bundle) == ["amd64", "arm64"]
    bills = ("slackwater", "slackwater-protocol", "slackwater-image-amd64", "slackwater-image-arm64")
    want = {
        *(f"{name}-{VERSION}-py3-none-any.whl" for name in ("slackwater", "slackwater_protocol")),
        *(f"{name}-{VERSION}.{kind}.json" for name in bills for kind in ("cdx", "spdx")),
        f"slackwater-{VERSION}.tgz",
        f"slackwater-image-{VERSION}.oci.tar",
    }
    assert {line.split()[1] for line in (dist / "SHA256SUMS").read_text().splitlines()} == want
    assert (dist / "notes.md").read_text().startswith("### Security\n")
    with tarfile.open(dist / f"slackwater-image-{VERSION}.oci.tar") as archive:
        archive.extractall(tmp_path / "layout", filter="data")
    assert [each["platform"]["architecture"] for each in oci.manifests(tmp_path / "layout")] == ["amd64", "arm64"]
    (top,) = json.loads((tmp_path / "layout/index.json").read_text())["manifests"]
    assert top["annotations"][oci.REFERENCE] == VERSION, "by which skopeo finds it"
    with tarfile.open(dist / f"slackwater-{VERSION}.tgz") as archive:
        assert {name.partition("/")[0] for name in archive.getnames()} == {"slackwater"}
        described = archive.extractfile("slackwater/Chart.yaml")
        assert described is not None
        assert yaml.safe_load(described)["version"] == as_chart(VERSION)

    shutil.rmtree(dist)
    (tagged / "README.md").write_text("changed")
    refused = shell(bundle, tagged)
    assert refused.returncode != 0
    assert "the tree has changes that are not committed" in refused.stderr
