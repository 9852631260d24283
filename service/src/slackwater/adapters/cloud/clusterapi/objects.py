"""Reads and writes Cluster API's objects, and infrastructure templates: structs of the fields that are used, paths, names of
groups.

Both versions of the contract (v1beta1, v1beta2) have these fields in the same places, except for references.
"""

from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass
from typing import Final, Literal
from urllib.parse import quote

import msgspec

from slackwater.adapters.api_calls import MERGE_PATCH, ApiCalls, ApiReads, ask, get
from slackwater.adapters.api_objects import ObjectDecoder, ObjectMetaWire, ObjectWire, Wire
from slackwater.adapters.cloud.apiserver import CONFLICT, NOT_FOUND, OK, Undecoded, listed, refusal
from slackwater.model.nodegroups import GroupName
from slackwater.model.objects import Taint
from slackwater_protocol.names import CLUSTER_API_GROUP

Kind = Literal["MachineDeployment", "MachineSet", "MachinePool"]
PLURALS: Final[dict[Kind, str]] = {
    "MachineDeployment": "machinedeployments",
    "MachineSet": "machinesets",
    "MachinePool": "machinepools",
}
MACHINES: Final = "machines"
#: Cluster API deletes Machines with this annotation first when their group shrinks.
DELETE_MACHINE: Final = f"{CLUSTER_API_GROUP}/delete-machine"
_DELETED: Final = frozenset({OK, 202, NOT_FOUND, CONFLICT})
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
    """`unreadable`, which is no field of the API: why only the metadata could be read; "" if all could."""

    spec: MachineSpecWire = msgspec.field(default_factory=MachineSpecWire)
    status: MachineStatusWire = msgspec.field(default_factory=MachineStatusWire)
    unreadable: str = msgspec.field(name="", default="")


