"""Pauses and resumes activities by writing the ConfigMap that all replicas watch. For the commands `pause` and `resume`."""

from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from http import HTTPStatus
from typing import Final

from slackwater.adapters.api_calls import ApiPort
from slackwater.adapters.kube.errors import KubeError, StatusError
from slackwater.adapters.kube.objects import ApiObjects, Json
from slackwater.app.running_service import SHADOW_SUFFIX
from slackwater.model.pauses import ACTIVITIES, ALL
from slackwater_protocol.names import PAUSE_CONFIG_MAP, SCHEDULER_NAME_LABEL, SCHEDULER_NAMESPACE

_COLLECTION: Final = f"/api/v1/namespaces/{SCHEDULER_NAMESPACE}/configmaps"
_PODS: Final = f"/api/v1/namespaces/{SCHEDULER_NAMESPACE}/pods"
_PATH: Final = f"{_COLLECTION}/{PAUSE_CONFIG_MAP}"
_REVIEW: Final = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
#: Attempts to write: another person may write at the same moment.
_ATTEMPTS: Final = 5

#: The data of the ConfigMap: a note for each paused activity.
Notes = Mapping[str, str]


def note_of(now: datetime, user: str, reason: str) -> str:
    """The note of a pause: since when, by whom, and why if that was given."""
    return f"since {now:%Y-%m-%dT%H:%M:%SZ} by {user}" + (f": {reason}" if reason else "")


def paused(notes: Notes, activities: Collection[str], note: str) -> Notes:
    """The notes after the activities were paused. One that is paused already keeps its note; "all" replaces the others."""
    if ALL in activities:
        return {ALL: notes.get(ALL, note)}
    return {**notes, **{activity: notes.get(activity, note) for activity in activities if ALL not in notes}}


def resumed(notes: Notes, activities: Collection[str]) -> Notes:
    """The notes after the activities were resumed. If "all" was paused, the other activities stay paused."""
    if ALL in activities:
        return {}
    spread = {activity: notes.get(activity, notes.get(ALL, "")) for activity in ACTIVITIES} if ALL in notes else notes
    return {activity: note for activity, note in spread.items() if activity not in activities}


async def read(client: ApiPort) -> Notes:
    """Reads which activities are paused now, each with its note. Raises `KubeError`."""
    found = await ApiObjects(client).get(_PATH)
    return {} if found is None else found.get("data") or {}


async def pause(client: ApiPort, activities: Collection[str], *, now: datetime, reason: str) -> Notes:
    """Pauses the activities and returns what is paused then. Raises `KubeError`."""
    note = note_of(now, await _user(client), reason)
    return await _change(client, lambda notes: paused(notes, activities, note))


async def resume(client: ApiPort, activities: Collection[str]) -> Notes:
    """Resumes the activities and returns what is still paused. Raises `KubeError`."""
    return await _change(client, lambda notes: resumed(notes, activities))


async def _change(client: ApiPort, changed: Callable[[Notes], Notes]) -> Notes:
    objects = ApiObjects(client)
    if await _is_shadow(objects):
        raise KubeError("the service in this cluster is a shadow: it does nothing that could be paused")
    for _ in range(_ATTEMPTS):
        found = await objects.get(_PATH)
        before: Notes = {} if found is None else found.get("data") or {}
        after = changed(before)
        if after == before:
            return before
        try:
            await _write(objects, found, before, after)
        except StatusError as error:
            if error.code not in {HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND}:
                raise
        else:
            return after
    raise KubeError(f"{_PATH}: others changed it {_ATTEMPTS} times meanwhile, try again")


async def _is_shadow(objects: ApiObjects) -> bool:
    """Are all Pods of the service shadows? False if there are none, or if the user may not see them."""
    try:
        pods = [pod async for pod in objects.each(_PODS, labels="app.kubernetes.io/name=slackwater", metadata_only=True)]
    except KubeError:
        return False
    names = [str((pod["metadata"].get("labels") or {}).get(SCHEDULER_NAME_LABEL, "")) for pod in pods]
    return bool(names) and all(name.endswith(SHADOW_SUFFIX) for name in names)


async def _write(objects: ApiObjects, found: Json | None, before: Notes, after: Notes) -> None:
    """Writes the notes if the ConfigMap has not changed since it was `found`. If no note is left, deletes the ConfigMap."""
    if found is None:
        metadata = {"name": PAUSE_CONFIG_MAP, "namespace": SCHEDULER_NAMESPACE}
        await objects.create(_COLLECTION, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": dict(after)})
        return
    version = {"resourceVersion": found["metadata"]["resourceVersion"]}
    if after:
        await objects.patch(_PATH, {"metadata": version, "data": {**dict.fromkeys(before), **after}})
    else:
        await objects.delete(_PATH, version)


async def _user(client: ApiPort) -> str:
    """The user name as which the API server authenticates this command."""
    review = await ApiObjects(client).create(_REVIEW, {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"})
    return str(review["status"]["userInfo"]["username"])
