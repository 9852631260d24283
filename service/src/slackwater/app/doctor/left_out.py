"""Which node groups are left out because something of them cannot be read, and why.

The running service says it in its status, whatever its providers are. NodePools and groups of Cluster API are read too, with
the user's rights, so that the check works before the service runs.
"""

from collections.abc import AsyncIterator
from datetime import datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from slackwater.adapters.api_calls import ApiPort, Read
from slackwater.adapters.cloud.karpenter.instance_types import read_instance_types
from slackwater.adapters.kube.errors import UNREADABLE, KubeError, refused
from slackwater.adapters.kube.objects import seconds_since
from slackwater.app.cleanup import LAST_UPDATED, STATUS_SECONDS
from slackwater.app.clouds import karpenter_groups, uses_karpenter
from slackwater.app.doctor import Check, named, ok, unknown, unseen, warning
from slackwater.app.doctor.ownership import of_cluster_api
from slackwater.app.other_autoscaler import status_path
from slackwater.app.settings import Settings
from slackwater.app.settings.autoscaling import Karpenter
from slackwater.ports.protocols import ProviderError
from slackwater.runtime.autoscaler.loop_record import LEFT_OUT

_NAME: Final = "groups left out"
_SECONDS: Final = 30.0
_ADVICE: Final = "mend what is named; until then nothing of it is added or removed, and other groups are served as ever"
_UNREAD: Final = "slackwater explain group NAME asks the service"


async def groups_left_out(client: ApiPort, settings: Settings, now: datetime) -> Check:
    """The check. `now` is the API server's time."""
    try:
        found = {*await _of_the_service(client, settings.autoscaler.status_config_map, now), *_of_the_file(settings)}
        found |= {text async for text in _read_now(client, settings)}
    except KubeError as error:
        return unseen(_NAME, error, _UNREAD)
    except ProviderError as error:
        return unknown(_NAME, str(error), _UNREAD)
    return warning(_NAME, named(sorted(found)), _ADVICE) if found else ok(_NAME, "none")


async def _read_now(client: ApiPort, settings: Settings) -> AsyncIterator[str]:
    groups = [*await of_cluster_api(client, settings)]
    if uses_karpenter(settings):
        groups += await karpenter_groups(settings, client, ()).groups(timeout_seconds=_SECONDS)
    for group in groups:
        if group.unreadable:
            yield group.unreadable


def _of_the_file(settings: Settings) -> list[str]:
    """What of the file of instance types cannot be read, if the file is on this machine."""
    path = (settings.autoscaler.providers.karpenter or Karpenter()).instance_types
    if path is None or not Path(path).is_file():
        return []
    try:
        return list(read_instance_types(path).problems)
    except ValueError as error:
        return [str(error)]


async def _of_the_service(client: ApiPort, name: str, now: datetime) -> list[str]:
    """What the service's last loop left out; nothing if it has not run lately. Raises `KubeError`."""
    answer = await client.send(Read(status_path(name), timeout_seconds=_SECONDS))
    if answer.status == HTTPStatus.NOT_FOUND:
        return []
    if answer.status != HTTPStatus.OK:
        raise refused(f"get configmaps {name}", answer)
    try:
        found = msgspec.json.decode(answer.body)
        of_now = seconds_since(found["metadata"]["annotations"][LAST_UPDATED], now) < STATUS_SECONDS
        notes: Any = yaml.safe_load(found["data"]["status"])["slackwater"]["notes"]
        return [str(note).removeprefix(LEFT_OUT) for note in notes if of_now and str(note).startswith(LEFT_OUT)]
    except (*UNREADABLE, yaml.YAMLError, AttributeError, KeyError, TypeError):
        return []  # it is another's, or empty