class InfrastructureRefWire(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The reference to an infrastructure template. v1beta1 sets `api_version` (group/version), v1beta2 sets `api_group`."""

    kind: str = ""
    name: str = ""
    namespace: str = ""
    api_version: str = ""
    api_group: str = ""


class MachineTemplateSpecWire(ObjectWire):
    taints: list[Taint] | None = None
    infrastructure_ref: InfrastructureRefWire = msgspec.field(default_factory=InfrastructureRefWire)


class MachineTemplateWire(ObjectWire):
    spec: MachineTemplateSpecWire = msgspec.field(default_factory=MachineTemplateSpecWire)


class GroupSpecWire(Wire):
    replicas: int = 0
    cluster_name: str = ""
    provider_id_list: list[str] | None = msgspec.field(name="providerIDList", default=None)
    template: MachineTemplateWire = msgspec.field(default_factory=MachineTemplateWire)


class GroupWire(ObjectWire):
    """`unreadable`: as of a `MachineWire`."""

    spec: GroupSpecWire = msgspec.field(default_factory=GroupSpecWire)
    unreadable: str = msgspec.field(name="", default="")


class _PreferredVersionWire(Wire):
    version: str = ""


class _ApiGroupWire(Wire):
    preferred_version: _PreferredVersionWire = msgspec.field(default_factory=_PreferredVersionWire)


class NodeInfoWire(Wire):
    architecture: str = ""
    operating_system: str = ""


class Infrastructure(Wire):
    """What an infrastructure template specifies for its machines, in its status. The group's annotations take precedence."""

    capacity: dict[str, str | int | float] | None = None
    node_info: NodeInfoWire = msgspec.field(default_factory=NodeInfoWire)


NOTHING_SAID: Final = Infrastructure()


class _InfrastructureWire(Wire):
    status: Infrastructure = msgspec.field(default_factory=Infrastructure)


class _ResourceWire(Wire):
    name: str = ""
    kind: str = ""


class _ApiResourcesWire(Wire):
    resources: list[_ResourceWire] | None = None


_TEMPLATE: Final = ObjectDecoder(_InfrastructureWire)
_RESOURCES: Final = ObjectDecoder(_ApiResourcesWire)
_API_GROUP: Final = ObjectDecoder(_ApiGroupWire)
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


class ClusterApiReads:
    """Reads groups and Machines of one namespace, or of all if `namespace` is None.

    A type that is not installed has no objects. Failures are raised as `ProviderError`.
    """

    def __init__(self, api: ApiReads, *, namespace: str | None) -> None:
        self._reads = api
        self._namespace = namespace
        self._version: str | None = None

    async def groups(self, kind: Kind, namespace: str | None = None) -> AsyncIterator[GroupWire]:
        path = await self._collection(PLURALS[kind], namespace or self._namespace)
        async for item in listed(self._reads, path, GroupWire):
            yield GroupWire(item.metadata, unreadable=item.problem) if isinstance(item, Undecoded) else item

    async def machines(self, namespace: str | None = None) -> AsyncIterator[MachineWire]:
        path = await self._collection(MACHINES, namespace or self._namespace)
        async for item in listed(self._reads, path, MachineWire):
            yield MachineWire(item.metadata, unreadable=item.problem) if isinstance(item, Undecoded) else item

    async def group(self, group: GroupId) -> GroupWire | None:
        """Reads one group; None if it does not exist."""
        path = await self.group_path(group)
        answer = await get(self._reads, path)
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
        answer = await get(self._reads, _GROUP_PATH)
        if answer.status == NOT_FOUND:
            return "v1beta1"
        if answer.status != OK:
            raise refusal(None, f"read {_GROUP_PATH}", answer)
        self._version = _API_GROUP.decode(answer.body).preferred_version.version
        return self._version


class ClusterApiObjects(ClusterApiReads):
    """Reads and writes groups and Machines."""

    def __init__(self, api: ApiCalls, *, namespace: str | None) -> None:
        super().__init__(api, namespace=namespace)
        self._api = api

    async def scale(self, group: GroupId, read: GroupWire, *, to: int) -> Literal[True] | None:
        """Sets the group's size to `to`; returns None, without an effect, if the group has changed since `read` was read."""
        path = f"{await self.group_path(group)}/scale"
        body = {
            "apiVersion": "autoscaling/v1",
            "kind": "Scale",
            "metadata": {
                "name": group.name,
                "namespace": group.namespace,
                "uid": read.metadata.uid,
                "resourceVersion": read.metadata.resource_version,
            },
            "spec": {"replicas": to},
        }
        answer = await ask(self._api, "PUT", path, body=body)
        if answer.status == CONFLICT:
            return None
        if answer.status != OK:
            raise refusal(group.group, f"scale {path}", answer)
        return True

    async def mark(self, group: GroupName, machine: MachineWire, value: str | None) -> None:
        """Annotates the Machine so that Cluster API's controller deletes it before others; with None removes the annotation.
        Does nothing if the Machine is gone."""
        path = await self.machine_path(machine.metadata)
        patch = {"metadata": {"uid": machine.metadata.uid, "annotations": {DELETE_MACHINE: value}}}
        answer = await ask(self._api, "PATCH", path, body=patch, content_type=MERGE_PATCH)
        if answer.status not in (OK, NOT_FOUND):
            raise refusal(group, f"mark {path}", answer)

    async def delete(self, group: GroupName, machine: MachineWire) -> None:
        """Deletes the Machine. Its UID is a precondition: a new Machine of the same name stays. Does nothing if it is gone."""
        path = await self.machine_path(machine.metadata)
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": machine.metadata.uid}}
        answer = await ask(self._api, "DELETE", path, body=body)
        if answer.status not in _DELETED:
            raise refusal(group, f"delete {path}", answer)


class InfrastructureTemplates:
    """Reads infrastructure templates. One that the API server does not return is treated as an empty one.

    Only `status.capacity` and `status.nodeInfo` are read: fields of Cluster API's contract, which all infrastructure providers
    share. A template with a capacity is cached, since templates do not change. One without is read again at the next call.
    """

    def __init__(self, api: ApiReads) -> None:
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
            answer = await get(self._api, f"/apis/{ref.api_group}")
            if answer.status != OK:
                return NOTHING_SAID
            version = f"{ref.api_group}/{_API_GROUP.decode(answer.body).preferred_version.version}"
        answer = await get(self._api, f"/apis/{version}")
        found = _RESOURCES.decode(answer.body).resources if answer.status == OK else ()
        plural = next((each.name for each in found or () if each.kind == ref.kind and "/" not in each.name), None)
        if plural is None:
            return NOTHING_SAID
        path = f"/apis/{version}/namespaces/{quote(namespace, safe='')}/{plural}/{quote(ref.name, safe='')}"
        answer = await get(self._api, path)
        if answer.status != OK:
            return NOTHING_SAID
        return _TEMPLATE.decode(answer.body).status


def _key(group: GroupWire) -> tuple[str, InfrastructureRefWire]:
    ref = group.spec.template.spec.infrastructure_ref
    return ref.namespace or group.metadata.namespace, ref
