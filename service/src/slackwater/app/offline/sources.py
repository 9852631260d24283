"""The texts of which a cluster is read: a file, stdin or a folder, as people have them.

    contents("dump/")       # each .json, .yaml and .yml of the folder, in the order of their paths
    contents("all.json.gz")

`kubectl cluster-info dump` writes lists one after the other with logs between them, or a folder with `--output-directory`;
must-gather writes a folder.
"""

import gzip
import os
import re
import sys
import zlib
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterator
from io import BytesIO
from json import JSONDecodeError, JSONDecoder
from pathlib import Path
from typing import Final

import msgspec

from slackwater.app.offline.objects import ClusterError

#: The most bytes of a text, and of all texts of a folder. 150,000 pods as a real API server returns them take about 700 MB.
LARGEST_FILE: Final = 1 << 31
_GZIP: Final = b"\x1f\x8b"
_SUFFIXES: Final = frozenset({".json", ".yaml", ".yml"})
#: Logs without an end (the group is None) go on to the end of the text: to look for one from each START takes quadratic time.
_LOGS: Final = re.compile(rb"^==== START logs .*?(?:^==== END logs ([^\n]*)$|\Z)", re.DOTALL | re.MULTILINE)


def contents(path: str) -> Iterator[tuple[str, bytes]]:
    """Yields each text with its file's path below a folder, "" for a single one; `-` is stdin. Raises `ClusterError`."""
    if not path:  # a variable of a shell that is not set; Path("") would be the present folder
        raise ClusterError("the file", "", "got an empty name, want a file, a folder, or - for stdin")
    folder = Path(path)
    if path == "-" or not folder.is_dir():
        yield "", file_bytes(path)
        return
    files = sorted(each for each in folder.rglob("*") if _is_read(each))
    if not files:
        raise ClusterError("the folder", "", "got no .json, .yaml or .yml file, want what kubectl cluster-info dump writes")
    most = LARGEST_FILE
    for each in files:
        place = str(each.relative_to(folder))
        try:
            data = file_bytes(str(each), most)
        except ClusterError as err:
            raise ClusterError(place, err.name, err.problem) from err
        most -= len(data)
        yield place, data


def _is_read(path: Path) -> bool:
    return path.is_file() and path.with_name(path.name.removesuffix(".gz")).suffix in _SUFFIXES


def file_bytes(path: str, most: int = LARGEST_FILE) -> bytes:
    """The content of a file, or of stdin if `path` is `-`, in UTF-8; unpacked if it is compressed with gzip. Raises
    `ClusterError` if it cannot be read or has more than `most` bytes."""
    try:
        if path == "-":
            data = sys.stdin.buffer.read(most + 1)
        else:
            with Path(path).open("rb") as file:
                # Each read with a huge limit keeps a memory mapping, of which Linux allows a process 65,530.
                known = 0 < os.fstat(file.fileno()).st_size <= most
                data = file.read() if known else file.read(most + 1)
        if data.startswith(_GZIP):
            # One byte more than is allowed at most, so that a small file that unpacks to a huge one stays harmless.
            data = gzip.GzipFile(fileobj=BytesIO(data)).read(most + 1)
    except OSError as err:
        raise ClusterError("the file", "", f"cannot be read: {err.strerror or err}") from err
    except (EOFError, zlib.error) as err:
        raise ClusterError("the file", "", f"compressed with gzip, and cannot be unpacked: {err}") from err
    if len(data) > most:
        whole = "" if most == LARGEST_FILE else " with the files before it"
        raise ClusterError("the file", "", f"more than {LARGEST_FILE} bytes{whole}")
    return _in_utf8(data)


def _in_utf8(data: bytes) -> bytes:
    """The text without its byte order mark: Windows' PowerShell writes UTF-16, and some editors a mark."""
    if data.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        try:
            return data.decode("utf-16").encode()
        except UnicodeError as err:
            raise ClusterError("the file", "", f"begins as UTF-16, and cannot be decoded: {err}") from err
    return data.removeprefix(BOM_UTF8)


def json_texts(data: bytes) -> list[msgspec.Raw]:
    """Several JSON texts one after the other, as `kubectl cluster-info dump` writes them; the items of one that is a list.
    Raises ValueError."""
    text, found, at = _LOGS.sub(lambda logs: logs[0] if logs[1] is None else b"", data).decode(), list[msgspec.Raw](), 0
    decoder = JSONDecoder()
    while (at := _next(text, at)) < len(text):
        try:
            _, end = decoder.raw_decode(text, at)
        except JSONDecodeError as err:
            raise ValueError(f"JSON text {len(found) + 1}: {err}") from err
        raw = msgspec.Raw(text[at:end].encode())
        found += msgspec.json.decode(raw, type=list[msgspec.Raw]) if text[at] == "[" else [raw]
        at = end
    return found


def _next(text: str, at: int) -> int:
    """Where the next text begins."""
    while at < len(text) and (text[at].isspace() or text[at] == "\ufeff"):  # files that were put together keep their marks
        at += 1
    return at
