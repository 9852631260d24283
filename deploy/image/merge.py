"""`python -m deploy.image.merge`: one image for several architectures, from OCI layouts that were built on each.

Flows through: layouts as `deploy.image` writes them -> one layout with all their blobs and an index that names each
architecture's manifest. The same layouts in any order give the same bytes. Deliberately absent: registries; `skopeo copy --all`
pushes what comes out.
"""

import argparse
import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from deploy.image import oci

Entry = dict[str, Any]


class NotOneImage(Exception):
    """The layouts do not belong together; says which and why."""


def merge(into: Path, layouts: Sequence[Path], *, version: str) -> str:
    """Writes the layout of all architectures, replacing what is there. Returns the digest of its index.

    NotOneImage for a layout of another version or commit, for one that is merged already, and for two of one architecture.
    """
    found: dict[str, tuple[Path, Entry]] = {}
    for layout in layouts:
        entry = _only(layout, version)
        architecture = entry["platform"]["architecture"]
        if architecture in found:
            raise NotOneImage(
                f"{layout} and {found[architecture][0]} are both of {architecture}, want one of each architecture"
            )
        found[architecture] = layout, entry
    if len(commits := {_annotations(*each).get(oci.REVISION, "") for each in found.values()}) > 1:
        raise NotOneImage(f"built from the commits {sorted(commits)}, want one")
    shutil.rmtree(into, ignore_errors=True)
    for layout in layouts:
        shutil.copytree(layout / "blobs", into / "blobs", dirs_exist_ok=True)
    return oci.write_index(into, [entry for _, (_, entry) in sorted(found.items())], version=version)


def _only(layout: Path, version: str) -> Entry:
    entries: list[Entry] = json.loads((layout / "index.json").read_text())["manifests"]
    match entries:
        case [{"platform": _, "annotations": {oci.REFERENCE: said}} as entry] if said == version:
            return entry
        case [{"platform": _, "annotations": {oci.REFERENCE: said}}]:
            raise NotOneImage(f"{layout} is of version {said}, want {version}")
        case _:
            raise NotOneImage(f"{layout}: want one image of one architecture, as `make image` builds it")


def _annotations(layout: Path, entry: Entry) -> dict[str, str]:
    manifest = json.loads(oci.blob(layout, entry["digest"]).read_text())
    return dict(manifest["annotations"])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m deploy.image.merge", description=__doc__)
    parser.add_argument("layouts", type=Path, nargs="+", metavar="LAYOUT", help="the image of one architecture")
    parser.add_argument("--into", type=Path, required=True, metavar="FOLDER", help="the merged layout; replaced if it is there")
    parser.add_argument("--version", required=True)
    given = parser.parse_args(arguments)
    try:
        print(merge(given.into, given.layouts, version=given.version))
    except (NotOneImage, OSError, ValueError, KeyError) as err:
        print(f"no image: {err}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
