"""Writes one ConfigMap: creates it if it does not exist, otherwise changes it by merge patches.

Each patch names the resource version that was seen last, so that a late write of a former leader does not overwrite what its
successor wrote. After a conflict the object is read and the patch is sent once more.
"""

from typing import Final

import msgspec
import structlog

from slackwater.adapters.kube.client import ApiPort, Call, Response
from slackwater.adapters.kube.errors import KubeError

_log = structlog.get_logger(__name__)

_NOT_FOUND: Final = 404
_CONFLICT: Final = 409
_CREATED: Final = frozenset({200, 201})


class ConfigMapWriter:
    """Writes its own keys of one ConfigMap and keeps all others. Never raises, because nothing depends on it."""

    def __init__(self, client: ApiPort, *, namespace: str, name: str, timeout_seconds: float = 10.0) -> None:
        self._client = client
        self._path = f"/api/v1/namespaces/{namespace}/configmaps"
        self._namespace, self._name = namespace, name
        self._timeout = timeout_seconds
        self._failing = False
        #: The resource version as last read or written; "" if unknown.
        self._version = ""

    async def write(self, data: dict[str, str], annotations: dict[str, str]) -> bool:
        """Writes data and annotations; true if that succeeded. A failure is logged once, until a write succeeds again."""
        try:
            status, words = await self._put(data, annotations)
        except KubeError as error:
            status, words = 0, str(error)
        done = status in _CREATED
        if not done and not self._failing:
            _log.warning("status object not written", config_map=f"{self._namespace}/{self._name}", status=status, detail=words)
        self._failing = not done
        return done

    async def _put(self, data: dict[str, str], annotations: dict[str, str]) -> tuple[int, str]:
        answer = await self._patched(data, annotations)
        if answer.status == _CONFLICT:
            self._version = ""
            answer = await self._patched(data, annotations)
        if answer.status == _NOT_FOUND:
            metadata = {"name": self._name, "namespace": self._namespace, "annotations": annotations}
            new = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
            answer = await self._send("POST", self._path, new, "application/json")
        self._version = _version(answer) if answer.status in _CREATED else ""
        return answer.status, answer.body[:300].decode(errors="replace")

    async def _patched(self, data: dict[str, str], annotations: dict[str, str]) -> Response:
        if not self._version:
            found = await self._send("GET", f"{self._path}/{self._name}", None, "application/json")
            if found.status not in _CREATED:
                return found
            self._version = _version(found)
        patch = {"metadata": {"resourceVersion": self._version, "annotations": annotations}, "data": data}
        return await self._send("PATCH", f"{self._path}/{self._name}", patch, "application/merge-patch+json")

    async def _send(self, method: str, path: str, body: object, content_type: str) -> Response:
        raw = None if body is None else msgspec.json.encode(body)
        call = Call(method, path, body=raw, content_type=content_type, timeout_seconds=self._timeout)
        return await self._client.send(call)


class _Meta(msgspec.Struct, rename="camel"):
    resource_version: str = ""


class _Object(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)


_OBJECT: Final = msgspec.json.Decoder(_Object)


def _version(answer: Response) -> str:
    try:
        return _OBJECT.decode(answer.body).metadata.resource_version
    except msgspec.MsgspecError:
        return ""
