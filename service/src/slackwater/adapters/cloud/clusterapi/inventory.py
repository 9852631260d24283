"""Assigns Cluster API's Machines to node groups, converts them to instances, and selects machines to delete. Pure functions."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from slackwater.adapters.api_objects import ObjectMetaWire
from slackwater.adapters.cloud.clusterapi.objects import DELETE_MACHINE, GroupWire, MachineWire
from slackwater.model.ids import NodeName
from slackwater.model.nodegroups import Instance, InstanceError, InstanceErrorKind, InstanceId

_OUT_OF_RESOURCES: Final = "InsufficientResources"
_FAILED: Final = "Failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Holdings:
    """The machines of one group. `rolling`: those that are not being deleted belong to several MachineSets, so Cluster API
    decides which ones go first. A machine that is being deleted does not count, however long that takes: it was chosen already.
    """

    machines: Sequence[MachineWire]
    rolling: bool = False

    @property
    def alive(self) -> list[MachineWire]:
        """The machines that are not being deleted."""
        return [machine for machine in self.machines if machine.metadata.deletion_timestamp is None]


def holdings(groups: Iterable[GroupWire], sets: Iterable[GroupWire], machines: Iterable[MachineWire]) -> dict[str, Holdings]:
    """Returns the machines of each group, by the group's UID. A MachineDeployment owns machines through its MachineSets."""
    owner_of_set = {item.metadata.uid: _owner(item.metadata, "MachineDeployment") for item in sets}
    found: defaultdict[str, list[MachineWire]] = defaultdict(list)
    used_sets: defaultdict[str, set[str]] = defaultdict(set)
    for machine in machines:
        owner = _owner(machine.metadata, "MachineSet") or _owner(machine.metadata, "MachinePool")
        group = owner_of_set.get(owner) or owner
        found[group].append(machine)
        if machine.metadata.deletion_timestamp is None:
            used_sets[group].add(owner)
    uids = (group.metadata.uid for group in groups)
    return {uid: Holdings(machines=found[uid], rolling=len(used_sets[uid]) > 1) for uid in uids}


def problem(held: Holdings) -> str:
    """What cannot be read of the machines; "" if all can be."""
    return next((f"Machine {each.metadata.name}: {each.unreadable}" for each in held.machines if each.unreadable), "")


def is_owned(machine_set: GroupWire) -> bool:
    """True if the MachineSet belongs to a MachineDeployment, which is the group then."""
    return bool(_owner(machine_set.metadata, "MachineDeployment"))


def _owner(meta: ObjectMetaWire, kind: str) -> str:
    return next((owner.uid for owner in meta.owner_references or () if owner.kind == kind), "")


def instances(group: GroupWire, held: Holdings) -> tuple[Instance, ...]:
    """Returns a group's instances; for a MachinePool without Machines those of its `providerIDList`."""
    if held.machines or group.spec.provider_id_list is None:
        return tuple(instance(machine) for machine in held.machines)
    return tuple(Instance(id=InstanceId(id_), state="running") for id_ in group.spec.provider_id_list)


def instance(machine: MachineWire) -> Instance:
    """Converts a Machine to an instance: `deleting` if it is being deleted, `running` if it has a node, otherwise `creating`.

    `own_id` identifies a Machine that has no provider id.
    """
    node, leaving = node_of(machine), machine.metadata.deletion_timestamp is not None
    if leaving:
        return Instance(id=id_of(machine), state="deleting", node=node)
    if node is not None:
        return Instance(id=id_of(machine), state="running", node=node)
    return Instance(id=id_of(machine), state="creating", error=_error(machine))


def id_of(machine: MachineWire) -> InstanceId:
    return InstanceId(machine.spec.provider_id) if machine.spec.provider_id else own_id(machine)


def own_id(machine: MachineWire) -> InstanceId:
    return InstanceId(f"machine://{machine.metadata.namespace}/{machine.metadata.name}")


def node_of(machine: MachineWire) -> NodeName | None:
    ref = machine.status.node_ref
    return NodeName(ref.name) if ref is not None and ref.name else None


def _error(machine: MachineWire) -> InstanceError | None:
    status = machine.status
    if not status.failure_reason and not status.failure_message and status.phase != _FAILED:
        return None
    kind: InstanceErrorKind = "out-of-resources" if status.failure_reason == _OUT_OF_RESOURCES else "other"
    message = status.failure_message or f"machine {machine.metadata.name} is {status.phase or _FAILED}"
    return InstanceError(kind=kind, code=status.failure_reason or _FAILED, message=message)


def named(held: Holdings, ids: frozenset[InstanceId]) -> list[MachineWire]:
    """Returns the machines with these ids. A machine is also found by its `own_id`, its id before it had a provider id."""
    return [machine for machine in held.machines if {id_of(machine), own_id(machine)} & ids]


def is_marked(machine: MachineWire) -> bool:
    return DELETE_MACHINE in (machine.metadata.annotations or {})


def still_to_lower(to_delete: Sequence[MachineWire], held: Holdings, replicas: int) -> int:
    """Returns by how much the group's size must still be lowered to delete the machines `to_delete`.

    An earlier call whose answer was lost may have lowered the size already. Then there are more machines alive than `replicas`,
    and that many of the marked machines need no lowering any more.
    """
    surplus = max(len(held.alive) - replicas, 0)
    return len(to_delete) - min(sum(map(is_marked, to_delete)), surplus)


def given_up(held: Holdings, to: int) -> list[MachineWire]:
    """Selects the machines to delete so that `to` machines remain. Only machines without a node are selected.

    Failed machines are selected first, then the youngest.
    """
    pending = [machine for machine in held.alive if node_of(machine) is None]
    pending.sort(
        key=lambda machine: (_error(machine) is not None, machine.metadata.creation_timestamp or "", machine.metadata.name)
    )
    count = max(len(held.alive) - to, 0)
    return pending[len(pending) - count :] if count else []
