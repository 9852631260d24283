"""What names a build, and what the recipe builds from."""

import re
import shutil
from pathlib import Path

import pytest

from tests.support.controlplane.errors import VersionError
from tests.support.controlplane.modules import module_of
from tests.support.controlplane.recipe import GO_FILES, MODULES, TARGETS, ldflags, recipe_key, required_version

GO = (1, 26)


@pytest.fixture
def go_files(tmp_path: Path) -> Path:
    copied = tmp_path / "go"
    shutil.copytree(GO_FILES, copied)
    return copied


@pytest.mark.parametrize("version", ["1.35", "abc", "1.35.4.1"])
def test_a_version_that_is_not_full_is_refused(version: str) -> None:
    with pytest.raises(VersionError, match=rf"^got version '{re.escape(version)}', want a full one like 1.35.4; built here: "):
        module_of(version)


def test_the_key_is_the_same_wherever_the_recipe_lies(go_files: Path) -> None:
    assert recipe_key(GO, go_files=go_files) == recipe_key(GO)


@pytest.mark.parametrize("file", [f"{module}/{name}" for module in MODULES for name in ("go.mod", "go.sum")])
def test_the_key_changes_with_one_byte_of_any_file(go_files: Path, file: str) -> None:
    path = go_files / file
    path.write_bytes(path.read_bytes() + b"\n")

    assert recipe_key(GO, go_files=go_files) != recipe_key(GO)


def test_the_key_changes_with_a_new_file_and_with_a_moved_one(go_files: Path) -> None:
    (go_files / "kwok" / "a.go").write_text("package kwok\n")
    with_a = recipe_key(GO, go_files=go_files)
    (go_files / "kwok" / "a.go").rename(go_files / "kwok" / "b.go")
    with_b = recipe_key(GO, go_files=go_files)

    assert len({recipe_key(GO), with_a, with_b}) == 3


def test_the_key_changes_with_the_minor_version_of_go() -> None:
    assert recipe_key((1, 26)) != recipe_key((1, 27))


def test_the_stamped_version_is_the_one_that_go_mod_requires(go_files: Path) -> None:
    path = go_files / "kubernetes" / "go.mod"
    path.write_text(path.read_text().replace("k8s.io/kubernetes v1.36.3", "k8s.io/kubernetes v1.99.7"))

    assert "version.gitVersion=v1.99.7 " in ldflags(go_files / "kubernetes")
    assert "version.gitMinor=99 " in ldflags(go_files / "kubernetes")


def test_another_version_of_kubernetes_has_a_key_of_its_own_and_changes_no_other(go_files: Path) -> None:
    shutil.copytree(go_files / "kubernetes", go_files / "kubernetes-1.99.7")
    other = go_files / "kubernetes-1.99.7" / "go.mod"
    other.write_text(other.read_text().replace("k8s.io/kubernetes v1.36.3", "k8s.io/kubernetes v1.99.7"))

    assert recipe_key(GO, go_files=go_files) == recipe_key(GO)
    assert recipe_key(GO, go_files=go_files, module=other.parent) != recipe_key(GO)


def test_every_target_is_a_tool_of_its_module() -> None:
    for target in TARGETS:
        assert target.package in (GO_FILES / target.module / "go.mod").read_text().split("require (")[0]


def test_a_module_that_is_not_required_is_named() -> None:
    with pytest.raises(ValueError, match=r"requires no example\.com/x"):
        required_version("module m\n\nrequire example.com/xy v1.0.0\n", "example.com/x")
