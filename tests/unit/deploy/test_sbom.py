"""Bills of materials: complete, valid, and the same each time."""

import json
import zipfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest
from packaging.requirements import Requirement

from deploy.image import layers, oci
from deploy.image.merge import NotOneImage, merge
from deploy.sbom import cyclonedx, spdx
from deploy.sbom.__main__ import main
from deploy.sbom.inventory import Component, Inventory, of_images, of_wheel
from slackwater.adapters.http import dashboard

CREATED = datetime(2026, 12, 1, tzinfo=UTC)
SERIAL = UUID("12345678-1234-5678-1234-567812345678")
CONTROL = """\
Package: libssl3t64
Version: 3.5.9-1~deb13u1
Architecture: {}
Description: a library
 of several lines
X-Slackwater-Sha256: {}
"""
METADATA = "Metadata-Version: 2.4\nName: {}\nVersion: {}\n{}\n"


def a_wheel(folder: Path, needs: Sequence[str], name: str = "slackwater") -> Path:
    path = folder / f"{name}-9.0.0-py3-none-any.whl"
    said = "License-Expression: Apache-2.0\n" + "".join(f"Requires-Dist: {need}\n" for need in needs)
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"{name}-9.0.0.dist-info/METADATA", METADATA.format(name, "9.0.0", said))
    return path


def an_image(folder: Path, *, architecture: str = "amd64", version: str = "9.0.0", revision: str = "c") -> Path:
    folder = folder / architecture
    root = folder / "root"
    status, site = root / "var/lib/dpkg/status.d", root / "usr/local/lib/python3.13/dist-packages/Some_Thing-1.5.dist-info"
    status.mkdir(parents=True)
    site.mkdir(parents=True)
    (status / "libssl3t64").write_text(CONTROL.format(architecture, "ab" * 32))
    (site / "METADATA").write_text(METADATA.format("Some_Thing", "1.5", "Classifier: License :: OSI Approved :: BSD License\n"))
    layer = layers.write(root, folder / "layer.tar.gz", content="")
    oci.write(folder / "layout", [layer], version=version, architecture=architecture, created=0, revision=revision)
    return folder / "layout"


def names(inventory: Inventory) -> set[str]:
    return {each.name for each in inventory.components}


def test_a_wheel_needs_what_it_names_and_what_that_needs_in_turn(tmp_path: Path) -> None:
    found = of_wheel(a_wheel(tmp_path, ["aiohttp>=3"]))
    assert {"aiohttp", "yarl", "multidict", "idna"} <= names(found)
    yarl = next(each for each in found.components if each.name == "yarl")
    assert any(purl.startswith("pkg:pypi/multidict@") for purl in found.needs[yarl.purl])
    assert [purl.partition("@")[0] for purl in found.needs[found.subject.purl]] == ["pkg:pypi/aiohttp"]


def test_what_an_extra_needs_is_in_the_bill_only_with_the_extra(tmp_path: Path) -> None:
    path = a_wheel(tmp_path, ['httpx>=0.28; extra == "client"'])
    assert names(of_wheel(path)) == set()
    assert "httpx" in names(of_wheel(path, extras=frozenset({"client"})))


def test_what_lies_in_a_wheel_from_elsewhere_is_in_its_bill(tmp_path: Path) -> None:
    listed = Path(next(iter(dashboard.__path__))) / "static" / "vendored.txt"
    path = a_wheel(tmp_path, ["idna"])
    with zipfile.ZipFile(path, "a") as wheel:
        wheel.write(listed, f"slackwater/dashboard/{listed.name}")
    found = of_wheel(path)
    (uplot,) = (each for each in found.components if each.name == "uplot")
    assert (uplot.purl.partition("@")[0], uplot.license) == ("pkg:npm/uplot", "MIT")
    assert {purl.partition("@")[0] for purl in found.needs[found.subject.purl]} == {"pkg:npm/uplot", "pkg:pypi/idna"}


def test_versions_are_those_of_the_lock_file(tmp_path: Path) -> None:
    lock = (Path(__file__).parents[3] / "requirements.lock").read_text()
    found = of_wheel(a_wheel(tmp_path, ["fastapi", "kubernetes-asyncio", "grpcio"]))
    assert len(found.components) > 20
    assert [each.name for each in found.components if f"{each.name}=={each.version} " not in lock] == []


def test_an_image_has_debians_packages_and_the_distributions_of_its_layers(tmp_path: Path) -> None:
    (found,) = of_images(an_image(tmp_path))
    assert found.components == (
        Component(
            name="libssl3t64",
            version="3.5.9-1~deb13u1",
            purl="pkg:deb/debian/libssl3t64@3.5.9-1~deb13u1?arch=amd64",
            sha256="ab" * 32,
        ),
        Component(name="some-thing", version="1.5", purl="pkg:pypi/some-thing@1.5", license="BSD License"),
    )
    assert found.needs == {found.subject.purl: tuple(each.purl for each in found.components)}


