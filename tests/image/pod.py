"""The Pod that the chart renders, as arguments of podman: what a kubelet would make of it on this machine.

Covered: arguments, user, capabilities, read-only root, privilege escalation, memory limit, ConfigMaps, empty folders, and the
account's token. The default seccomp profile is podman's own. The order of containers and their probes are left to the test.
Whatever else a Pod says is refused, so that nothing of the chart is passed over.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

Json = dict[str, Any]
ACCOUNT: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
_POD_SECURITY: Final = {
    "runAsNonRoot": True,
    "runAsUser": 65532,
    "runAsGroup": 65532,
    "seccompProfile": {"type": "RuntimeDefault"},
}
_CONFINED: Final = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
_KNOWN: Final = {
    "name", "image", "imagePullPolicy", "args", "command", "resources", "securityContext", "volumeMounts", "ports",
    "livenessProbe", "readinessProbe", "startupProbe",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """What a kubelet gives a container of its ServiceAccount, and where the API server is."""

    token: str
    ca: str
    namespace: str
    host: str
    port: int


class Pod:
    """The Pod's volumes as folders of this machine, and its containers as options of podman."""

    def __init__(self, spec: Json, *, config_maps: Mapping[str, Mapping[str, str]], account: Account, folder: Path) -> None:
        assert spec["securityContext"] == _POD_SECURITY, spec["securityContext"]
        self._spec = spec
        self._account = account
        self._folders = {volume["name"]: _volume(volume, folder / volume["name"], config_maps) for volume in spec["volumes"]}
        self._secrets = _filled(
            folder / "serviceaccount", {"token": account.token, "ca.crt": account.ca, "namespace": account.namespace}
        )

    def options(self, name: str) -> tuple[list[str], list[str]]:
        """The options of `podman run` for a container, before the image, and the arguments behind it."""
        container = self._container(name)
        assert not (unknown := container.keys() - _KNOWN), f"{name}: {unknown} is not carried out here"
        assert container["securityContext"] == _CONFINED
        options = ["--read-only", "--read-only-tmpfs=false", "--cap-drop=ALL", "--security-opt=no-new-privileges"]
        user = self._spec["securityContext"]
        options += [f"--user={user['runAsUser']}:{user['runAsGroup']}"]
        if os.geteuid() == 0:  # others need cgroups of their own for it, which few machines give them
            options += [f"--memory={_bytes(container['resources'])}"]
        for mount in container["volumeMounts"]:
            options += _mounted(self._folders[mount["name"]], mount["mountPath"], read_only=mount.get("readOnly", False))
        options += _mounted(self._secrets, ACCOUNT, read_only=True)
        options += [
            f"--env=KUBERNETES_SERVICE_HOST={self._account.host}",
            f"--env=KUBERNETES_SERVICE_PORT={self._account.port}",
        ]
        command, arguments = list(container.get("command", ())), list(container.get("args", ()))
        entrypoint = [f"--entrypoint={command[0]}"] if command else []
        return [*options, *entrypoint], [*command[1:], *arguments]

    def _container(self, name: str) -> Json:
        (found,) = (each for each in (*self._spec["initContainers"], *self._spec["containers"]) if each["name"] == name)
        return dict(found)


def _volume(volume: Json, folder: Path, config_maps: Mapping[str, Mapping[str, str]]) -> Path:
    match volume:
        case {"configMap": {"name": name}}:
            return _filled(folder, config_maps[name])
        case {"emptyDir": _}:
            folder.mkdir()
            folder.chmod(0o777)
            return folder
        case _:
            raise AssertionError(f"volume {volume} is not carried out here")


def _filled(folder: Path, files: Mapping[str, str]) -> Path:
    folder.mkdir()
    folder.chmod(0o755)
    for name, text in files.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o644)
    return folder


def _mounted(folder: Path, where: str, *, read_only: bool) -> list[str]:
    return [f"--volume={folder}:{where}{':ro' if read_only else ''}"]


def _bytes(resources: Json) -> int:
    """The memory limit; the chart's values say it in Mi or Gi."""
    limit = str(resources["limits"]["memory"])
    return int(limit[:-2]) * {"Mi": 1024**2, "Gi": 1024**3}[limit[-2:]]
