"""Writes permits, resizes and migrations of workloads that grow in place, one attempt each.

Each write is conditional. A permit is written by a JSON Patch that tests the UID and the present text, so a late write of a
process that was taken for dead finds a newer text and does nothing. `ApiWriter` calls this, and interprets the answers.
"""

from dataclasses import replace
from http import HTTPStatus
from typing import Any, Final, NamedTuple, Protocol

from slackwater.adapters.api_calls import JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, Response
from slackwater.adapters.kube.client import CONDITION_FAILED, outcome_of, words_of
from slackwater.adapters.kube.decode import read_meta, version_number
from slackwater.adapters.kube.neon import MACHINES_PATH, MIGRATIONS_PATH, migration_object
from slackwater.adapters.kube.resource_type import PODS_PATH, collection_path, object_path
from slackwater.model.effects import CreateMigration, DeleteMigration, Resize, VerticalEffect, WritePermit
from slackwater.model.events import MigrationDeleteEnded, MigrationNotStarted, MigrationStarted, PermitNotWritten, PermitWritten
from slackwater.ports.protocols import Outcome
from slackwater_protocol.names import PERMIT
from slackwater_protocol.units import quantity_text_cpu, quantity_text_memory

_PERMIT_POINTER: Final = "/metadata/annotations/" + PERMIT.replace("~", "~0").replace("/", "~1")


class Send(Protocol):
    """Sends one request before the deadline (on anyio's clock). Raises `KubeError`."""

    async def __call__(
        self, method: str, path: str, body: object, deadline: float, *, content_type: str = "application/json"
    ) -> Response: ...


class VerticalWriter:
    """Carries out the effects of `model.effects.VerticalEffect`."""

    def __init__(self, send: Send) -> None:
        self._send = send

    async def perform(self, effect: VerticalEffect, deadline: float) -> Outcome:
        """Carries out one effect. Raises `KubeError`."""
        match effect:
            case WritePermit():
                return await self._write_permit(effect, deadline)
            case Resize():
                return await self._resize(effect, deadline)
            case CreateMigration():
                return await self._create_migration(effect, deadline)
            case DeleteMigration():
                return await self._delete_migration(effect, deadline)

    async def _write_permit(self, effect: WritePermit, deadline: float) -> Outcome:
        path = object_path(MACHINES_PATH if effect.on == "machine" else PODS_PATH, effect.key)
        if effect.before is None:
            return await self._write_first_permit(effect, path, deadline)
        patch = [
            {"op": "test", "path": "/metadata/uid", "value": effect.uid},
            {"op": "test", "path": _PERMIT_POINTER, "value": effect.before},
            {"op": "replace", "path": _PERMIT_POINTER, "value": effect.text},
        ]
        answer = await self._send("PATCH", path, patch, deadline, content_type=JSON_PATCH)
        if answer.status not in CONDITION_FAILED:
            return _permit_outcome(effect, answer)
        there = await self._read_permit(effect, path, deadline)
        if isinstance(there, Outcome):
            return there
        if there.permit != effect.before or there.permit == effect.text:
            return _permit_found(effect, there)  # by another writer; or by us, in an attempt whose answer was lost
        return _permit_outcome(effect, answer)

    async def _write_first_permit(self, effect: WritePermit, path: str, deadline: float) -> Outcome:
        """Writes a permit to an object that has none. The condition of the write is the resource version that was read, since
        there is no text to test."""
        there = await self._read_permit(effect, path, deadline)
        if isinstance(there, Outcome):
            return there
        if there.permit is not None:
            return _permit_found(effect, there)
        meta = {"uid": effect.uid, "resourceVersion": there.version, "annotations": {PERMIT: effect.text}}
        answer = await self._send("PATCH", path, {"metadata": meta}, deadline, content_type=MERGE_PATCH)
        return _permit_outcome(effect, answer)

    async def _read_permit(self, effect: WritePermit, path: str, deadline: float) -> "_There | Outcome":
        """Reads the present permit. Returns an outcome instead if that fails, or if the object does not have the UID that the
        effect names."""
        answer = await self._send("GET", path, None, deadline)
        if outcome_of(answer).verdict != "done":
            return _permit_outcome(effect, answer)
        there = _there(answer)
        if there.uid != effect.uid:
            detail = f"{effect.on} {effect.key}: uid {there.uid}, want {effect.uid}"
            return Outcome("refused", answer.status, detail, event=PermitNotWritten(effect.pod, detail))
        return there

    async def _resize(self, effect: Resize, deadline: float) -> Outcome:
        amounts = {"cpu": quantity_text_cpu(effect.to.cpu), "memory": quantity_text_memory(effect.to.memory)}
        resources: dict[str, Any] = {"requests": amounts}
        limits = {name: text for (name, text), follows in zip(amounts.items(), effect.limits, strict=True) if follows}
        if limits:
            resources["limits"] = limits
        container = {"name": effect.container, "resources": resources}
        patch = {"metadata": {"uid": effect.uid}, "spec": {"containers": [container]}}
        path = object_path(PODS_PATH, effect.key) + "/resize"
        return outcome_of(await self._send("PATCH", path, patch, deadline, content_type=STRATEGIC_PATCH))

    async def _create_migration(self, effect: CreateMigration, deadline: float) -> Outcome:
        """Creates a migration. If an object of this name exists already, the migration has not started: the watch shows whether
        the object is ours, from an attempt whose answer was lost, or another client's."""
        path = collection_path(MIGRATIONS_PATH, effect.key.namespace)
        answer = await self._send("POST", path, migration_object(effect), deadline)
        outcome = outcome_of(answer)
        if outcome.verdict == "done":
            return Outcome("done", answer.status, event=MigrationStarted(effect.uid))
        if outcome.verdict == "refused":
            return Outcome("refused", answer.status, outcome.detail, event=MigrationNotStarted(effect.uid, outcome.detail))
        return outcome

    async def _delete_migration(self, effect: DeleteMigration, deadline: float) -> Outcome:
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": effect.uid}}
        answer = await self._send("DELETE", object_path(MIGRATIONS_PATH, effect.key), body, deadline)
        outcome = outcome_of(answer)
        # It is gone, or another one has its name: either way it is deleted.
        deleted = outcome.verdict == "done" or answer.status in {HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT}
        if not deleted and outcome.verdict != "refused":
            return outcome
        event = MigrationDeleteEnded(effect.key, deleted)
        return Outcome("done" if deleted else "refused", answer.status, outcome.detail, event=event)


class _There(NamedTuple):
    """The UID, resource version and permit (None: no permit) of the object in an answer."""

    uid: str
    version: str
    permit: str | None


def _there(answer: Response) -> _There:
    meta = read_meta(answer.body)
    return _There(meta.uid, meta.resource_version, meta.annotations.permit if meta.annotations is not None else None)


def _permit_found(effect: WritePermit, there: _There) -> Outcome:
    event = PermitWritten(effect.pod, there.permit, version_number(there.version))
    return Outcome("done" if there.permit == effect.text else "refused", HTTPStatus.OK, event=event)


def _permit_outcome(effect: WritePermit, answer: Response) -> Outcome:
    if answer.status == HTTPStatus.CONFLICT:
        return Outcome("again", answer.status, words_of(answer))
    outcome = outcome_of(answer)
    if outcome.verdict == "done":
        version = version_number(_there(answer).version)
        return replace(outcome, event=PermitWritten(effect.pod, effect.text, version))
    if outcome.verdict == "refused":
        return replace(outcome, event=PermitNotWritten(effect.pod, outcome.detail))
    return outcome
