"""The image's three layers as folders: Debian and Python, wheels of others, our wheels. The first change least."""

import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from deploy.image import debian, layers, oci, recipe, wheels

#: The layers' folders, with what the image's history says of each.
LAYERS: Final = {
    "base": f"Debian {recipe.SUITE}: {' '.join(recipe.PACKAGES)}",
    "others": "wheels of requirements.lock",
    "ours": "wheels of slackwater and slackwater-protocol",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """What a build starts from: our wheels' folder and version, the lock file, and Debian mirrors other than the default."""

    wheels: Path
    version: str
    lock: Path
    architecture: str
    mirror: Sequence[str] = ()


def architecture() -> str:
    """This machine's architecture by Debian's name. LookupError for one that the recipe does not have."""
    here = subprocess.run(["dpkg", "--print-architecture"], check=True, capture_output=True, text=True).stdout.strip()
    if here not in recipe.ARCHITECTURES:
        raise LookupError(f"architecture {here}: the image is built on {' and '.join(recipe.ARCHITECTURES)} only")
    return here


def fill(work: Path, inputs: Inputs) -> tuple[Path, ...]:
    """Makes the folders of all layers in `work`."""
    base, others, ours = folders = tuple(work / name for name in LAYERS)
    found = wheels.of_version(inputs.wheels, inputs.version)
    debian.unpack(debian.download(work, mirror=inputs.mirror), base)
    wheels.install_others(
        others / recipe.SITE,
        wheels=inputs.wheels,
        version=inputs.version,
        lock=inputs.lock,
        architecture=inputs.architecture,
    )
    wheels.install_ours(ours, found)
    for root, part in ((base, f"usr/lib/python{recipe.PYTHON}"), (others, recipe.SITE), (ours, recipe.SITE)):
        wheels.compile_all(root / part, root=root, base=base, architecture=inputs.architecture)
    return folders


def image(into: Path, inputs: Inputs, *, created: int, revision: str) -> str:
    """Builds the image as an OCI layout; its digest."""
    with tempfile.TemporaryDirectory(prefix="slackwater-image-") as work:
        written = [pack(folder) for folder in fill(Path(work), inputs)]
        return oci.write(
            into, written, version=inputs.version, architecture=inputs.architecture, created=created, revision=revision
        )


def pack(folder: Path) -> layers.Layer:
    """Writes one of the folders as a layer beside it."""
    return layers.write(folder, folder.with_name(f"{folder.name}.tar.gz"), content=LAYERS[folder.name])
