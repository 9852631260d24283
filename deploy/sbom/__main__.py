"""`python -m deploy.sbom`: writes the bills of materials of our wheels, and of each architecture's image if it is there.

Each comes as `NAME-VERSION.cdx.json` (CycloneDX 1.6) and `NAME-VERSION.spdx.json` (SPDX 2.3). The time in them is
SOURCE_DATE_EPOCH, the serial number follows from the subject's digest: the same input gives the same bytes.
"""

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Final
from uuid import NAMESPACE_URL, uuid5

from deploy.sbom import cyclonedx, spdx
from deploy.sbom.inventory import Inventory, of_images, of_wheel

#: Extras that the bill of a wheel includes.
_EXTRAS: Final = {"slackwater": frozenset({"aws", "externalgrpc", "solver"}), "slackwater_protocol": frozenset({"client"})}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m deploy.sbom", description=__doc__)
    parser.add_argument("--wheels", type=Path, required=True, metavar="FOLDER", help="with our wheels")
    parser.add_argument("--version", required=True, help="of our wheels")
    parser.add_argument("--image", type=Path, metavar="FOLDER", help="an OCI layout")
    parser.add_argument("--into", type=Path, required=True, metavar="FOLDER")
    given = parser.parse_args(arguments)
    created = datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), UTC)
    given.into.mkdir(parents=True, exist_ok=True)
    try:
        for inventory in _inventories(given):
            for path in write(inventory, given.into, created=created):
                print(f"{path}: {len(inventory.components)} components")
    except (OSError, metadata.PackageNotFoundError) as err:
        print(f"no bill of materials: {err}", file=sys.stderr)
        return 1
    return 0


def _inventories(given: argparse.Namespace) -> Iterator[Inventory]:
    for name, extras in _EXTRAS.items():
        yield of_wheel(given.wheels / f"{name}-{given.version}-py3-none-any.whl", extras=extras)
    if given.image is not None:
        yield from of_images(given.image)


def write(inventory: Inventory, into: Path, *, created: datetime) -> Iterator[Path]:
    """Writes both documents of an inventory."""
    subject = inventory.subject
    serial = uuid5(NAMESPACE_URL, f"{subject.purl}#{subject.sha256}")
    for kind, document in (("cdx", cyclonedx), ("spdx", spdx)):
        path = into / f"{subject.name}-{subject.version}.{kind}.json"
        path.write_text(document.text(inventory, created=created, serial=serial))
        yield path


if __name__ == "__main__":
    sys.exit(main())
