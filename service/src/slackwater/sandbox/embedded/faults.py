"""Makes the error answers of the embedded API server: Status objects with the texts of the real API server."""

from collections.abc import Sequence
from typing import Any

import msgspec

from slackwater.adapters.api_calls import Response

Json = dict[str, Any]


class Fault(Exception):
    """Raised to refuse a request. It becomes a Status object with this code and reason."""

    def __init__(
        self, code: int, reason: str, message: str, *, details: Json | None = None, retry_after: int | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.retry_after = retry_after

    def status(self) -> Json:
        """The Status object."""
        body: Json = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.code,
        }
        details = dict(self.details or {})
        if self.retry_after is not None:
            details["retryAfterSeconds"] = self.retry_after
        return {**body, "details": details} if details else body

    def answer(self) -> Response:
        headers = {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}
        body = msgspec.json.encode(self.status()) if self.reason else self.message.encode()
        return Response(self.code, body, headers)


def no_such_path() -> Fault:
    """The plain-text answer for a path outside the API."""
    return Fault(404, "", "404 page not found\n")


def not_found(plural: str, name: str) -> Fault:
    return Fault(404, "NotFound", f'{plural} "{name}" not found', details={"name": name, "kind": plural})


def exists(plural: str, name: str) -> Fault:
    return Fault(409, "AlreadyExists", f'{plural} "{name}" already exists', details={"name": name, "kind": plural})


def conflict(plural: str, name: str, why: str) -> Fault:
    message = f'Operation cannot be fulfilled on {plural} "{name}": {why}'
    return Fault(409, "Conflict", message, details={"name": name, "kind": plural})


def modified(plural: str, name: str) -> Fault:
    return conflict(plural, name, "the object has been modified; please apply your changes to the latest version and try again")


def other_uid(plural: str, name: str, wanted: str, found: str) -> Fault:
    return conflict(plural, name, f"Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}")


def invalid(kind: str, name: str, causes: Sequence[tuple[str, str]]) -> Fault:
    """The refusal of an invalid object. `causes` are pairs of field and problem."""
    said = "; ".join(f"{field}: {wrong}" for field, wrong in causes)
    found = [{"reason": f"FieldValue{_cause(wrong)}", "message": wrong, "field": field} for field, wrong in causes]
    return Fault(422, "Invalid", f'{kind} "{name}" is invalid: {said}', details={"name": name, "kind": kind, "causes": found})


def _cause(wrong: str) -> str:
    """The reason of a cause: the first word of its text, or "Invalid"."""
    first = wrong.partition(" ")[0].rstrip(":")
    return first if first in {"Required", "Forbidden"} else "Invalid"


def bad_request(message: str) -> Fault:
    return Fault(400, "BadRequest", message)


def expired(since: int, oldest: int) -> Fault:
    return Fault(410, "Expired", f"too old resource version: {since} ({oldest})")
