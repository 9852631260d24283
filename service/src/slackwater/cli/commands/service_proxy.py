"""Asks the service through the API server's `services/proxy`, for accounts that may not forward ports (docs/adr/0297).

It reads only: the Role that allows this has the verb get alone, and the listener lets callers that do not come from loopback
only read. Which replica answers is the API server's choice.
"""

import argparse
import json
from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from slackwater.app.progress import Progress
from slackwater.cli.commands.cluster import with_cluster
from slackwater.cli.commands.ops_client import LARGEST_BODY, SILENCE_SECONDS, ServiceNotFound, refusal
from slackwater.cli.commands.output import NO_ANSWER, code_of_status

if TYPE_CHECKING:
    from slackwater.adapters.api_calls import Response
    from slackwater.adapters.kube.client import KubeClient

_NAME: Final = "the service, through services/proxy"
_UNREACHED: Final = "may the API server reach the ops listener? networkPolicy.apiServer of the chart says who it is"


def read_by_proxy(
    args: argparse.Namespace, path: str, progress: Progress, take: Callable[[bytes], object], forbidden: ServiceNotFound
) -> None:
    """Reads the path from a replica, and hands the answer's body to `take`. Raises `ServiceNotFound` if the API server does not
    pass the request on, and `CommandFailed` with the listener's message for its refusals. `forbidden`: why ports may not be
    forwarded."""
    progress.step(f"asking {_NAME}")
    answer = with_cluster(args, lambda client: _answer(client, path))
    if answer.status == HTTPStatus.OK:
        take(answer.body)
        return
    said = _status_message(answer.body)
    if said is None:
        raise refusal(f"{_NAME}: {path}", answer.status, answer.body)
    lines = [*forbidden.lines, f"{_NAME}: {said}", *([_UNREACHED] if answer.status == HTTPStatus.SERVICE_UNAVAILABLE else [])]
    # Of a Service that does not exist nobody can say whether an object does.
    code = NO_ANSWER if answer.status == HTTPStatus.NOT_FOUND else code_of_status(answer.status)
    raise ServiceNotFound(lines, code=code)


async def _answer(client: "KubeClient", path: str) -> "Response":
    """The answer without TLS, or if there is none, with TLS, of which the API server does not check the certificate."""
    from slackwater.adapters.api_calls import Read
    from slackwater.app.running_service import PROXIED, PROXY_PATH

    plain, tls = (
        Read(f"{PROXY_PATH.format(name)}{path}", timeout_seconds=SILENCE_SECONDS, most_bytes=LARGEST_BODY) for name in PROXIED
    )
    answer = await client.send(plain)
    return await client.send(tls) if _may_speak_tls(answer.status, answer.body) else answer


def _may_speak_tls(status: int, body: bytes) -> bool:
    """Did somebody take the connection and not understand plain HTTP?"""
    if status == HTTPStatus.BAD_REQUEST:
        return b"HTTPS" in body
    # Where nobody took it, the API server says that it could not dial, or that there are no endpoints.
    said = _status_message(body) or ""
    return status >= HTTPStatus.INTERNAL_SERVER_ERROR and "reach service" in said and "dial" not in said


def _status_message(body: bytes) -> str | None:
    """The message if the body is a Status, which only the API server writes; else None."""
    try:
        status = json.loads(body)
        return str(status["message"]) if status["kind"] == "Status" else None
    except (ValueError, TypeError, KeyError):
        return None
