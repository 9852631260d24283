"""The API server's audit log: which requests it keeps, and who bound which pod according to it."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

#: Writes, without bodies. Leases and events would be most of the file and say nothing about placement.
POLICY: Final[dict[str, Any]] = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "None", "verbs": ["get", "list", "watch"]},
        {"level": "None", "resources": [{"group": "coordination.k8s.io", "resources": ["leases"]}]},
        {"level": "None", "resources": [{"group": group, "resources": ["events"]} for group in ("", "events.k8s.io")]},
        {"level": "None", "users": ["system:apiserver"]},
        {"level": "Metadata"},
    ],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BindRequest:
    """One request to bind a pod, as the API server answered it."""

    user: str
    namespace: str
    pod: str
    status: int  #: HTTP; 201 where it bound


def bind_requests(log: Path) -> Iterator[BindRequest]:
    """All bind requests in `log`, oldest first; a last line that is still being written is left out."""
    with log.open(encoding="utf-8") as file:
        for line in file:
            if not line.endswith("\n"):
                return
            request = _bind_request(json.loads(line))
            if request is not None:
                yield request


def _bind_request(event: dict[str, Any]) -> BindRequest | None:
    target = event.get("objectRef") or {}
    if event["verb"] != "create" or event["stage"] != "ResponseComplete":
        return None
    if (target.get("resource"), target.get("subresource")) != ("pods", "binding"):
        return None
    return BindRequest(
        user=event["user"]["username"],
        namespace=target["namespace"],
        pod=target["name"],
        status=event["responseStatus"]["code"],
    )
