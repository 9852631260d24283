"""What is in the image: the same whoever builds it, complete, and nothing of the machine that built it."""

import json
import os
import posixpath
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deploy.image import recipe
from slackwater import __version__
from tests.image.conftest import ROOT, build
from tests.image.podman import Podman

pytestmark = pytest.mark.timeout(900)

#: Runs in the image: imports every module of ours, and every compiled module of anybody.
IMPORT_ALL = """
import importlib, importlib.machinery, pathlib, pkgutil, sys, sysconfig
import slackwater, slackwater_protocol
ours = [m.name for p in (slackwater, slackwater_protocol) for m in pkgutil.walk_packages(p.__path__, p.__name__ + ".")]
for name in ours:
    if not name.endswith("__main__"):
        importlib.import_module(name)
dynload = pathlib.Path(sysconfig.get_path("platstdlib"), "lib-dynload")
for path in dynload.glob("*.so"):
    importlib.import_module(path.name.partition(".")[0])
print(len(ours), len(list(dynload.glob("*.so"))), "slackwater.__main__" in ours)
"""
#: Runs in the image: loads the compiled parts of the wheels, and multiplies with numpy's.
LOAD_ALL = """
import numpy, grpc, cryptography.hazmat.bindings._rust, uvloop, aiohttp, msgspec, yaml, httptools, pydantic_core
print(numpy.arange(4.0).reshape(2, 2) @ numpy.eye(2))
"""


def blob(layout: Path, digest: str) -> Path:
    return layout / "blobs" / "sha256" / digest.removeprefix("sha256:")


def manifest(layout: Path) -> dict[str, Any]:
    (entry,) = json.loads((layout / "index.json").read_text())["manifests"]
    return dict(json.loads(blob(layout, entry["digest"]).read_text()))


def files(layout: Path) -> Iterator[tuple[tarfile.TarInfo, bytes]]:
    for layer in manifest(layout)["layers"]:
        with tarfile.open(blob(layout, layer["digest"])) as archive:
            for entry in archive:
                content = archive.extractfile(entry) if entry.isfile() else None
                yield entry, content.read() if content else b""


def test_who_builds_it_again_elsewhere_gets_the_same_digest(layout: Path, tmp_path: Path) -> None:
    # Where mmdebstrap is not root, it works as a subordinate user, who has to pass through its folder.
    with tempfile.TemporaryDirectory(prefix="elsewhere-", dir="/tmp") as scratch:
        Path(scratch).chmod(0o755)
        before = os.umask(0o077)
        try:
            again = build(tmp_path / "dist", TMPDIR=scratch, TZ="Asia/Tokyo", HOSTNAME="elsewhere", PYTHONHASHSEED="7")
        finally:
            os.umask(before)
    assert (again / "index.json").read_text() == (layout / "index.json").read_text()
    assert sorted(path.name for path in again.glob("blobs/sha256/*")) == sorted(
        path.name for path in layout.glob("blobs/sha256/*")
    )


def test_nothing_in_it_names_the_machine_that_built_it(layout: Path) -> None:
    words = [str(ROOT).encode(), str(layout.parent).encode(), b"/tmp/slackwater-image-", sys.prefix.encode()]
    found = [entry.name for entry, content in files(layout) if any(word in content for word in words)]
    assert found == []


def test_its_files_belong_to_root_and_only_temporary_folders_are_writable(layout: Path) -> None:
    entries = [entry for entry, _ in files(layout)]
    assert {(entry.uid, entry.gid, entry.uname, entry.mtime) for entry in entries} == {(0, 0, "", recipe.TIME)}
    writable = {entry.name for entry in entries if not entry.issym() and entry.mode & 0o022}
    assert writable <= {"tmp", "var/tmp", "var/lock"}


def test_every_link_leads_to_something_in_the_image(layout: Path) -> None:
    entries = {entry.name: entry for entry, _ in files(layout)}
    links = {
        name: posixpath.normpath(posixpath.join("/", posixpath.dirname(name), entry.linkname)).lstrip("/")
        for name, entry in entries.items()
        if entry.issym()
    }
    assert len(links) > 10
    assert {name: target for name, target in links.items() if target not in entries} == {}


def test_no_file_is_in_two_layers(layout: Path) -> None:
    names = [entry.name for entry, _ in files(layout) if not entry.isdir()]
    assert len(names) == len(set(names))


def test_every_module_has_its_bytecode(layout: Path) -> None:
    names = {entry.name for entry, _ in files(layout)}
    cache = f"cpython-{recipe.PYTHON.replace('.', '')}.pyc"
    sources = [name for name in names if name.endswith(".py") and name.startswith(f"{recipe.SITE}/slackwater")]
    without = [name for name in sources if f"{name.rpartition('/')[0]}/__pycache__/{Path(name).stem}.{cache}" not in names]
    assert len(sources) > 300
    assert without == []


def test_it_starts_as_the_recipe_says_and_is_labelled(layout: Path) -> None:
    config = json.loads(blob(layout, manifest(layout)["config"]["digest"]).read_text())["config"]
    assert (config["User"], config["Entrypoint"], config["Cmd"]) == ("65532:65532", ["/usr/local/bin/slackwater"], ["serve"])
    assert config["Labels"]["org.opencontainers.image.version"] == __version__


def confined(podman: Podman, *arguments: str, entrypoint: str = "") -> str:
    options = ["--read-only", "--read-only-tmpfs=false", "--cap-drop=ALL", "--security-opt=no-new-privileges"]
    return podman.run([*options, *([f"--entrypoint={entrypoint}"] if entrypoint else [])], arguments)


def test_the_command_runs_with_a_read_only_root(podman: Podman) -> None:
    assert confined(podman, "--version") == f"slackwater {__version__}\n"
    assert confined(podman, "config", "check", "--help")


def test_every_module_of_ours_and_of_python_can_be_imported(podman: Podman) -> None:
    ours, compiled, main = confined(podman, "-c", IMPORT_ALL, entrypoint="python3").split()
    assert int(ours) > 300
    assert int(compiled) > 10
    assert main == "True"


def test_compiled_wheels_find_their_libraries(podman: Podman) -> None:
    assert confined(podman, "-c", LOAD_ALL, entrypoint="python3") == "[[0. 1.]\n [2. 3.]]\n"


def test_there_is_no_shell_and_no_package_manager(layout: Path) -> None:
    programs = {
        entry.name
        for entry, _ in files(layout)
        if not entry.isdir() and entry.name.startswith(("usr/bin/", "usr/sbin/", "usr/local/bin/"))
    }
    assert programs == {
        f"usr/bin/python{recipe.PYTHON}",
        "usr/bin/python3",
        "usr/local/bin/slackwater",
        "usr/local/bin/kubectl-slackwater",
        "usr/local/bin/kubectl_complete-slackwater",
    }
