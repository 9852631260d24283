"""deploy/Dockerfile and deploy/image agree; parts of the recipe that need no other program."""

import json
import re
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml

from deploy.image import layers, oci, recipe, wheels
from deploy.image.__main__ import main

ROOT = Path(__file__).parents[3]
DOCKERFILE = (ROOT / "deploy/Dockerfile").read_text()
FIRST, LAST = (stage.replace("\\\n", " ") for stage in DOCKERFILE.split("\nFROM ")[1:])


# --- the Dockerfile -------------------------------------------------------------------------------------------------------


def test_the_dockerfile_has_the_files_of_the_recipe_and_no_others() -> None:
    """It runs the recipe, so package list and wheel list are the same; and nothing is added to what that makes."""
    assert "\nRUN python3 -m deploy.image --rootfs --into /image\n" in FIRST
    assert re.findall(r"^(?:COPY|ADD|RUN) .*", LAST, re.MULTILINE) == ["COPY --from=build /image/ /"]
    assert LAST.startswith("scratch\n")


def test_the_dockerfile_starts_the_service_as_the_image_does() -> None:
    said = dict(re.findall(r"^(\w+) +(.*)$", LAST, re.MULTILINE))
    assert dict(pair.split("=", 1) for pair in said["ENV"].split()) == recipe.ENVIRONMENT
    assert said["USER"] == recipe.USER
    assert tuple(json.loads(said["ENTRYPOINT"])) == recipe.ENTRYPOINT
    assert tuple(json.loads(said["CMD"])) == recipe.COMMAND


def test_the_dockerfiles_base_is_the_release_that_the_recipe_names() -> None:
    releases = {"trixie": "13"}
    assert FIRST.startswith(f"debian:{releases[recipe.SUITE]}-slim AS build\n")


def test_the_dockerfile_takes_uv_from_the_lock_file_with_its_hashes(tmp_path: Path) -> None:
    (expression,) = re.findall(r"sed -n '(.*?)' requirements\.lock", DOCKERFILE)
    taken = subprocess.run(
        ["sed", "-n", expression, ROOT / "requirements.lock"], check=True, capture_output=True, text=True
    ).stdout
    first, *hashes = taken.rstrip().split(" \\\n")
    assert re.fullmatch(r"uv==[\d.]+", first)
    assert len(hashes) > 3
    assert all(re.fullmatch(r" +--hash=sha256:[0-9a-f]{64}", line) for line in hashes)
    assert "--require-hashes" in FIRST


def test_what_the_dockerfile_copies_is_not_ignored() -> None:
    ignored = (ROOT / "deploy/Dockerfile.dockerignore").read_text().split()
    copied = re.findall(r"^COPY (?!--from)(\S+)", DOCKERFILE, re.MULTILINE)
    assert copied == ["requirements.lock", "deploy/image", "dist"]
    assert {"*", "!requirements.lock", "!deploy/image", "!dist/*.whl"} <= set(ignored)


# --- the recipe -----------------------------------------------------------------------------------------------------------


def test_the_image_runs_as_the_user_of_the_chart() -> None:
    objects = yaml.safe_load_all((ROOT / "deploy/slackwater.yaml").read_text())
    (deployment,) = (item for item in objects if item["kind"] == "Deployment")
    user = deployment["spec"]["template"]["spec"]["securityContext"]
    assert f"{user['runAsUser']}:{user['runAsGroup']}" == recipe.USER
    assert recipe.FILES["etc/passwd"].splitlines()[1].startswith(f"slackwater:x:{recipe.USER}:")


def a_tree(root: Path) -> Path:
    (root / "b").mkdir(parents=True)
    (root / "b" / "two").write_text("2")
    (root / "a").write_text("1")
    (root / "link").symlink_to("a")
    (root / "run").write_text("#!")
    (root / "run").chmod(0o700)
    return root


def test_a_layer_depends_on_names_bytes_and_rights_alone(tmp_path: Path) -> None:
    first, second = a_tree(tmp_path / "x"), a_tree(tmp_path / "y")
    (second / "a").chmod(0o600)
    (second / "b").chmod(0o775)
    one, two = (layers.write(root, root.with_suffix(".tar.gz"), content="") for root in (first, second))
    assert (one.digest, one.diff_id) == (two.digest, two.diff_id)
    (second / "a").write_text("3")
    assert layers.write(second, tmp_path / "z.tar.gz", content="").diff_id != one.diff_id


def test_the_entries_of_a_layer_are_sorted_and_roots(tmp_path: Path) -> None:
    file = layers.write(a_tree(tmp_path / "x"), tmp_path / "x.tar.gz", content="").file
    with tarfile.open(file) as archive:
        entries = archive.getmembers()
    assert [(entry.name, oct(entry.mode)) for entry in entries] == [
        ("a", "0o644"),
        ("b", "0o755"),
        ("b/two", "0o644"),
        ("link", "0o777"),
        ("run", "0o755"),
    ]
    assert {(entry.uid, entry.gid, entry.mtime) for entry in entries} == {(0, 0, recipe.TIME)}


def test_a_file_that_would_run_with_its_owners_rights_is_refused(tmp_path: Path) -> None:
    root = a_tree(tmp_path / "x")
    (root / "run").chmod(0o4755)
    with pytest.raises(ValueError, match="/run would run with its owner's rights"):
        layers.write(root, tmp_path / "x.tar.gz", content="")


def test_a_layout_names_every_blob_by_its_digest(tmp_path: Path) -> None:
    layer = layers.write(a_tree(tmp_path / "x"), tmp_path / "x.tar.gz", content="files")
    digest = oci.write(tmp_path / "layout", [layer], version="1.2.3", architecture="amd64", created=1_800_000_000, revision="")
    blobs = {path.name: path.read_bytes() for path in (tmp_path / "layout/blobs/sha256").iterdir()}
    manifest = json.loads(blobs[digest.removeprefix("sha256:")])
    config = json.loads(blobs[manifest["config"]["digest"].removeprefix("sha256:")])
    assert config["created"] == "2027-01-15T08:00:00Z"
    assert config["rootfs"]["diff_ids"] == [f"sha256:{layer.diff_id}"]
    assert [len(blobs[entry["digest"].removeprefix("sha256:")]) for entry in manifest["layers"]] == [layer.size]


# --- wheels ---------------------------------------------------------------------------------------------------------------


def a_wheel(folder: Path, name: str, version: str) -> None:
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{name}/__init__.py", "")


def test_the_version_is_that_of_the_only_wheels_in_the_folder(tmp_path: Path) -> None:
    a_wheel(tmp_path, "slackwater_protocol", "1.0.0")
    assert wheels.only_version(tmp_path) == "1.0.0"
    a_wheel(tmp_path, "slackwater_protocol", "2.0.0")
    with pytest.raises(LookupError, match=r"versions \['1\.0\.0', '2\.0\.0'\], want one"):
        wheels.only_version(tmp_path)


def test_a_missing_wheel_is_named(tmp_path: Path) -> None:
    a_wheel(tmp_path, "slackwater_protocol", "1.0.0")
    with pytest.raises(FileNotFoundError, match=r"slackwater-1\.0\.0-py3-none-any\.whl is missing: `make dist`"):
        wheels.of_version(tmp_path, "1.0.0")


def test_without_wheels_nothing_is_built(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--wheels", str(tmp_path), "--into", str(tmp_path / "image")]) == 1
    assert "want one; `make dist` builds them" in capsys.readouterr().err
    assert not (tmp_path / "image").exists()
