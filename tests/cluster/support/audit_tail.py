"""What the API server's audit log says since a moment: who asked for what, and what the answer was."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.support.controlplane.launches import AUDIT_RULES

#: The account of the service as a shadow.
SHADOW: Final = "system:serviceaccount:kube-system:slackwater-shadow"
#: Everything that the service asks, reads and Events too; of all others what the control plane keeps anyway.
SERVICE_TOO: Final[tuple[dict[str, Any], ...]] = ({"level": "Metadata", "users": ["slackwater", SHADOW]}, *AUDIT_RULES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request that was answered."""

    user: str
    verb: str
    group: str  #: of the API; empty for the core's
    resource: str  #: with the subresource, as "pods/binding"; empty for what is no resource
    namespace: str
    name: str
    status: int  #: 504 also where the one who asked was gone before the answer: then it may have happened


class AuditTail:
    """Reads on from where it was made, or from the log's beginning; each request is given out once."""

    def __init__(self, log: Path, *, from_beginning: bool = False) -> None:
        self._log = log
        self._offset = 0 if from_beginning or not log.exists() else log.stat().st_size

    def read(self) -> list[Request]:
        """The requests since the last call. The API server writes each before it answers it."""
        with self._log.open("rb") as file:
            file.seek(self._offset)
            lines = file.read().splitlines(keepends=True)
        if lines and not lines[-1].endswith(b"\n"):
            lines.pop()
        self._offset += sum(map(len, lines))
        return list(_requests(lines))


def binds(request: Request) -> bool:
    return (request.verb, request.resource) == ("create", "pods/binding")


def _requests(lines: list[bytes]) -> Iterator[Request]:
    for line in lines:
        event = json.loads(line)
        if event["stage"] not in {"ResponseComplete", "Panic"}:
            continue
        target = event.get("objectRef") or {}
        yield Request(
            user=event["user"]["username"],
            verb=event["verb"],
            group=target.get("apiGroup", ""),
            resource="/".join(filter(None, (target.get("resource"), target.get("subresource")))),
            namespace=target.get("namespace", ""),
            name=target.get("name", ""),
            status=(event.get("responseStatus") or {}).get("code", 0),
        )
