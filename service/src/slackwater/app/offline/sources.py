"""The texts of which a cluster is read: a file, stdin or a folder, as people have them.

    contents("dump/")       # each .json, .yaml and .yml of the folder, in the order of their paths
    contents("all.json.gz")

`kubectl cluster-info dump` writes lists one after the other with logs between them, or a folder with `--output-directory`;
must-gather writes a folder.
"""

import gzip
import re
import sys
import zlib
from collections.abc import Iterator
from io import BytesIO
from json import JSONDecodeError, JSONDecoder
from pathlib import Path
from typing import Final

import msgspec

from slackwater.app.offline.objects import ClusterError

#: The largest text in bytes. 150,000 pods as a real API server returns them take about 700 MB.
LARGEST_FILE: Final = 1 << 31
_GZIP: Final = b"\x1f\x8b"
_SUFFIXES: Final = frozenset({".json", ".yaml", ".yml"})
_LOGS: Final = re.compile(rb"^==== START logs .*?^==== END logs [^\n]*$", re.DOTALL | re.MULTILINE)


def contents(path: str) -> Iterator[tuple[str, bytes]]:
    """Yields each text with its file's path below a folder, "" for a single one; `-` is stdin. Raises `ClusterError`."""
    folder = Path(path)
    if path == "-" or not folder.is_dir():
        yield "", file_bytes(path)
        return
    files = sorted(each for each in folder.rglob("*") if _is_read(each))
    if not files:
        raise ClusterError("the folder", "", "got no .json, .yaml or .yml file, want what kubectl cluster-info dump writes")
    for each in files:
        yield str(each.relative_to(folder)), file_bytes(str(each))


def _is_read(path: Path) -> bool:
    return path.is_file() and path.with_name(path.name.removesuffix(".gz")).suffix in _SUFFIXES


def file_bytes(path: str) -> bytes:
    """The content of a file, or of stdin if `path` is `-`; unpacked if it is compressed with gzip. Raises `ClusterError` if it
    cannot be read or is too large."""
    try:
        if path == "-":
            data = sys.stdin.buffer.read(LARGEST_FILE + 1)
        else:
            with Path(path).open("rb") as file:
                data = file.read(LARGEST_FILE + 1)
        if data.startswith(_GZIP):
            # One byte more than is allowed at most, so that a small file that unpacks to a huge one stays harmless.
            data = gzip.GzipFile(fileobj=BytesIO(data)).read(LARGEST_FILE + 1)
    except OSError as err:
        raise ClusterError("the file", "", f"cannot be read: {err.strerror or err}") from err
    except (EOFError, zlib.error) as err:
        raise ClusterError("the file", "", f"compressed with gzip, and cannot be unpacked: {err}") from err
    if len(data) > LARGEST_FILE:
        raise ClusterError("the file", "", f"more than {LARGEST_FILE} bytes")
    return data


def json_texts(data: bytes) -> list[msgspec.Raw]:
    """Several JSON texts one after the other, as `kubectl cluster-info dump` writes them; the items of one that is a list.
    Raises ValueError."""
    text, found, at = _LOGS.sub(b"", data).decode(), list[msgspec.Raw](), 0
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
    while at < len(text) and text[at].isspace():
        at += 1
    return at
