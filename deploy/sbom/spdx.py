"""An inventory as an SPDX document."""

import io
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from cyclonedx.spdx import is_expression
from spdx_tools.common.spdx_licensing import spdx_licensing
from spdx_tools.spdx import model
from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document
from spdx_tools.spdx.writer.json.json_writer import write_document_to_stream

from deploy.sbom.inventory import Component, Inventory

_VERSION: Final = "SPDX-2.3"
_DOCUMENT: Final = "SPDXRef-DOCUMENT"
_PURPOSES: Final = {
    "application": model.PackagePurpose.APPLICATION,
    "container": model.PackagePurpose.CONTAINER,
    "library": model.PackagePurpose.LIBRARY,
}


def text(inventory: Inventory, *, created: datetime, serial: UUID) -> str:
    """The document as JSON. ValueError if it is not valid, which is an error of this module."""
    said = (inventory.subject, *inventory.components)
    names = {each.purl: f"SPDXRef-{number}" for number, each in enumerate(said)}
    info = model.CreationInfo(
        spdx_version=_VERSION,
        spdx_id=_DOCUMENT,
        name=f"{inventory.subject.name}-{inventory.subject.version}",
        document_namespace=f"urn:uuid:{serial}",
        creators=[model.Actor(model.ActorType.TOOL, "slackwater-deploy.sbom")],
        created=created.replace(tzinfo=None),
    )
    document = model.Document(
        creation_info=info,
        packages=[_package(each, names[each.purl]) for each in said],
        relationships=_relationships(inventory, names),
    )
    if wrong := validate_full_spdx_document(document):
        raise ValueError(f"not valid {_VERSION}: {wrong[0].validation_message}")
    stream = io.StringIO()
    write_document_to_stream(document, stream, validate=False)
    return stream.getvalue() + "\n"


def _relationships(inventory: Inventory, names: dict[str, str]) -> list[Any]:
    contains = inventory.subject.kind == "container"
    kind = model.RelationshipType.CONTAINS if contains else model.RelationshipType.DEPENDS_ON
    described = model.Relationship(_DOCUMENT, model.RelationshipType.DESCRIBES, names[inventory.subject.purl])
    pairs = ((purl, need) for purl, needs in sorted(inventory.needs.items()) for need in needs)
    return [described, *(model.Relationship(names[purl], kind, names[need]) for purl, need in pairs)]


def _package(said: Component, name: str) -> Any:
    nothing = model.SpdxNoAssertion()
    place = model.ExternalPackageRefCategory.PACKAGE_MANAGER
    return model.Package(
        spdx_id=name,
        name=said.name,
        version=said.version,
        download_location=nothing,
        files_analyzed=False,
        license_declared=spdx_licensing.parse(said.license) if is_expression(said.license) else nothing,
        license_comment=said.license if said.license and not is_expression(said.license) else None,
        checksums=[model.Checksum(model.ChecksumAlgorithm.SHA256, said.sha256)] if said.sha256 else [],
        external_references=[model.ExternalPackageRef(place, "purl", said.purl)],
        primary_package_purpose=_PURPOSES[said.kind],
    )
