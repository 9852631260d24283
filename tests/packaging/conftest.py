"""The two wheels, as `make dist` builds them, and virtual environments that have nothing but them and what they depend on."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
UV: Final = Path(sys.executable).with_name("uv")
_DEADLINE_SECONDS: Final = 240.0

#: (Python, what is installed) -> the `bin` of an environment with just that.
Install = Callable[[Path, Sequence[str]], Path]


def run(*command: str | Path, cwd: Path | None = None, check: bool = True) -> subprocess.CompletedProcess[str]:
    """A command in an environment that knows nothing of this repository."""
    environ = {key: value for key, value in os.environ.items() if key not in {"PYTHONPATH", "VIRTUAL_ENV"}}
    return subprocess.run(command, cwd=cwd, env=environ, capture_output=True, text=True, timeout=_DEADLINE_SECONDS, check=check)


def interpreter(version: str) -> Path | None:
    """A Python of that minor version on this machine, if there is one that runs."""
    named = shutil.which(f"python{version}")
    for path in (
        *((Path(named),) if named else ()),
        *sorted((Path.home() / ".pyenv/versions").glob(f"{version}.*/bin/python")),
    ):
        asked = run(path, "-c", "import sys; print('%d.%d' % sys.version_info[:2], sys.executable)", check=False)
        if asked.returncode == 0 and asked.stdout.startswith(f"{version} "):
            return Path(asked.stdout.split(maxsplit=1)[1].strip())
    return None


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of both."""
    folder = tmp_path_factory.mktemp("dist")
    run("make", "dist", f"DIST={folder}", cwd=ROOT)
    return folder


@pytest.fixture(scope="session")
def constraints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The versions of the lock file, of what others make."""
    path = tmp_path_factory.mktemp("lock") / "constraints.txt"
    lock = (ROOT / "requirements.lock").read_text()
    path.write_text("\n".join(re.findall(r"^([\w.-]+==[^ ;\\]+(?: ;[^\\]+)?)", lock, re.MULTILINE)))
    return path


@pytest.fixture(scope="session")
def install(wheels: Path, constraints: Path, tmp_path_factory: pytest.TempPathFactory) -> Install:
    """Environments with the versions of the lock file. Tests that ask for the same share one: its first use compiles a thousand
    modules."""
    folder = tmp_path_factory.mktemp("environments")
    made: dict[tuple[Path, tuple[str, ...]], Path] = {}

    def make(python: Path, packages: Sequence[str]) -> Path:
        key = python.resolve(), tuple(packages)
        if key not in made:
            place = folder / str(len(made))
            run(UV, "venv", "--quiet", "--no-project", "--python", python, place)
            into: list[str | Path] = ["--python", place / "bin" / "python", "--constraint", constraints, "--find-links", wheels]
            run(UV, "pip", "install", "--quiet", *into, *packages, cwd=folder)
            made[key] = place / "bin"
        return made[key]

    return make
