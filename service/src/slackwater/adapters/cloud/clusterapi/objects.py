"""Reads Cluster API's objects: structs of the fields that are used, their paths, and the names of groups.

Both versions of the contract (v1beta1, v1beta2) have these fields in the same places, except for references.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final, Literal
from urllib.parse import quote

import msgspec

from slackwater.adapters.api_calls import ApiCalls, ask
from slackwater.adapters.api_objects import ObjectDecoder, ObjectMetaWire, ObjectWire, TaintWire, Wire
from slackwater.adapters.cloud.apiserver import NOT_FOUND, OK, listed, refusal
from slackwater.model.nodegroups import GroupName
from slackwater_protocol.names import CLUSTER_API_GROUP

Kind = Literal["MachineDeployment", "MachineSet", "MachinePool"]
PLURALS: Final[dict[Kind, str]] = {
    "MachineDeployment": "machinedeployments",
    "MachineSet": "machinesets",
    "MachinePool": "machinepools",
}
MACHINES: Final = "machines"
_GROUP_PATH: Final = f"/apis/{CLUSTER_API_GROUP}"


class NodeRefWire(Wire):
    name: str = ""


class MachineSpecWire(Wire):
    provider_id: str = msgspec.field(name="providerID", default="")


class MachineStatusWire(Wire):
    node_ref: NodeRefWire | None = None
    failure_reason: str = ""
    failure_message: str = ""
    phase: str = ""


class MachineWire(ObjectWire):
    spec: MachineSpecWire = msgspec.field(default_factory=MachineSpecWire)
    status: MachineStatusWire = msgspec.field(default_factory=MachineStatusWire)


class InfrastructureRefWire(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The reference to an infrastructure template. v1beta1 sets `api_version` (group/version), v1beta2 sets `api_group`."""

    kind: str = ""
    name: str = ""
    namespace: str = ""
    api_version: str = ""
    api_group: str = ""


class MachineTemplateSpecWire(ObjectWire):
    taints: list[TaintWire] | None = None
    infrastructure_ref: InfrastructureRefWire = msgspec.field(default_factory=InfrastructureRefWire)


class MachineTemplateWire(ObjectWire):
    spec: MachineTemplateSpecWire = msgspec.field(default_factory=MachineTemplateSpecWire)


class GroupSpecWire(Wire):
    replicas: int = 0
    cluster_name: str = ""
    provider_id_list: list[str] | None = msgspec.field(name="providerIDList", default=None)
    template: MachineTemplateWire = msgspec.field(default_factory=MachineTemplateWire)


class GroupStatusWire(Wire):
    node_refs: list[NodeRefWire] | None = None


class GroupWire(ObjectWire):
    spec: GroupSpecWire = msgspec.field(default_factory=GroupSpecWire)
    status: GroupStatusWire = msgspec.field(default_factory=GroupStatusWire)


class _PreferredVersionWire(Wire):
    version: str = ""


class ApiGroupWire(Wire):
    preferred_version: _PreferredVersionWire = msgspec.field(default_factory=_PreferredVersionWire)


API_GROUP: Final = ObjectDecoder(ApiGroupWire)
_GROUP: Final = ObjectDecoder(GroupWire)


@dataclass(frozen=True, slots=True, order=True)
class GroupId:
    """The identity of a group, in text `kind/namespace/name`: `MachineDeployment/default/md-0`."""

    kind: Kind
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}/{self.namespace}/{self.name}"

    @property
    def group(self) -> GroupName:
        return GroupName(str(self))


def read_group_id(name: str) -> GroupId | None:
    """Parses the text of a `GroupId`; None if `name` does not have its form."""
    parts = name.split("/")
    if len(parts) != 3 or not all(parts):
        return None
    for kind in PLURALS:
        if kind == parts[0]:
            return GroupId(kind, parts[1], parts[2])
    return None


class ClusterApiObjects:
    """Reads groups and Machines of one namespace, or of all if `namespace` is None.

    A type that is not installed has no objects. Failures are raised as `ProviderError`.
    """

    def __init__(self, api: ApiCalls, *, namespace: str | None) -> None:
        self._api = api
        self._namespace = namespace
        self._version: str | None = None

    async def groups(self, kind: Kind, namespace: str | None = None) -> AsyncIterator[GroupWire]:
        path = await self._collection(PLURALS[kind], namespace or self._namespace)
        async for item in listed(self._api, path, GroupWire):
            yield item

    async def machines(self, namespace: str | None = None) -> AsyncIterator[MachineWire]:
        path = await self._collection(MACHINES, namespace or self._namespace)
        async for item in listed(self._api, path, MachineWire):
            yield item

    async def group(self, group: GroupId) -> GroupWire | None:
        """Reads one group; None if it does not exist."""
        path = await self.group_path(group)
        answer = await ask(self._api, "GET", path)
        if answer.status == NOT_FOUND:
            return None
        if answer.status != OK:
            raise refusal(group.group, f"read {path}", answer)
        return _GROUP.decode(answer.body)

    async def group_path(self, group: GroupId) -> str:
        return await self._object(PLURALS[group.kind], group.namespace, group.name)

    async def machine_path(self, machine: ObjectMetaWire) -> str:
        return await self._object(MACHINES, machine.namespace, machine.name)

    async def _object(self, plural: str, namespace: str, name: str) -> str:
        return f"{await self._collection(plural, namespace)}/{quote(name, safe='')}"

    async def _collection(self, plural: str, namespace: str | None) -> str:
        within = "" if namespace is None else f"namespaces/{quote(namespace, safe='')}/"
        return f"{_GROUP_PATH}/{await self._preferred_version()}/{within}{plural}"

    async def _preferred_version(self) -> str:
        """Returns the version of Cluster API's objects that the API server prefers; `v1beta1` if Cluster API is not installed.

        The version is cached once Cluster API is installed.
        """
        if self._version is not None:
            return self._version
        answer = await ask(self._api, "GET", _GROUP_PATH)
        if answer.status == NOT_FOUND:
            return "v1beta1"
        if answer.status != OK:
            raise refusal(None, f"read {_GROUP_PATH}", answer)
        self._version = API_GROUP.decode(answer.body).preferred_version.version
        return self._version
