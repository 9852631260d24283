"""The page on the library: its examples run as they stand where only the wheels are, and a strict checker understands them."""

import doctest
import shutil
import sys
from pathlib import Path

import pytest

from tests.packaging.conftest import ROOT, Install, run
from tests.support.library_page import examples

PAGE = ROOT / "docs" / "library.md"


@pytest.fixture(scope="module")
def python(install: Install) -> Path:
    return install(Path(sys.executable), ["slackwater"]) / "python"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for path in (PAGE, ROOT / "docs" / "guides" / "shop.yaml", ROOT / "tests" / "support" / "library_page.py"):
        shutil.copy(path, tmp_path)
    return tmp_path


def test_the_examples_run_as_they_stand_with_the_installed_wheels(python: Path, folder: Path) -> None:
    done = run(python, "library_page.py", "library.md", cwd=folder)
    assert done.stdout.endswith(" examples\n")
    where = run(python, "-c", "import slackwater; print(slackwater.__file__)", cwd=folder).stdout
    assert "site-packages" in where
    assert str(ROOT) not in where


def test_a_strict_checker_understands_them(python: Path, folder: Path) -> None:
    sources = [example.source for example in doctest.DocTestParser().get_examples(examples(PAGE))]
    (folder / "page.py").write_text("".join(sources) + "cluster.scale_up().groups[0].new_nodse\n")
    checked = run(
        Path(sys.executable).with_name("mypy"),
        *("--strict", "--python-executable", python, "--cache-dir", folder / "cache", "page.py"),
        cwd=folder,
        check=False,
    )
    (wrong, found) = checked.stdout.splitlines()
    assert '"GroupScaleUp" has no attribute "new_nodse"; maybe "new_nodes"?' in wrong
    assert found.startswith("Found 1 error")
