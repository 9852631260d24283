"""`python -m deploy.image`: builds the container image as an OCI layout, or its root file system as a folder.

Needs mmdebstrap, dpkg-deb, gzip, and uv beside this Python or on the PATH. Exit status: 0, 1 with what is wrong on stderr.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from deploy.image import build, debian, wheels

_ROOT = Path(__file__).parents[2]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m deploy.image", description=__doc__)
    parser.add_argument("--into", type=Path, required=True, metavar="FOLDER", help="what is built; replaced if it is there")
    parser.add_argument("--version", help="of our wheels; needed where the folder has several")
    parser.add_argument("--wheels", type=Path, default=Path("dist"), metavar="FOLDER", help="with our wheels (default: dist)")
    parser.add_argument("--lock", type=Path, default=_ROOT / "requirements.lock", metavar="FILE")
    parser.add_argument("--mirror", action="append", default=[], metavar="URL", help="a Debian mirror, such as a snapshot's")
    parser.add_argument("--revision", default="", help="commit that the image is labelled with")
    parser.add_argument("--rootfs", action="store_true", help="the root file system as a folder instead, for deploy/Dockerfile")
    given = parser.parse_args(arguments)
    try:
        return _run(given)
    except (debian.RecipeWrong, wheels.NotLocked, LookupError, OSError, ValueError, subprocess.CalledProcessError) as err:
        print(f"no image: {err}", file=sys.stderr)
        return 1


def _run(given: argparse.Namespace) -> int:
    version = given.version or wheels.only_version(given.wheels)
    inputs = build.Inputs(
        wheels=given.wheels, version=version, lock=given.lock, architecture=build.architecture(), mirror=given.mirror
    )
    if missing := [name for name in ("mmdebstrap", "dpkg-deb", "gzip") if shutil.which(name) is None]:
        raise FileNotFoundError(f"{', '.join(missing)} not found: Debian's and Ubuntu's packages have them")
    if given.rootfs:
        _rootfs(given.into, inputs)
        return 0
    created = os.environ.get("SOURCE_DATE_EPOCH", "")
    if not created.isdigit():
        raise ValueError("SOURCE_DATE_EPOCH: want seconds, so that the image says when it was made and is the same next time")
    print(build.image(given.into, inputs, created=int(created), revision=given.revision))
    return 0


def _rootfs(into: Path, inputs: build.Inputs) -> None:
    """By way of the layers, so that owners, rights and times are those of the image."""
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="slackwater-image-") as work:
        for folder in build.fill(Path(work), inputs):
            packed = build.pack(folder)
            subprocess.run(["tar", "--extract", "--gzip", "--file", packed.file, "--directory", into], check=True)


if __name__ == "__main__":
    sys.exit(main())
