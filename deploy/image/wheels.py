"""Wheels: those of others as the lock file has them, ours as `make dist` builds them; and the bytecode of both.

Everything is installed for the image's Python, not for the one that runs this. Invariant: each wheel of others is in
requirements.lock with this version, and its file has one of the hashes there.
"""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from configparser import ConfigParser
from pathlib import Path
from typing import Final

from deploy.image import recipe

_SCRIPT: Final = """\
#!{interpreter}
import sys

from {module} import {function}

if __name__ == "__main__":
    sys.exit({function}())
"""


class NotLocked(Exception):
    """Something was installed that the lock file does not have."""


def only_version(wheels: Path) -> str:
    """The version of our wheels in a folder. LookupError unless there is exactly one."""
    found = sorted({path.name.split("-")[1] for path in wheels.glob(f"{recipe.DISTRIBUTIONS[0]}-*.whl")})
    if len(found) != 1:
        raise LookupError(f"{wheels}: has our wheels of versions {found}, want one; `make dist` builds them, --version chooses")
    return found[0]


def of_version(wheels: Path, version: str) -> dict[str, Path]:
    """Our wheels of that version by distribution. FileNotFoundError if one is missing."""
    found = {name: wheels / f"{name}-{version}-py3-none-any.whl" for name in recipe.DISTRIBUTIONS}
    for path in found.values():
        if not path.is_file():
            raise FileNotFoundError(f"{path} is missing: `make dist` builds it")
    return found


def install_others(site: Path, *, wheels: Path, version: str, lock: Path, architecture: str) -> None:
    """Installs what our wheels need into `site`. CalledProcessError if a hash is wrong, NotLocked for what is not locked."""
    place: list[str | Path] = ["--target", site, "--python-version", recipe.PYTHON]
    place += ["--python-platform", f"{recipe.ARCHITECTURES[architecture]}-manylinux_{recipe.GLIBC}"]
    sources: list[str | Path] = ["--find-links", wheels, "--constraint", lock, "--only-binary", ":all:"]
    command: list[str | Path] = [_uv(), "pip", "install", "--quiet", "--no-config", "--link-mode", "copy", *place, *sources]
    subprocess.run([*command, f"slackwater[{recipe.EXTRAS}]=={version}"], check=True)
    for name in recipe.DISTRIBUTIONS:  # `install_ours` puts them into a layer of their own
        shutil.rmtree(site / name)
        shutil.rmtree(site / f"{name}-{version}.dist-info")
    _remove_services(site)
    _remove_commands(site)
    (site / ".lock").unlink(missing_ok=True)  # uv's own
    if strange := sorted(set(installed(site)) - set(_locked(lock))):
        raise NotLocked(f"not in {lock.name}: {', '.join(f'{name} {number}' for name, number in strange)}")


def _remove_commands(site: Path) -> None:
    """Removes the commands of others. They name this machine's Python, and the lists of installed files have their hashes."""
    shutil.rmtree(site / "bin", ignore_errors=True)
    _forget_files(site, lambda name: name.startswith("bin/"))


def _remove_services(site: Path) -> None:
    """Removes the models of AWS' services that nothing here calls: nearly all of botocore's 31 MB."""
    data = site / "botocore" / "data"
    gone = {folder.name for folder in data.iterdir() if folder.is_dir() and folder.name not in recipe.AWS_SERVICES}
    for name in gone:
        shutil.rmtree(data / name)
    _forget_files(site, lambda name: name.startswith("botocore/data/") and name.split("/")[2] in gone)


def _forget_files(site: Path, is_gone: Callable[[str], bool]) -> None:
    """Takes files out of the lists of installed files, whose lines begin with their names."""
    for record in site.glob("*.dist-info/RECORD"):
        lines = record.read_text().splitlines(keepends=True)
        record.write_text("".join(line for line in lines if not is_gone(line.partition(",")[0])))


def _uv() -> str:
    beside = Path(sys.executable).with_name("uv")
    return str(beside) if beside.exists() else "uv"


def installed(site: Path) -> Iterator[tuple[str, str]]:
    """Name and version of each distribution in a folder."""
    for folder in sorted(site.glob("*.dist-info")):
        name, _, number = folder.name.removesuffix(".dist-info").rpartition("-")
        yield _normalized(name), number


def _locked(lock: Path) -> Iterator[tuple[str, str]]:
    for name, number in re.findall(r"^([\w.-]+)==([^ ;\\]+)", lock.read_text(), re.MULTILINE):
        yield _normalized(name), number


def _normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def install_ours(root: Path, wheels: dict[str, Path]) -> None:
    """Unpacks our wheels, which are pure Python, and writes their commands."""
    site, scripts = root / recipe.SITE, root / recipe.SCRIPTS
    scripts.mkdir(parents=True)
    for path in wheels.values():
        with zipfile.ZipFile(path) as wheel:
            wheel.extractall(site)
    entry_points = ConfigParser()
    entry_points.read(next(site.glob("slackwater-*.dist-info")) / "entry_points.txt")
    for name, target in entry_points["console_scripts"].items():
        module, _, function = target.partition(":")
        script = scripts / name
        script.write_text(_SCRIPT.format(interpreter=recipe.INTERPRETER, module=module, function=function))
        script.chmod(0o755)


def compile_all(folder: Path, *, root: Path, base: Path, architecture: str) -> None:
    """Compiles a folder of the layer `root` with the image's own Python, whose layer is `base`.

    It runs by the image's own loader, which needs no chroot and so no rights. Bytecode is not compared with its source at run
    time: nobody changes files of an image. With a fixed hash seed and one process the result is always the same.
    """
    libraries = f"usr/lib/{recipe.ARCHITECTURES[architecture]}-linux-gnu"
    (loader,) = (path for path in (base / "usr").rglob("ld-linux-*") if not path.is_symlink() and path.parent.name != "doc")
    python: list[str | Path] = [loader, "--library-path", base / libraries, base / recipe.INTERPRETER.lstrip("/")]
    # -e: a link that leads out of the layer would lead to a file of this machine.
    how: list[str | Path] = ["-q", "--invalidation-mode", "unchecked-hash", "-e", root, "-s", root, "-p", "/"]
    environ = {"PYTHONHASHSEED": "0", "PATH": os.environ["PATH"]}
    subprocess.run([*python, "-B", "-S", "-m", "compileall", *how, folder], check=True, env=environ)
