"""Debian's packages: downloaded and checked by mmdebstrap, unpacked without their maintainer scripts.

mmdebstrap knows Debian's archive, its keys and its security updates; this module names no server. What comes out is a folder
that becomes the first layer.
"""

import hashlib
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from deploy.image import recipe

#: `python3`, which a package of its own has in Debian.
_LINK: Final = Path(recipe.INTERPRETER).with_name("python3").relative_to("/")


class RecipeWrong(Exception):
    """The recipe and what Debian has do not agree; says which line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """One downloaded package; `control` is its control file."""

    name: str
    version: str
    file: Path
    control: str


def download(folder: Path, *, mirror: Sequence[str] = ()) -> tuple[Package, ...]:
    """All packages of the recipe and what they depend on, sorted by name, without those that are left out.

    Without a mirror they are Debian's newest, security updates included. CalledProcessError if mmdebstrap fails, RecipeWrong if
    a package that is left out does not come.
    """
    out = f'copy-out /var/cache/apt/archives "{folder}"'
    asked = f"--include={','.join(recipe.PACKAGES)}"
    command = ["mmdebstrap", "--quiet", "--variant=extract", "--format=null", asked, f"--extract-hook={out}"]
    subprocess.run([*command, recipe.SUITE, "/dev/null", *mirror], check=True)
    found = {package.name: package for package in map(_read, sorted((folder / "archives").glob("*.deb")))}
    if absent := sorted(recipe.LEFT_OUT.keys() - found.keys()):
        raise RecipeWrong(f"LEFT_OUT: nothing depends on {', '.join(absent)}")
    return tuple(found[name] for name in sorted(found.keys() - recipe.LEFT_OUT.keys()))


def _read(file: Path) -> Package:
    control = subprocess.run(["dpkg-deb", "--field", file], check=True, capture_output=True, text=True).stdout
    fields = dict(line.split(": ", 1) for line in control.splitlines() if ": " in line and not line.startswith(" "))
    return Package(name=fields["Package"], version=fields["Version"], file=file, control=control)


def unpack(packages: Sequence[Package], root: Path) -> None:
    """Fills `root` with the packages' files but those that are dropped, and with one status file for each package.

    Scanners read the status files in `/var/lib/dpkg/status.d`, as in other images without dpkg. RecipeWrong if a pattern
    matches nothing.
    """
    root.mkdir()
    unused = set(recipe.DROPPED)
    status = root / "var/lib/dpkg/status.d"
    for package in packages:
        with tempfile.TemporaryDirectory(dir=root.parent) as own:
            subprocess.run(["dpkg-deb", "--extract", package.file, own], check=True)
            unused -= _drop(Path(own))
            subprocess.run(["cp", "--archive", "--no-target-directory", own, root], check=True)
        status.mkdir(parents=True, exist_ok=True)
        (status / package.name).write_text(f"{package.control.rstrip()}\nX-Slackwater-Sha256: {_sha256(package.file)}\n")
    if unused:
        raise RecipeWrong(f"DROPPED: no file matches {', '.join(sorted(unused))}")
    (root / _LINK).symlink_to(Path(recipe.INTERPRETER).name)
    for name, text in recipe.FILES.items():
        (root / name).write_text(text)


def _drop(root: Path) -> set[str]:
    """Removes files that match a pattern and folders that are empty afterwards; the patterns that matched."""
    used: set[str] = set()
    for path in [path for path in root.rglob("*") if path.is_symlink() or not path.is_dir()]:
        name = path.relative_to(root).as_posix()
        if matching := {pattern for pattern in recipe.DROPPED if fnmatchcase(name, pattern)}:
            used |= matching
            path.unlink()
            _remove_empty(path.parent, root)
    return used


def _remove_empty(folder: Path, root: Path) -> None:
    while folder != root and not any(folder.iterdir()):
        folder.rmdir()
        folder = folder.parent


def _sha256(file: Path) -> str:
    with file.open("rb") as read:
        return hashlib.file_digest(read, "sha256").hexdigest()
