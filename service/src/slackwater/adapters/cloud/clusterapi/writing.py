"""The writes of Cluster API's groups: the size by the scale subresource, marks on Machines, deletion of one Machine."""

from collections.abc import Callable
from typing import Final, Literal

from slackwater.adapters.cloud.apiserver import CONFLICT, MERGE_PATCH, NOT_FOUND, OK, ApiServer, refusal
from slackwater.adapters.cloud.clusterapi.inventory import DELETE_MACHINE
from slackwater.adapters.cloud.clusterapi.objects import ClusterApiObjects, GroupId, GroupWire, MachineWire
from slackwater.model.nodegroups import GroupName

_DELETED: Final = frozenset({OK, 202, NOT_FOUND, CONFLICT})


class ClusterApiWrites:
    """`stamp` answers the time as RFC 3339: what a mark says. Raises `ProviderError`."""

    def __init__(self, api: ApiServer, objects: ClusterApiObjects, *, stamp: Callable[[], str]) -> None:
        self._api, self._objects, self._stamp = api, objects, stamp

    async def scale(self, group: GroupId, read: GroupWire, *, to: int) -> Literal[True] | None:
        """None where the group is not any more as it was read: nothing happened."""
        path = f"{await self._objects.group_path(group)}/scale"
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
        answer = await self._api.ask("PUT", path, body=body)
        if answer.status == CONFLICT:
            return None
        if answer.status != OK:
            raise refusal(group.group, f"scale {path}", answer)
        return True

    async def mark(self, group: GroupName, machine: MachineWire) -> None:
        """Makes it the first to go. One that is gone is done."""
        await self._annotate(group, machine, self._stamp())

    async def unmark(self, group: GroupName, machine: MachineWire) -> None:
        await self._annotate(group, machine, None)

    async def _annotate(self, group: GroupName, machine: MachineWire, value: str | None) -> None:
        path = await self._objects.machine_path(machine.metadata)
        patch = {"metadata": {"uid": machine.metadata.uid, "annotations": {DELETE_MACHINE: value}}}
        answer = await self._api.ask("PATCH", path, body=patch, content_type=MERGE_PATCH)
        if answer.status not in (OK, NOT_FOUND):
            raise refusal(group, f"mark {path}", answer)

    async def delete(self, group: GroupName, machine: MachineWire) -> None:
        """Of this UID alone; one that is gone is done."""
        path = await self._objects.machine_path(machine.metadata)
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": machine.metadata.uid}}
        answer = await self._api.ask("DELETE", path, body=body)
        if answer.status not in _DELETED:
            raise refusal(group, f"delete {path}", answer)
