"""`python -m deploy.krew --url URL --into DIR`: writes the archive for krew and its manifest `slackwater.yaml`.

Both follow from the version and the files of this folder alone, so the same commit gives the same bytes. `--url` is the folder
of the release's files, from where krew will fetch the archive.
"""

import argparse
import gzip
import io
import sys
import tarfile
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import yaml

from deploy.version import as_chart
from slackwater import __version__

_HERE: Final = Path(__file__).parent
_ROOT: Final = _HERE.parents[1]
_PROGRAM: Final = "kubectl-slackwater"
_DESCRIPTION: Final = """\
Says why a pod is pending, why a workload is short of pods, what removing a node
would do, what happened at a time and what a team costs. It asks Slackwater, a
companion of kube-scheduler, where that runs in the cluster, and else reads the
cluster's objects itself.
"""
_CAVEATS: Final = """\
It runs the program of the Python package slackwater: one that is installed, or
one that uv or pipx fetches. Python 3.11 or newer has to be there.
"""


def archive() -> bytes:
    """The archive: the program for this version, and the licence."""
    program = (_HERE / _PROGRAM).read_bytes().replace(b"@VERSION@", __version__.encode())
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as zipped, tarfile.open(fileobj=zipped, mode="w") as tar:
        for name, data, mode in ((_PROGRAM, program, 0o755), ("LICENSE", (_ROOT / "LICENSE").read_bytes(), 0o644)):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), mode
            tar.addfile(entry, io.BytesIO(data))
    return packed.getvalue()


def archive_name() -> str:
    return f"{_PROGRAM}-{__version__}.tar.gz"


def manifest(url: str) -> dict[str, Any]:
    """krew's manifest of the plug-in, whose archive lies in the folder `url`."""
    platform = {
        "selector": {"matchExpressions": [{"key": "os", "operator": "In", "values": ["darwin", "linux"]}]},
        "uri": f"{url.rstrip('/')}/{archive_name()}",
        "sha256": sha256(archive()).hexdigest(),
        "files": [{"from": _PROGRAM, "to": "."}, {"from": "LICENSE", "to": "."}],
        "bin": _PROGRAM,
    }
    return {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "slackwater"},
        "spec": {
            "version": f"v{as_chart(__version__)}",
            "shortDescription": "Why pods wait, nodes stay and teams pay",
            "description": _DESCRIPTION,
            "caveats": _CAVEATS,
            "platforms": [platform],
        },
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m deploy.krew", description=__doc__)
    parser.add_argument("--url", required=True, help="the folder of the release's files, https://...")
    parser.add_argument("--into", required=True, type=Path, help="the folder to write into")
    args = parser.parse_args(arguments)
    if not args.url.startswith("https://"):
        print(f"--url: got {args.url}, want https://...", file=sys.stderr)
        return 2
    args.into.mkdir(parents=True, exist_ok=True)
    (args.into / archive_name()).write_bytes(archive())
    (args.into / "slackwater.yaml").write_text(yaml.safe_dump(manifest(args.url), sort_keys=False))
    return 0


if __name__ == "__main__":
    sys.exit(main())
