"""An inventory as a CycloneDX document."""

from datetime import datetime
from uuid import UUID

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model import component as model
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from packageurl import PackageURL

from deploy.sbom.inventory import Component, Inventory


def text(inventory: Inventory, *, created: datetime, serial: UUID) -> str:
    """The document as JSON. ValueError if it is not valid, which is an error of this module."""
    subject = _component(inventory.subject)
    known = {each.purl: _component(each) for each in inventory.components}
    bom = Bom(components=known.values(), serial_number=serial, metadata=BomMetaData(component=subject, timestamp=created))
    for purl, part in {**known, inventory.subject.purl: subject}.items():
        bom.register_dependency(part, [known[need] for need in inventory.needs.get(purl, ())])
    from cyclonedx.validation.json import JsonStrictValidator  # takes a second or two: it compiles a grammar

    written = JsonV1Dot6(bom).output_as_string(indent=2)
    if (wrong := JsonStrictValidator(SchemaVersion.V1_6).validate_str(written)) is not None:
        raise ValueError(f"not valid CycloneDX 1.6: {wrong}")
    return written + "\n"


def _component(said: Component) -> model.Component:
    return model.Component(
        type=model.ComponentType(said.kind),
        name=said.name,
        version=said.version,
        bom_ref=said.purl,
        purl=PackageURL.from_string(said.purl),
        licenses=[LicenseFactory().make_from_string(said.license)] if said.license else (),
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=said.sha256)] if said.sha256 else (),
    )
