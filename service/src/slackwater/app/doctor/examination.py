"""Runs all checks of `slackwater doctor` in their order, and measures how far the clocks are apart."""

from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Final

import msgspec

from slackwater.adapters.api_calls import ApiPort, Call
from slackwater.adapters.kube.errors import KubeError, refused
from slackwater.adapters.kube.objects import ApiObjects
from slackwater.app.doctor import agents, api_server, autoscalers, installation
from slackwater.app.doctor.autoscalers import CLOCK_SECONDS
from slackwater.app.doctor.check import Check, ok, problem, warning
from slackwater.app.settings import Settings
from slackwater_protocol.names import SCHEDULER_NAMESPACE

_SYSTEM: Final = f"/api/v1/namespaces/{SCHEDULER_NAMESPACE}"


async def examine(
    client: ApiPort, settings: Settings | None, clock: Callable[[], datetime], *, probe: agents.Probe | None = None
) -> AsyncIterator[Check]:
    """Yields the results of all checks, one after another.

    If `settings` is None, the settings of the installed service are used, or the defaults if there are none. Raises `KubeError`
    if the API server cannot be asked at all.
    """
    objects, before = ApiObjects(client), clock()
    answer = await client.send(Call("GET", "/version", timeout_seconds=10.0))
    if answer.status != HTTPStatus.OK:
        raise refused("get /version", answer)
    after, version = clock(), msgspec.json.decode(answer.body)
    yield api_server.version(version)
    server_time = _date(answer.headers.get("Date", ""))
    yield _clock(server_time, before, after)
    now = server_time or after  # ages of Leases are by the API server's clock
    yield await installation.own_rights(objects)
    if settings is None:
        settings, configuration = await installation.installed_settings(objects)
        yield configuration
    async for check in _of_the_cluster(client, objects, settings, str(version.get("gitVersion", "")), now):
        yield check
    pods = await installation.service_pods(objects, settings)
    async for check in installation.account_and_pods(objects, settings, pods):
        yield check
    async for check in agents.agents(objects, settings, [] if isinstance(pods, Check) else pods, probe, now):
        yield check
    yield await installation.running_pauses(client)


async def _of_the_cluster(
    client: ApiPort, objects: ApiObjects, settings: Settings, git_version: str, now: datetime
) -> AsyncIterator[Check]:
    yield await api_server.flags(client)
    yield await api_server.feature_gates(client, settings, git_version)
    async for check in api_server.served_apis(objects, settings):
        yield check
    yield await api_server.component_versions(objects, git_version, await _scheduler_images(objects))
    leases = await autoscalers.leases_of(objects)
    if not isinstance(leases, KubeError):
        yield autoscalers.clocks_ahead(leases, now)
    async for check in autoscalers.others(objects, settings, leases, now):
        yield check
    yield await autoscalers.instances(objects, settings)


def _date(text: str) -> datetime | None:
    """Parses the value of a Date header, which has whole seconds; None if it is no date."""
    try:
        return parsedate_to_datetime(text).astimezone(UTC)
    except (ValueError, TypeError):
        return None


def _clock(server_time: datetime | None, before: datetime, after: datetime) -> Check:
    """Checks how far our clock is from the API server's, which answered between `before` and `after`."""
    if server_time is None:
        return warning("clock", "the API server sent no date", "compare the clocks by hand")
    apart = max(0.0, (server_time - after).total_seconds(), (before - server_time).total_seconds() - 1)
    seen = f"{apart:.0f} s from the API server's"
    if apart <= CLOCK_SECONDS:
        return ok("clock", seen)
    return problem("clock", seen, "synchronise the clocks: Leases and removals compare them")


async def _scheduler_images(objects: ApiObjects) -> list[str]:
    """The image tags of the kube-scheduler containers in kube-system; none if Pods cannot be listed."""
    try:
        pods = [pod async for pod in objects.each(f"{_SYSTEM}/pods")]
    except KubeError:
        return []
    containers = [each for pod in pods for each in (pod.get("spec") or {}).get("containers") or ()]
    images = [str(each.get("image", "")) for each in containers if each.get("name") == "kube-scheduler"]
    return [image.partition("@")[0].rpartition(":")[2] for image in images]
