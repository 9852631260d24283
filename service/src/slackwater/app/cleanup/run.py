"""Carries out the cleanup: reads every resource type that the service writes, and removes what Slackwater has written.

    list -> steps of each object -> patches and deletions -> list again: what is left?

An object that changes meanwhile is read and planned again. Nothing else in the cluster is touched.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from http import HTTPStatus
from typing import Final

import anyio

from slackwater.adapters.kube.client import ApiPort
from slackwater.adapters.kube.errors import StatusError
from slackwater.adapters.kube.objects import ApiObjects, Json, seconds_since
from slackwater.app import cluster_autoscaler
from slackwater.app.cleanup.plan import TYPES, CleanedType, is_managed, last_step, last_written, owns, user_keys
from slackwater.app.running_service import find_replicas

#: Something that wrote more recently may still run. Idle replicas write less often, but their Pods are seen.
_WRITTEN_SECONDS: Final = 60.0
_ATTEMPTS: Final = 5
_WIDTH: Final = 8


class StillRuns(Exception):
    """A replica of the service, or Cluster Autoscaler, still runs. The message says how that was seen, and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What was done, or would be done, to one object."""

    kind: str
    name: str
    words: tuple[str, ...]


@dataclass(slots=True, kw_only=True)
class Cleanup:
    """The result of a cleanup. `absent`: types that are not installed. `left`: objects that still have something of ours.
    `user_keys`: keys with our prefix that people wrote, by object; they stay."""

    changes: list[Change] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    user_keys: dict[str, list[str]] = field(default_factory=dict)


Report = Callable[[Change], None]


class Cleaner:
    """Cleans one cluster. `now` is compared with the times in Leases."""

    def __init__(self, client: ApiPort, *, now: datetime, dry_run: bool, report: Report = lambda _: None) -> None:
        self._client = client
        self._objects = ApiObjects(client)
        self._now = now
        self._dry_run = dry_run
        self._report = report
        self._result = Cleanup()

    async def run(self, *, force: bool) -> Cleanup:
        """Cleans all types, then lists them again to find what is left. Raises `KubeError`.

        Raises `StillRuns`, before anything is changed, if the service or Cluster Autoscaler still runs; not with `force`."""
        types = [(cleaned, path) for cleaned in TYPES if (path := await self._path(cleaned)) is not None]
        if not force:
            await self._check_nothing_runs(next(path for cleaned, path in types if cleaned.name == "leases"))
            for cleaned, path in types:
                await self._check_nothing_writes(cleaned, path)
        for cleaned, path in types:
            await self._clean(cleaned, path)
        if not self._dry_run:
            for cleaned, path in types:
                await self._look_again(cleaned, path)
        return self._result

    async def _path(self, cleaned: CleanedType) -> str | None:
        """The path of the type's objects, in the API version that the server prefers; None if the type is not installed."""
        prefix = "/api/v1"
        if cleaned.group:
            found = await self._objects.get(f"/apis/{cleaned.group}")
            prefix = "" if found is None else f"/apis/{found['preferredVersion']['groupVersion']}"
        known = await self._objects.get(prefix) if prefix else None
        if known is None or all(each["name"] != cleaned.name for each in known["resources"]):
            self._result.absent.append(cleaned.name)
            return None
        return f"{prefix}/{cleaned.name}"

    async def _check_nothing_writes(self, cleaned: CleanedType, path: str) -> None:
        async for item in self._objects.each(path, metadata_only=True):
            age = seconds_since(last_written(item), self._now)
            if age < _WRITTEN_SECONDS:
                raise StillRuns(
                    f"Slackwater wrote to {cleaned.name} {_name(item)} {age:.0f} s ago, so it may still run; "
                    f"stop it and try again in {_WRITTEN_SECONDS:.0f} s, or if it has been stopped, use --force"
                )

    async def _check_nothing_runs(self, leases_path: str) -> None:
        for replica in (await find_replicas(self._client, None)).running:
            raise StillRuns(f"Pod {replica.pod} runs the service; stop it (helm uninstall, or scale it to 0), or use --force")
        async for lease in self._objects.each(leases_path):
            age = cluster_autoscaler.lease_age(lease, self._now)
            if age is not None and owns(lease, "f:spec", "f:renewTime"):
                seen = f"Lease {_name(lease)} was renewed {age:.0f} s ago"
                raise StillRuns(f"{seen}: a replica still runs; stop it, or use --force")
        age = await cluster_autoscaler.status_age(self._objects, self._now)
        if age is not None:
            raise StillRuns(
                f"Cluster Autoscaler wrote its status ConfigMap {age:.0f} s ago, and its taints on nodes look as ours; "
                "wait until it removes no node, then use --force"
            )

    async def _clean(self, cleaned: CleanedType, path: str) -> None:
        limiter = anyio.CapacityLimiter(_WIDTH)

        async def one(item: Json) -> None:
            async with limiter:
                await self._clean_object(cleaned, _object_path(path, item), item)

        found = [item async for item in self._objects.each(path, metadata_only=not cleaned.whole)]
        async with anyio.create_task_group() as group:
            for item in found:
                if keys := user_keys(item):
                    self._result.user_keys[f"{cleaned.name} {_name(item)}"] = keys
                if any(cleaned.steps(item)) or is_managed(item):
                    group.start_soon(one, item)

    async def _clean_object(self, cleaned: CleanedType, path: str, item: Json) -> None:
        words = [step.words for step in (*cleaned.steps(item), *last_step(item))]
        if not self._dry_run:
            await self._until_done(cleaned, path, item)
        change = Change(kind=cleaned.name, name=_name(item), words=("delete",) if "delete" in words else tuple(words))
        self._result.changes.append(change)
        self._report(change)

    async def _until_done(self, cleaned: CleanedType, path: str, item: Json) -> None:
        """Carries out the steps of one object. If others change the object meanwhile, it is read and planned again."""
        for attempt in range(_ATTEMPTS):
            try:
                await self._carry_out(cleaned, path, item)
            except StatusError as error:
                if error.code not in {HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND} or attempt == _ATTEMPTS - 1:
                    raise
            else:
                return
            again = await self._objects.get(path)
            if again is None:
                return
            item = again

    async def _carry_out(self, cleaned: CleanedType, path: str, item: Json) -> None:
        """Sends the patches of one object, one after another. Each changes the object, so it is read again before its
        `managedFields` are written."""
        for step in cleaned.steps(item):
            if step.patch is None:
                await self._objects.delete(path, {"uid": item["metadata"]["uid"]})
                return
            await self._objects.patch(path + step.part, step.patch, step.how)
        now = await self._objects.get(path)
        for step in () if now is None else last_step(now):
            await self._objects.patch(path, step.patch, step.how)

    async def _look_again(self, cleaned: CleanedType, path: str) -> None:
        async for item in self._objects.each(path, metadata_only=not cleaned.whole):
            if is_managed(item) or any(cleaned.steps(item)):
                self._result.left.append(f"{cleaned.name} {_name(item)}")


def _object_path(path: str, item: Json) -> str:
    prefix, _, plural = path.rpartition("/")
    meta = item["metadata"]
    inside = f"/namespaces/{meta['namespace']}" if meta.get("namespace") else ""
    return f"{prefix}{inside}/{plural}/{meta['name']}"


def _name(item: Json) -> str:
    meta = item["metadata"]
    return f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else str(meta["name"])
