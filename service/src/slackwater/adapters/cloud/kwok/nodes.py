"""The Node objects of kwok groups: builds, lists, creates, boots and deletes them. Failures are raised as `ProviderError`."""

import hashlib
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

import msgspec

from slackwater.adapters.cloud.apiserver import (
    CONFLICT,
    CREATED,
    MERGE_PATCH,
    NOT_FOUND,
    OK,
    Answer,
    ApiServer,
    MetaWire,
    Wire,
    listed,
    refusal,
)
from slackwater.adapters.cloud.bounded import repeated
from slackwater.adapters.cloud.kwok.fates import FAIR, Weather
from slackwater.model.ids import NodeName
from slackwater.model.nodegroups import GroupName, InstanceId
from slackwater.model.objects import Node
from slackwater_protocol.names import NODE_GROUP

NODES_PATH: Final = "/api/v1/nodes"
ID_PREFIX: Final = "kwok://"
#: The annotation with which KWOK's controller keeps a Node alive.
_KWOK: Final = {"kwok.x-k8s.io/node": "fake"}
_NOT_READY: Final = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
#: Statuses of a successful deletion. 202: the Node has finalizers and is being deleted.
_DELETED: Final = frozenset({OK, 202, NOT_FOUND})
#: Limit of a Node name's part before the number, so that the whole name is short enough.
_LONGEST_PREFIX: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class KwokGroup:
    """The configuration of one group. `body` is a Node object without a name (labels, taints, capacity), as JSON values.

    `template` is the same Node, decoded.
    """

    name: GroupName
    min_size: int
    max_size: int
    template: Node
    body: Mapping[str, Any]
    weather: Weather = FAIR

    def node_name(self, number: int) -> NodeName:
        """Returns the Node name of a machine. Names sort like the numbers (below a million), and differ between groups."""
        return NodeName(f"{_prefix(self.name)}-{number:06}")

    def number_of(self, name: str) -> int | None:
        """Returns the number in a Node's name; None if the name is not one of this group's."""
        prefix, _, number = name.rpartition("-")
        return int(number) if prefix == _prefix(self.name) and number.isdecimal() and number.isascii() else None


def _prefix(name: str) -> str:
    plain = re.sub(r"[^a-z0-9-]", "-", name.lower())[:_LONGEST_PREFIX].strip("-")
    return plain if plain == name else f"{plain}-{hashlib.sha256(name.encode()).hexdigest()[:6]}"


class _SpecWire(Wire):
    provider_id: str = msgspec.field(name="providerID", default="")


class _NodeWire(Wire):
    metadata: MetaWire = msgspec.field(default_factory=MetaWire)
    spec: _SpecWire = msgspec.field(default_factory=_SpecWire)


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A Node with the group's label, also if another client created it. `booted`: it has KWOK's annotation."""

    name: NodeName
    uid: str
    id: InstanceId
    booted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Members:
    """A group's Nodes by name: `leaving` are being deleted, `there` are all others."""

    there: dict[NodeName, Member] = field(default_factory=dict)
    leaving: dict[NodeName, Member] = field(default_factory=dict)


async def members(api: ApiServer, group: GroupName | None = None) -> dict[GroupName, Members]:
    """Lists the Nodes of one group, or of all groups."""
    found: defaultdict[GroupName, Members] = defaultdict(Members)
    selector = NODE_GROUP if group is None else f"{NODE_GROUP}={group}"
    async for node in listed(api, NODES_PATH, _NodeWire, selector=selector):
        meta = node.metadata
        name = NodeName(meta.name)
        member = Member(
            name=name,
            uid=meta.uid,
            id=InstanceId(node.spec.provider_id or ID_PREFIX + name),
            booted=_KWOK.items() <= (meta.annotations or {}).items(),
        )
        of = found[GroupName((meta.labels or {})[NODE_GROUP])]
        (of.there if meta.deletion_timestamp is None else of.leaving)[name] = member
    return found


async def create(api: ApiServer, group: KwokGroup, name: NodeName, *, booted: bool) -> None:
    """Creates a Node; does nothing if it exists already."""
    answer = await api.ask("POST", NODES_PATH, body=_new(group, name, booted=booted))
    if answer.status not in (CREATED, CONFLICT):
        raise refusal(group.name, f"create node {name}", answer)


async def boot(api: ApiServer, group: GroupName, member: Member) -> None:
    """Adds KWOK's annotation and removes the not-ready taint; does nothing if the Node is gone."""
    answer = await repeated(lambda: _booted(api, member))
    if answer.status not in (OK, NOT_FOUND):
        raise refusal(group, f"boot node {member.name}", answer)


async def _booted(api: ApiServer, member: Member) -> Answer | None:
    """Makes one attempt to boot a Node; returns None if the Node has changed since it was read.

    The patch has the resourceVersion as precondition, since a merge patch replaces the whole list of taints.
    """
    path = _path(member.name)
    read = await api.ask("GET", path)
    if read.status != OK:
        return read
    node = msgspec.json.decode(read.body)
    meta = node["metadata"]
    if meta["uid"] != member.uid:
        return Answer(NOT_FOUND)
    taints = [taint for taint in node["spec"].get("taints", ()) if taint["key"] != _NOT_READY["key"]]
    patch = {
        "metadata": {"uid": member.uid, "resourceVersion": meta["resourceVersion"], "annotations": _KWOK},
        "spec": {"taints": taints or None},
    }
    answer = await api.ask("PATCH", path, body=patch, content_type=MERGE_PATCH)
    return None if answer.status == CONFLICT else answer


async def delete(api: ApiServer, group: GroupName, member: Member) -> None:
    """Deletes the Node with this UID; does nothing if it is gone, even if another Node has its name now."""
    body = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": member.uid}}
    answer = await api.ask("DELETE", _path(member.name), body=body)
    if answer.status not in _DELETED and answer.status != CONFLICT:
        raise refusal(group, f"delete node {member.name}", answer)


def _path(name: NodeName) -> str:
    return f"{NODES_PATH}/{quote(name, safe='')}"


def _new(group: KwokGroup, name: NodeName, *, booted: bool) -> dict[str, Any]:
    body, meta, spec = group.body, group.body.get("metadata", {}), group.body.get("spec", {})
    labels = {**meta.get("labels", {}), "kubernetes.io/hostname": name, NODE_GROUP: group.name}
    taints = [*spec.get("taints", ()), *(() if booted else (_NOT_READY,))]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": _KWOK if booted else {}},
        "spec": {"providerID": ID_PREFIX + name, "taints": taints},
        "status": body.get("status", {}),
    }
