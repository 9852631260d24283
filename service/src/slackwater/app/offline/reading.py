"""Reads a cluster's file: JSON as `kubectl -o json` writes it, or YAML with one or several documents."""

import sys
from pathlib import Path
from typing import Final

import msgspec

from slackwater.adapters.kube.yamltext import YamlProblem, json_documents
from slackwater.app.offline.cluster import Cluster, read_cluster
from slackwater.app.offline.objects import ClusterError
from slackwater.app.offline.shape import NESTED_TOO_DEEPLY

#: The largest file in bytes. 150,000 pods as a real API server returns them take about 700 MB.
LARGEST_FILE: Final = 1 << 31
#: A file is taken for JSON if its first non-space character is "{"; it is looked for in this many bytes.
_START: Final = 4096


def load_cluster(path: str) -> Cluster:
    """Reads and decodes the cluster of a file, or of stdin if `path` is `-`. Raises `ClusterError`."""
    return read_cluster(*documents(file_bytes(path)))


def documents(data: bytes) -> list[msgspec.Raw]:
    """The documents of a JSON or YAML file as JSON text, without empty ones. Raises `ClusterError`."""
    json_problem = None
    if data[:_START].lstrip().startswith(b"{"):
        try:
            return [msgspec.json.decode(data, type=msgspec.Raw)]
        except RecursionError as err:
            raise ClusterError("the file", "", NESTED_TOO_DEEPLY) from err
        except ValueError as err:
            json_problem = err
    try:
        found = [msgspec.Raw(document) for document in json_documents(data)]
    except YamlProblem as err:
        raise ClusterError("the file", "", f"neither JSON nor YAML: {json_problem or err}") from err
    if not found:
        raise ClusterError("the file", "", "it is empty, want a list of objects")
    return found


def file_bytes(path: str) -> bytes:
    """The content of a file, or of stdin if `path` is `-`. Raises `ClusterError` if it cannot be read or is too large."""
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
