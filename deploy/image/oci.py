"""An image as an OCI layout: a folder of blobs named by their digests, as podman, skopeo, containerd and others read it."""

import hashlib
import json
import shutil
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from deploy.image import recipe
from deploy.image.layers import Layer

_KIND: Final = "application/vnd.oci.image"
_INDEX: Final = f"{_KIND}.index.v1+json"
_LABEL: Final = "org.opencontainers.image"
#: Annotations: the tag of an entry of the index, and the commit that an image was built from.
REFERENCE: Final = f"{_LABEL}.ref.name"
REVISION: Final = f"{_LABEL}.revision"


def write(into: Path, layers: Sequence[Layer], *, version: str, architecture: str, created: int, revision: str) -> str:
    """Writes the layout, replacing what is there. Returns the digest of the manifest."""
    shutil.rmtree(into, ignore_errors=True)
    blobs = into / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    for layer in layers:
        shutil.move(layer.file, blobs / layer.digest)
    when = datetime.fromtimestamp(created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    labels = _labels(version, revision)
    config = _blob(blobs, f"{_KIND}.config.v1+json", _config(layers, architecture=architecture, when=when, labels=labels))
    archives = [
        {"mediaType": f"{_KIND}.layer.v1.tar+gzip", "digest": f"sha256:{layer.digest}", "size": layer.size} for layer in layers
    ]
    manifest = {"schemaVersion": 2, "mediaType": f"{_KIND}.manifest.v1+json", "config": config, "layers": archives}
    entry = _blob(blobs, f"{_KIND}.manifest.v1+json", {**manifest, "annotations": {**labels, f"{_LABEL}.created": when}})
    _close(into, {**entry, "platform": {"architecture": architecture, "os": "linux"}}, version)
    return str(entry["digest"])


def write_index(into: Path, entries: Sequence[Mapping[str, Any]], *, version: str) -> str:
    """Makes one image of the manifests of several architectures, whose blobs are in the layout. Returns the index's digest."""
    manifests = [{name: value for name, value in entry.items() if name != "annotations"} for entry in entries]
    entry = _blob(into / "blobs" / "sha256", _INDEX, {"schemaVersion": 2, "mediaType": _INDEX, "manifests": manifests})
    _close(into, entry, version)
    return str(entry["digest"])


def manifests(layout: Path) -> list[dict[str, Any]]:
    """The descriptors of a layout's manifests, one for each architecture."""
    (entry,) = json.loads((layout / "index.json").read_text())["manifests"]
    if entry["mediaType"] != _INDEX:
        return [entry]
    tag = entry["annotations"]
    return [{**each, "annotations": tag} for each in json.loads(blob(layout, entry["digest"]).read_text())["manifests"]]


def blob(layout: Path, digest: str) -> Path:
    """The file of a blob."""
    return layout / "blobs" / "sha256" / digest.removeprefix("sha256:")


def _close(into: Path, entry: Mapping[str, Any], version: str) -> None:
    """Writes what a layout has beside its blobs."""
    named = {**entry, "annotations": {REFERENCE: version}}
    (into / "index.json").write_bytes(_bytes({"schemaVersion": 2, "mediaType": _INDEX, "manifests": [named]}))
    (into / "oci-layout").write_bytes(_bytes({"imageLayoutVersion": "1.0.0"}))


def _labels(version: str, revision: str) -> dict[str, str]:
    said = {"title": "slackwater", "version": version, "licenses": "Apache-2.0", "revision": revision}
    return {f"{_LABEL}.{name}": value for name, value in said.items() if value}


def _config(layers: Sequence[Layer], *, architecture: str, when: str, labels: Mapping[str, str]) -> dict[str, Any]:
    return {
        "created": when,
        "architecture": architecture,
        "os": "linux",
        "config": {
            "User": recipe.USER,
            "Env": [f"{name}={value}" for name, value in recipe.ENVIRONMENT.items()],
            "Entrypoint": list(recipe.ENTRYPOINT),
            "Cmd": list(recipe.COMMAND),
            "WorkingDir": "/",
            "Labels": dict(labels),
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer.diff_id}" for layer in layers]},
        "history": [{"created": when, "created_by": layer.content} for layer in layers],
    }


def _blob(blobs: Path, kind: str, content: Mapping[str, Any]) -> dict[str, Any]:
    """Writes a JSON blob; its descriptor."""
    data = _bytes(content)
    digest = hashlib.sha256(data).hexdigest()
    (blobs / digest).write_bytes(data)
    return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(data)}


def _bytes(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