def test_both_documents_have_every_component_and_are_the_same_each_time(tmp_path: Path) -> None:
    (found,) = of_images(an_image(tmp_path))
    ours, theirs = (document.text(found, created=CREATED, serial=SERIAL) for document in (cyclonedx, spdx))
    assert ours == cyclonedx.text(found, created=CREATED, serial=SERIAL)
    assert theirs == spdx.text(found, created=CREATED, serial=SERIAL)
    listed = json.loads(ours)
    assert listed["metadata"]["timestamp"] == "2026-12-01T00:00:00+00:00"
    assert listed["metadata"]["component"]["name"] == "slackwater-image-amd64"
    assert [each["name"] for each in listed["components"]] == ["libssl3t64", "some-thing"]
    packages = {each["name"]: each for each in json.loads(theirs)["packages"]}
    assert packages.keys() == {"slackwater-image-amd64", "libssl3t64", "some-thing"}
    assert packages["libssl3t64"]["checksums"] == [{"algorithm": "SHA256", "checksumValue": "ab" * 32}]
    assert packages["some-thing"]["licenseComments"] == "BSD License"
    kinds = [each["relationshipType"] for each in json.loads(theirs)["relationships"]]
    assert kinds == ["DESCRIBES", "CONTAINS", "CONTAINS"]


def test_images_of_several_architectures_become_one_with_a_bill_for_each(tmp_path: Path) -> None:
    layouts = [an_image(tmp_path, architecture=each) for each in ("arm64", "amd64")]
    digest = merge(tmp_path / "all", layouts, version="9.0.0")
    assert merge(tmp_path / "again", layouts[::-1], version="9.0.0") == digest, "in any order"
    assert (tmp_path / "again/index.json").read_bytes() == (tmp_path / "all/index.json").read_bytes()
    alone = {each["platform"]["architecture"]: each["digest"] for layout in layouts for each in oci.manifests(layout)}
    merged = {each["platform"]["architecture"]: each["digest"] for each in oci.manifests(tmp_path / "all")}
    assert merged == alone
    assert merged.keys() == {"amd64", "arm64"}
    for layout in layouts:
        for path in (layout / "blobs/sha256").iterdir():
            assert (tmp_path / "all/blobs/sha256" / path.name).read_bytes() == path.read_bytes()
    bills = {each.subject.name: each for each in of_images(tmp_path / "all")}
    assert bills.keys() == {"slackwater-image-amd64", "slackwater-image-arm64"}
    assert "arch=arm64" in bills["slackwater-image-arm64"].components[0].purl


def test_images_that_do_not_belong_together_are_refused_by_name(tmp_path: Path) -> None:
    one = an_image(tmp_path / "one", architecture="amd64")
    into = tmp_path / "all"
    with pytest.raises(NotOneImage, match=r"both of amd64, want one of each"):
        merge(into, [one, an_image(tmp_path / "two")], version="9.0.0")
    with pytest.raises(NotOneImage, match=r"from the commits \['c', 'd'\], want one"):
        merge(into, [one, an_image(tmp_path / "two", architecture="arm64", revision="d")], version="9.0.0")
    with pytest.raises(NotOneImage, match=r"is of version 8\.0\.0, want 9\.0\.0"):
        merge(into, [one, an_image(tmp_path / "old", architecture="arm64", version="8.0.0")], version="9.0.0")
    merge(tmp_path / "merged", [one], version="9.0.0")
    with pytest.raises(NotOneImage, match="want one image of one architecture"):
        merge(into, [tmp_path / "merged"], version="9.0.0")
    assert not into.exists()


def test_a_document_that_is_not_valid_is_not_written() -> None:
    wrong = Component(name="a", version="1", purl="pkg:pypi/a@1", sha256="not a checksum")
    with pytest.raises(ValueError, match=r"not valid SPDX-2\.3"):
        spdx.text(Inventory(subject=wrong, components=()), created=CREATED, serial=SERIAL)
    with pytest.raises(ValueError, match=r"not valid CycloneDX 1\.6"):
        cyclonedx.text(Inventory(subject=wrong, components=()), created=CREATED, serial=SERIAL)


def test_a_dependency_that_is_not_installed_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    a_wheel(tmp_path, [str(Requirement("no-such-distribution-anywhere>=1"))])
    a_wheel(tmp_path, [], "slackwater_protocol")
    assert main(["--wheels", str(tmp_path), "--version", "9.0.0", "--into", str(tmp_path / "bills")]) == 1
    assert "no-such-distribution-anywhere" in capsys.readouterr().err


def test_the_command_writes_two_files_for_each_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    for name in ("slackwater", "slackwater_protocol"):
        a_wheel(tmp_path, ["pydantic"], name)
    assert main(["--wheels", str(tmp_path), "--version", "9.0.0", "--into", str(tmp_path / "bills")]) == 0
    assert sorted(path.name for path in (tmp_path / "bills").iterdir()) == [
        "slackwater-9.0.0.cdx.json",
        "slackwater-9.0.0.spdx.json",
        "slackwater-protocol-9.0.0.cdx.json",
        "slackwater-protocol-9.0.0.spdx.json",
    ]
