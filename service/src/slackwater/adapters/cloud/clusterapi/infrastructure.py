"""Reads capacity, architecture and operating system of new machines from Cluster API's infrastructure templates.

Only `status.capacity` and `status.nodeInfo` are read. These are fields of Cluster API's contract, which all infrastructure
providers share. A template with a capacity is cached, since templates do not change. A template without one is read again at
the next call.
"""

from collections.abc import Collection
from typing import Final
from urllib.parse import quote

import msgspec

from slackwater.adapters.api_calls import ApiCalls, ask
from slackwater.adapters.api_objects import ObjectDecoder, Wire
from slackwater.adapters.cloud.apiserver import OK
from slackwater.adapters.cloud.clusterapi.annotations import NOTHING_SAID, Infrastructure
from slackwater.adapters.cloud.clusterapi.objects import API_GROUP, GroupWire, InfrastructureRefWire


class _NodeInfoWire(Wire):
    architecture: str = ""
    operating_system: str = ""


class _StatusWire(Wire):
    capacity: dict[str, str | int | float] | None = None
    node_info: _NodeInfoWire = msgspec.field(default_factory=_NodeInfoWire)


class _InfrastructureWire(Wire):
    status: _StatusWire = msgspec.field(default_factory=_StatusWire)


class _ResourceWire(Wire):
    name: str = ""
    kind: str = ""


class _ApiResourcesWire(Wire):
    resources: list[_ResourceWire] | None = None


_TEMPLATE: Final = ObjectDecoder(_InfrastructureWire)
_RESOURCES: Final = ObjectDecoder(_ApiResourcesWire)


class InfrastructureTemplates:
    """Reads and caches infrastructure templates. A template that the API server does not return is treated as an empty one."""

    def __init__(self, api: ApiCalls) -> None:
        self._api = api
        self._known: dict[tuple[str, InfrastructureRefWire], Infrastructure] = {}

    def keep(self, groups: Collection[GroupWire]) -> None:
        """Drops cached templates that none of these groups uses."""
        used = {_key(group) for group in groups}
        self._known = {key: said for key, said in self._known.items() if key in used}

    async def of(self, group: GroupWire) -> Infrastructure:
        """Returns what the group's infrastructure template specifies.

        :raises NotSent, Unanswered: there was no answer; a status other than 200 raises nothing.
        :raises msgspec.MsgspecError: the answer cannot be decoded.
        """
        key = _key(group)
        if not key[1].kind or not key[1].name:
            return NOTHING_SAID
        if key not in self._known:
            said = await self._read(*key)
            if not said.capacity:
                return said
            self._known[key] = said
        return self._known[key]

    async def _read(self, namespace: str, ref: InfrastructureRefWire) -> Infrastructure:
        version = ref.api_version
        if not version:
            answer = await ask(self._api, "GET", f"/apis/{ref.api_group}")
            if answer.status != OK:
                return NOTHING_SAID
            version = f"{ref.api_group}/{API_GROUP.decode(answer.body).preferred_version.version}"
        answer = await ask(self._api, "GET", f"/apis/{version}")
        found = _RESOURCES.decode(answer.body).resources if answer.status == OK else ()
        plural = next((each.name for each in found or () if each.kind == ref.kind and "/" not in each.name), None)
        if plural is None:
            return NOTHING_SAID
        path = f"/apis/{version}/namespaces/{quote(namespace, safe='')}/{plural}/{quote(ref.name, safe='')}"
        answer = await ask(self._api, "GET", path)
        if answer.status != OK:
            return NOTHING_SAID
        said = _TEMPLATE.decode(answer.body).status
        return Infrastructure(
            capacity=said.capacity or {},
            architecture=said.node_info.architecture,
            operating_system=said.node_info.operating_system,
        )


def _key(group: GroupWire) -> tuple[str, InfrastructureRefWire]:
    ref = group.spec.template.spec.infrastructure_ref
    return ref.namespace or group.metadata.namespace, ref
