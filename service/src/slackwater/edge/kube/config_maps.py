"""One ConfigMap that we write: created where it is not there, changed by merge patches otherwise."""

from typing import Final

import msgspec
import structlog

from slackwater.edge.kube.client import ApiPort
from slackwater.edge.kube.errors import KubeError

_log = structlog.get_logger(__name__)

_NOT_FOUND: Final = 404
_CREATED: Final = frozenset({200, 201})


class ConfigMapWriter:
    """Owns the keys that it writes; others stay. Never raises: nothing depends on it."""

    def __init__(self, client: ApiPort, *, namespace: str, name: str, timeout_seconds: float = 10.0) -> None:
        self._client = client
        self._path = f"/api/v1/namespaces/{namespace}/configmaps"
        self._namespace, self._name = namespace, name
        self._timeout = timeout_seconds
        self._failing = False

    async def write(self, data: dict[str, str], annotations: dict[str, str]) -> bool:
        """Whether it is written; a failure is logged once, until a write succeeds again."""
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
        patch = {"metadata": {"annotations": annotations}, "data": data}
        status, words = await self._send("PATCH", f"{self._path}/{self._name}", patch, "application/merge-patch+json")
        if status != _NOT_FOUND:
            return status, words
        metadata = {"name": self._name, "namespace": self._namespace, "annotations": annotations}
        new = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
        return await self._send("POST", self._path, new, "application/json")

    async def _send(self, method: str, path: str, body: object, content_type: str) -> tuple[int, str]:
        answer = await self._client.request(
            method, path, body=msgspec.json.encode(body), content_type=content_type, timeout_seconds=self._timeout
        )
        return answer.status, answer.body[:300].decode(errors="replace")
