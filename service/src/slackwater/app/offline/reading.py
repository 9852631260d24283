"""A cluster's file -> documents: JSON as `kubectl -o json` writes it, or YAML, with one document or several."""

import sys
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from slackwater.app.offline.cluster import Cluster, ClusterError, read_cluster

#: 150,000 pods with everything that a real API server says of them are about 700 MB.
LARGEST_FILE: Final = 1 << 31
_STRING: Final = "tag:yaml.org,2002:str"
_BASE: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
#: Times stay text, as the API has them.
_RESOLVERS: Final = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in _BASE.yaml_implicit_resolvers.items()
}
_LOADER: Final[Any] = type("_Loader", (_BASE,), {"yaml_implicit_resolvers": _RESOLVERS})


def load_cluster(path: str) -> Cluster:
    """The cluster of a file, or of stdin for `-`. Raises `ClusterError`."""
    return read_cluster(*documents(file_bytes(path)))


def documents(data: bytes) -> list[object]:
    """Every document of a text; empty ones are left out. Raises `ClusterError`."""
    if data.lstrip()[:1] == b"{":
        try:
            return [msgspec.json.decode(data)]
        except msgspec.DecodeError as err:
            json_problem = err
    else:
        json_problem = None
    try:
        found = [document for document in yaml.load_all(data, _LOADER) if document is not None]
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError) as err:
        problem = json_problem or err
        raise ClusterError("the file", "", f"neither JSON nor YAML: {' '.join(str(problem).split())}") from err
    if not found:
        raise ClusterError("the file", "", "it is empty, want a list of objects")
    return found


def file_bytes(path: str) -> bytes:
    """What is in a file, or comes from stdin for `-`. Raises `ClusterError`."""
    try:
        if path == "-":
            data = sys.stdin.buffer.read(LARGEST_FILE + 1)
        else:
            with Path(path).open("rb") as file:
                data = file.read(LARGEST_FILE + 1)
    except OSError as err:
        raise ClusterError("the file", "", f"cannot be read: {err.strerror or err}") from err
    if len(data) > LARGEST_FILE:
        raise ClusterError("the file", "", f"more than {LARGEST_FILE} bytes")
    return data
