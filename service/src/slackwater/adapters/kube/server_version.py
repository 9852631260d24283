"""Reads the version of the API server."""

from http import HTTPStatus
from typing import Final

import msgspec

from slackwater.adapters.kube.client import ApiPort, Call
from slackwater.adapters.kube.errors import MalformedAnswer, refused
from slackwater.adapters.kube.structs import Wire
from slackwater.model.kubernetes_rules import KubernetesVersion

_SECONDS: Final = 10.0


class _Version(Wire):
    git_version: str = ""


_VERSION: Final = msgspec.json.Decoder(_Version)


async def server_version(client: ApiPort) -> KubernetesVersion:
    """Asks the API server for its version. Raises `KubeError`, also for an answer that names no version of Kubernetes 1."""
    call = Call("GET", "/version", timeout_seconds=_SECONDS)
    answer = await client.send(call)
    if answer.status != HTTPStatus.OK:
        raise refused(str(call), answer.status, answer.body, answer.headers)
    try:
        return KubernetesVersion.parse(_VERSION.decode(answer.body).git_version)
    except ValueError as err:
        raise MalformedAnswer(f"{call}: {err}") from err
