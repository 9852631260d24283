"""Layers: a folder as a tar archive that depends on the files' names, bytes and rights alone.

Owner, times and order are fixed, so the same content is the same archive whoever builds it, when and where.
"""

import hashlib
import stat
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from deploy.image import recipe

#: Rights that files and folders may have; everything else is rounded down to one of them.
_FILE, _PROGRAM, _FOLDER, _FOR_ALL = 0o644, 0o755, 0o755, 0o1777
_BLOCK: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """A compressed archive: what is in it in words, its file, digest and size, and the digest of the archive uncompressed."""

    content: str
    file: Path
    digest: str
    size: int
    diff_id: str


def write(folder: Path, file: Path, *, content: str) -> Layer:
    """Writes a folder as `file`. ValueError for a file that runs with its owner's rights: the image has none."""
    pack = ["gzip", "--no-name", "-6"]  # the program, since its output is the same on every machine; zlib's is not
    with file.open("wb") as compressed, subprocess.Popen(pack, stdin=subprocess.PIPE, stdout=compressed) as gzip:
        assert gzip.stdin is not None
        with gzip.stdin as into, tarfile.open(fileobj=into, mode="w|", format=tarfile.PAX_FORMAT) as archive:
            for path in sorted(folder.rglob("*")):
                _add(archive, path, path.relative_to(folder).as_posix())
    if gzip.returncode != 0:
        raise subprocess.CalledProcessError(gzip.returncode, pack)
    uncompressed = hashlib.sha256()
    with subprocess.Popen(["gzip", "--decompress", "--stdout", file], stdout=subprocess.PIPE) as reading:
        assert reading.stdout is not None
        while block := reading.stdout.read(_BLOCK):
            uncompressed.update(block)
    with file.open("rb") as read:
        digest = hashlib.file_digest(read, "sha256").hexdigest()
    return Layer(content=content, file=file, digest=digest, size=file.stat().st_size, diff_id=uncompressed.hexdigest())


def _add(archive: tarfile.TarFile, path: Path, name: str) -> None:
    entry = archive.gettarinfo(path, name)
    if entry.mode & (stat.S_ISUID | stat.S_ISGID) and entry.isfile():
        raise ValueError(f"/{name} would run with its owner's rights")
    if entry.islnk():  # the same file under two names: as two files
        entry.type, entry.linkname, entry.size = tarfile.REGTYPE, "", path.stat().st_size
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mtime = recipe.TIME
    entry.mode = _rights(entry)
    if entry.isfile():
        with path.open("rb") as content:
            archive.addfile(entry, content)
    else:
        archive.addfile(entry)


def _rights(entry: tarfile.TarInfo) -> int:
    if entry.issym():
        return 0o777
    if entry.isdir():
        return _FOR_ALL if entry.mode & stat.S_ISVTX else _FOLDER
    return _PROGRAM if entry.mode & stat.S_IXUSR else _FILE
