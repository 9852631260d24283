"""Whether the pods that are handed over by namespace or scheduler name exist, and whether their kube-scheduler asks Slackwater.

Which extenders a kube-scheduler has, only its file says, which is looked at where the configuration names it.
"""

from collections.abc import AsyncIterator
from http import HTTPStatus
from pathlib import Path
from typing import Final

import msgspec

from slackwater.adapters.api_calls import ApiPort, Read
from slackwater.adapters.kube.errors import KubeError, refused
from slackwater.app.doctor import Check, named, ok, problem, unseen, warning
from slackwater.app.scheduler_config.check import check
from slackwater.app.scheduler_config.filters_and_scores import filter_profiles_of
from slackwater.app.settings import Settings, UnreadableSettings

_NAME: Final = "pods handed over"
_SECONDS: Final = 10.0
#: Findings after which kube-scheduler does not start, or does not ask.
_UNASKED: Final = frozenset({"no-extender", "two-binders"})


async def pods_handed_over(client: ApiPort, settings: Settings) -> Check:
    """The check. Problems are names that the cluster does not have, and a kube-scheduler that does not ask."""
    said = settings.shadow
    try:
        if missing := [name async for name in _missing_namespaces(client, said.except_namespaces)]:
            seen = f"shadow.exceptNamespaces names {named(missing)}, which the cluster does not have"
            return problem(_NAME, seen, "name namespaces that are there: no pod is handed over by these")
        unused = [name for name in said.except_scheduler_names if not await _is_used(client, name)]
    except KubeError as error:
        return unseen(_NAME, error, "ask for the rights to get namespaces and to list pods")
    if why := _unasked(settings):
        return problem(_NAME, why, "slackwater scheduler-config check FILE says what is wrong")
    if unused:
        seen = f"shadow.exceptSchedulerNames names {named(unused)}, which no pod has as its schedulerName"
        return warning(_NAME, seen, "name those of the pods that are meant")
    return ok(_NAME, f"pods of {named([*said.except_namespaces, *said.except_scheduler_names])}; all others are left alone")


async def _missing_namespaces(client: ApiPort, names: tuple[str, ...]) -> AsyncIterator[str]:
    for name in names:
        answer = await client.send(Read(f"/api/v1/namespaces/{name}", timeout_seconds=_SECONDS))
        if answer.status == HTTPStatus.NOT_FOUND:
            yield name
        elif answer.status != HTTPStatus.OK:
            raise refused(f"get namespaces {name}", answer)


async def _is_used(client: ApiPort, scheduler_name: str) -> bool:
    """Has a pod this `schedulerName`? One is asked for."""
    params = {"fieldSelector": f"spec.schedulerName={scheduler_name}", "limit": "1"}
    answer = await client.send(Read("/api/v1/pods", params=params, timeout_seconds=_SECONDS))
    if answer.status != HTTPStatus.OK:
        raise refused("list pods", answer)
    return bool(msgspec.json.decode(answer.body).get("items"))


def _unasked(settings: Settings) -> str:
    """Why kube-scheduler asks Slackwater about none of the pods, or not about those of a name; empty if it does, or if its file
    is not known here."""
    path = settings.extender.scheduler_config
    if path is None:
        return ""
    try:
        findings = check(Path(path).read_text(encoding="utf-8"), settings)
        profiles = filter_profiles_of(settings)
    except (OSError, ValueError, UnreadableSettings) as error:
        return f"extender.schedulerConfig: {error}"
    if found := next((each for each in findings if each.trap in _UNASKED), None):
        return f"{path}: {found.why}"
    if others := sorted(set(settings.shadow.except_scheduler_names) - profiles.keys()):
        return f"{path} has no profile {named(others)}, which shadow.exceptSchedulerNames names"
    return ""
