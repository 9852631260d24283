"""The machines of kwok groups: their Node objects, their simulated course, and the record of requested machines.

- `members`, `create`, `boot`, `delete`: the Node objects. Failures are raised as `ProviderError`.
- `timeline_of`, `SimulatedFailures`: what becomes of a requested machine. It depends on seed and name only, so all processes
  agree on it.
- `Record`: the machines that were requested and are not up yet.
"""

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, Literal
from urllib.parse import quote

import anyio
import msgspec

from slackwater.adapters.api_calls import MERGE_PATCH, ApiCalls, ApiReads, Response, ask, get
from slackwater.adapters.api_objects import ConfigMapWire, ObjectDecoder, ObjectWire, Wire
from slackwater.adapters.cloud.apiserver import CONFLICT, CREATED, NOT_FOUND, OK, listed, refusal, repeated
from slackwater.model.ids import NodeName
from slackwater.model.nodegroups import GroupName, InstanceId
from slackwater.model.objects import Node
from slackwater_protocol.names import NODE_GROUP

#: What becomes of a requested machine. fine: its Node appears and boots. failed: an error appears instead of a Node.
#: silent: the machine runs, but no Node appears. unready: its Node appears, but never boots.
MachineOutcome = Literal["fine", "failed", "silent", "unready"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedFailures:
    """The simulated behaviour of a group's cloud.

    `appear_...` is the time until a Node appears, `boot_...` from there until it boots; seconds. Each is `..._seconds` plus a
    random part, uniformly distributed between 0 and `..._spread_seconds`. `failing`, `silent` and `unready` are shares of all
    machines; together at most 1. `stock` is the number of available machines: others are out of resources until some are
    deleted. `quota` is the greatest size that the group may grow to. None means no limit.
    """

    appear_seconds: float = 0.0
    appear_spread_seconds: float = 0.0
    boot_seconds: float = 0.0
    boot_spread_seconds: float = 0.0
    failing: float = 0.0
    silent: float = 0.0
    unready: float = 0.0
    stock: int | None = None
    quota: int | None = None


FAIR = SimulatedFailures()


@dataclass(frozen=True, slots=True)
class MachineTimeline:
    """The simulated course of one machine. `appears_after` and `boots_after` are seconds since it was requested."""

    ending: MachineOutcome
    appears_after: float
    boots_after: float


def timeline_of(simulated_failures: SimulatedFailures, seed: int, name: str) -> MachineTimeline:
    """Returns the course of machine `name`; the same for the same seed and name."""
    draw = Random(f"{seed}/{name}").random
    drawn, appear, boot = draw(), draw(), draw()
    appears = simulated_failures.appear_seconds + appear * simulated_failures.appear_spread_seconds
    return MachineTimeline(
        _machine_outcome(simulated_failures, drawn),
        appears,
        appears + simulated_failures.boot_seconds + boot * simulated_failures.boot_spread_seconds,
    )


def _machine_outcome(simulated_failures: SimulatedFailures, drawn: float) -> MachineOutcome:
    if drawn < simulated_failures.failing:
        return "failed"
    if drawn < simulated_failures.failing + simulated_failures.silent:
        return "silent"
    return "unready" if drawn < simulated_failures.failing + simulated_failures.silent + simulated_failures.unready else "fine"


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
    simulated_failures: SimulatedFailures = FAIR

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


class _NodeWire(ObjectWire):
    spec: _SpecWire = msgspec.field(default_factory=_SpecWire)


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A Node of a KWOK node group: it has the group's label, no matter who created it. `booted`: it has the annotation
    `kwok.x-k8s.io/node`, with which KWOK's controller keeps it alive."""

    name: NodeName
    uid: str
    id: InstanceId
    booted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Members:
    """A group's Nodes by name: `leaving` are being deleted, `there` are all others."""

    there: dict[NodeName, Member] = field(default_factory=dict)
    leaving: dict[NodeName, Member] = field(default_factory=dict)


async def members(api: ApiReads, group: GroupName | None = None) -> dict[GroupName, Members]:
    """Lists the Nodes of one group, or of all groups if `group` is None. Returns them by group."""
    found: defaultdict[GroupName, Members] = defaultdict(Members)
    selector = NODE_GROUP if group is None else f"{NODE_GROUP}={group}"
    async for node in listed(api, NODES_PATH, _NodeWire, selector=selector):
        meta = node.metadata
        name = NodeName(meta.name)
        member = Member(
            name=name,
            uid=meta.uid,
            id=InstanceId((node.spec.provider_id if isinstance(node, _NodeWire) else "") or ID_PREFIX + name),
            booted=_KWOK.items() <= (meta.annotations or {}).items(),
        )
        of = found[GroupName((meta.labels or {})[NODE_GROUP])]
        (of.there if meta.deletion_timestamp is None else of.leaving)[name] = member
    return found


async def create(api: ApiCalls, group: KwokGroup, name: NodeName, *, booted: bool) -> None:
    """Creates a Node; does nothing if it exists already."""
    answer = await ask(api, "POST", NODES_PATH, body=_new(group, name, booted=booted))
    if answer.status not in (CREATED, CONFLICT):
        raise refusal(group.name, f"create node {name}", answer)


async def boot(api: ApiCalls, group: GroupName, member: Member) -> None:
    """Adds KWOK's annotation to the Node and removes its not-ready taint; does nothing if the Node is gone."""
    answer = await repeated(lambda: _boot(api, member))
    if answer.status not in (OK, NOT_FOUND):
        raise refusal(group, f"boot node {member.name}", answer)


async def _boot(api: ApiCalls, member: Member) -> Response | None:
    """Makes one attempt to boot a Node; returns None if the Node has changed since it was read.

    The patch has the resourceVersion as precondition, since a merge patch replaces the whole list of taints.
    """
    path = _path(member.name)
    read = await get(api, path)
    if read.status != OK:
        return read
    node = msgspec.json.decode(read.body)
    meta = node["metadata"]
    if meta["uid"] != member.uid:
        return Response(NOT_FOUND)
    taints = [taint for taint in node["spec"].get("taints", ()) if taint["key"] != _NOT_READY["key"]]
    patch = {
        "metadata": {"uid": member.uid, "resourceVersion": meta["resourceVersion"], "annotations": _KWOK},
        "spec": {"taints": taints or None},
    }
    answer = await ask(api, "PATCH", path, body=patch, content_type=MERGE_PATCH)
    return None if answer.status == CONFLICT else answer


async def delete(api: ApiCalls, group: GroupName, member: Member) -> None:
    """Deletes the Node. Its UID is a precondition, so a new Node of the same name stays. Does nothing if the Node is gone."""
    body = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": member.uid}}
    answer = await ask(api, "DELETE", _path(member.name), body=body)
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


class Machines(msgspec.Struct, frozen=True, rename="camel"):
    """The requested machines of one group that are not up yet: what the record has of the group.

    `next_number` is the lowest number that was never used. `asked_at` maps a machine's number to the time of its request, in
    Unix seconds.
    """

    next_number: int = 0
    asked_at: dict[int, float] = {}

    def with_more(self, count: int, now: float) -> "Machines":
        new = dict.fromkeys(range(self.next_number, self.next_number + count), now)
        return Machines(next_number=self.next_number + count, asked_at=self.asked_at | new)

    def without(self, numbers: Iterable[int]) -> "Machines":
        gone = frozenset(numbers)
        left = {number: at for number, at in self.asked_at.items() if number not in gone}
        return Machines(next_number=self.next_number, asked_at=left)


NO_MACHINES = Machines()


_CONFIG_MAP = ObjectDecoder(ConfigMapWire)
_MACHINES = msgspec.json.Decoder(Machines)


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The record as it was read: all groups, with the ConfigMap's resourceVersion ("" if it does not exist yet)."""

    version: str = ""
    groups: Mapping[GroupName, Machines] = field(default_factory=dict)

    def of(self, group: GroupName) -> Machines:
        return self.groups.get(group, NO_MACHINES)


class RecordReader:
    """Reads the record of requested machines: ConfigMap `name`, with one key for each group. Failures are raised as
    `ProviderError`."""

    def __init__(self, api: ApiReads, *, namespace: str, name: str) -> None:
        self._reads = api
        self._collection = f"/api/v1/namespaces/{namespace}/configmaps"
        self._path = f"{self._collection}/{name}"

    async def read(self) -> Page:
        answer = await get(self._reads, self._path)
        if answer.status == NOT_FOUND:
            return Page()
        if answer.status != OK:
            raise refusal(None, f"read {self._path}", answer)
        found = _CONFIG_MAP.decode(answer.body)
        groups = {GroupName(group): _MACHINES.decode(text) for group, text in (found.data or {}).items()}
        return Page(version=found.metadata.resource_version, groups=groups)


class Record(RecordReader):
    """Reads and writes the record.

    Writes have the resourceVersion as precondition. A machine is identified by its number, and numbers are never reused; so a
    late request that creates a Node again creates the same one. Once its Node is up, a machine leaves the record
    (docs/adr/0040).

    `alone`: to be held from reading until writing. Calls for several groups at once would otherwise conflict, and all but one
    would read everything again.
    """

    def __init__(self, api: ApiCalls, *, namespace: str, name: str) -> None:
        super().__init__(api, namespace=namespace, name=name)
        self.alone: Final = anyio.Lock()
        self._api = api
        self._name = name

    async def write(self, page: Page, group: GroupName, machines: Machines) -> Literal[True] | None:
        """Writes one group's machines; returns None, without an effect, if another client has written since `page` was read."""
        data = {group: msgspec.json.encode(machines).decode()}
        if not page.version:
            made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": self._name}, "data": data}
            answer = await ask(self._api, "POST", self._collection, body=made)
        else:
            patch = {"metadata": {"resourceVersion": page.version}, "data": data}
            answer = await ask(self._api, "PATCH", self._path, body=patch, content_type=MERGE_PATCH)
        # 404: the ConfigMap was deleted since. The next attempt reads an empty record and creates it again.
        if answer.status == CONFLICT or (answer.status == NOT_FOUND and page.version):
            return None
        if answer.status not in (OK, CREATED):
            raise refusal(group, f"write {self._path}", answer)
        return True
