"""What is in a wheel's dependencies or in an image, read from their own files.

A wheel's inventory follows its metadata through the distributions that are installed here, which are those of the lock file. An
image's is read from its layers: Debian's status files and the metadata of each distribution. Both depend on their input alone.
"""

import email
import hashlib
import json
import re
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from email.message import Message
from importlib import metadata
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import quote
from zipfile import ZipFile

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from deploy.image import oci

Kind = Literal["application", "container", "library"]
_STATUS: Final = "var/lib/dpkg/status.d/"
_METADATA: Final = ".dist-info/METADATA"
_VENDORED: Final = "/vendored.txt"
_NPM: Final = re.compile(r"^# npm package (\S+) (\S+), licence ([^:]+):", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """One thing with a version. `license` is an SPDX expression or a name, empty if its metadata says none."""

    kind: Kind = "library"
    name: str
    version: str
    purl: str
    license: str = ""
    sha256: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """`subject` is what the bill is about. `needs` has the purls that each component needs directly, where that is known."""

    subject: Component
    components: tuple[Component, ...]
    needs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


# --- wheels ---------------------------------------------------------------------------------------------------------------


def of_wheel(path: Path, *, extras: frozenset[str] = frozenset()) -> Inventory:
    """The wheel, and all that it needs with these extras. PackageNotFoundError for a dependency that is not installed here."""
    with ZipFile(path) as wheel:
        (name,) = (entry for entry in wheel.namelist() if entry.endswith(_METADATA))
        head = email.message_from_bytes(wheel.read(name))
        vendored = [each for entry in wheel.namelist() if entry.endswith(_VENDORED) for each in _npm(wheel.read(entry))]
    subject = _distribution(head, kind="application", sha256=hashlib.sha256(path.read_bytes()).hexdigest())
    found = {each.purl: each for each in vendored}
    needs = {subject.purl: tuple(found)}
    wanted = [(subject, head, extras)]
    while wanted:
        needing, said, with_extras = wanted.pop()
        purls = set(needs.get(needing.purl, ()))
        for requirement in _requirements(said, with_extras):
            message = _installed(requirement.name)
            needed = _distribution(message)
            purls.add(needed.purl)
            if needed.purl not in found or requirement.extras:
                found[needed.purl] = needed
                wanted.append((needed, message, frozenset(requirement.extras)))
        needs[needing.purl] = tuple(sorted(purls))
    return Inventory(subject=subject, components=_sorted(found), needs=needs)


def _npm(listed: bytes) -> Iterator[Component]:
    """The npm packages of which files lie in the package, by the list beside them."""
    for name, version, licence in _NPM.findall(listed.decode()):
        yield Component(name=name, version=version, purl=f"pkg:npm/{quote(name)}@{quote(version)}", license=licence)


def _requirements(head: Message, extras: frozenset[str]) -> Iterator[Requirement]:
    for text in head.get_all("Requires-Dist", []):
        requirement = Requirement(text)
        if requirement.marker is None or any(requirement.marker.evaluate({"extra": extra}) for extra in {"", *extras}):
            yield requirement


def _installed(name: str) -> Message:
    return email.message_from_string(metadata.distribution(name).read_text("METADATA") or "")


def _distribution(head: Message, *, kind: Kind = "library", sha256: str = "") -> Component:
    name, version = canonicalize_name(head["Name"]), head["Version"]
    purl = f"pkg:pypi/{name}@{quote(version)}"
    return Component(kind=kind, name=name, version=version, purl=purl, license=_license(head), sha256=sha256)


def _license(head: Message) -> str:
    """The expression, if there is one; else the last part of the classifier, else the first line of the old field."""
    if expression := head["License-Expression"]:
        return str(expression)
    classified = [text for text in head.get_all("Classifier", []) if text.startswith("License :: ")]
    if classified:
        return str(classified[0].rpartition(" :: ")[2])
    return str(head["License"] or "").strip().partition("\n")[0]


def _sorted(found: Mapping[str, Component]) -> tuple[Component, ...]:
    return tuple(found[purl] for purl in sorted(found))


# --- the image ------------------------------------------------------------------------------------------------------------


def of_images(layout: Path) -> Iterator[Inventory]:
    """The image of each architecture in an OCI layout, with Debian's packages and the distributions of its layers."""
    for entry in oci.manifests(layout):
        manifest: dict[str, Any] = json.loads(oci.blob(layout, entry["digest"]).read_text())
        version, architecture = entry["annotations"][oci.REFERENCE], entry["platform"]["architecture"]
        digest = entry["digest"].removeprefix("sha256:")
        subject = Component(
            kind="container",
            name=f"slackwater-image-{architecture}",
            version=version,
            purl=f"pkg:oci/slackwater@sha256%3A{digest}?arch={architecture}&tag={version}",
            license="Apache-2.0",
            sha256=digest,
        )
        found = {each.purl: each for layer in manifest["layers"] for each in _in_layer(oci.blob(layout, layer["digest"]))}
        yield Inventory(subject=subject, components=_sorted(found), needs={subject.purl: tuple(sorted(found))})


def _in_layer(layer: Path) -> Iterator[Component]:
    with tarfile.open(layer) as archive:
        for entry in archive:
            content = archive.extractfile(entry) if entry.isfile() else None
            if content is None:
                continue
            if entry.name.startswith(_STATUS):
                yield _debian(email.message_from_bytes(content.read()))
            elif entry.name.endswith(_METADATA):
                yield _distribution(email.message_from_bytes(content.read()))
            elif entry.name.endswith(_VENDORED):
                yield from _npm(content.read())


def _debian(control: Message) -> Component:
    name, version = control["Package"], control["Version"]
    purl = f"pkg:deb/debian/{quote(name)}@{quote(version)}?arch={control['Architecture']}"
    return Component(name=name, version=version, purl=purl, sha256=control["X-Slackwater-Sha256"])
