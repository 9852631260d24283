"""Collects the changes of the cluster state and of the auxiliary objects since the last message, for the one replica.

    feed.begin()                             # a planning process starts; its first changes are the whole cluster
    changes = await feed.collect(watch)
    pod = feed.pod_of(uid)                   # plans name pods by UID; returns the pod as it was sent
    feed.end()                               # the process has ended

Only one task at a time may collect, and it has to send the changes before another task collects. Deliberately absent: processes
and pipes.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, Protocol

import anyio.lowlevel

from slackwater.model.auxiliary import AuxiliaryObjects
from slackwater.model.changes import Changes, NodeChange, PodChange
from slackwater.model.ids import PodUid
from slackwater.model.objects import Pod
from slackwater.ports.clock import Watch
from slackwater.runtime.change_collector import ChangeCollector
from slackwater.runtime.state_machine import StateMachine

#: Objects collected before other tasks get a turn: about 2 ms of work.
_SLICE: Final = 500


class Auxiliary(Protocol):
    """The source of changed auxiliary objects; implemented by `runtime.auxiliary_intake.AuxiliaryReader`."""

    @property
    def ready(self) -> bool: ...

    def changes(self) -> AuxiliaryObjects: ...

    def reset(self) -> None: ...


class ReplicaFeed:
    """Collects the changes for the replica. `auxiliary` has the auxiliary objects as last collected; a field is None until its
    objects have been listed."""

    def __init__(self, state_machine: StateMachine, auxiliary: Auxiliary | None = None) -> None:
        self._state_machine = state_machine
        self._source = auxiliary  # None: a service without an autoscaler does not watch them
        self._collector: ChangeCollector | None = None
        self.auxiliary = AuxiliaryObjects()
        #: The pods that the replica has.
        self._pods: dict[PodUid, Pod] = {}
        #: Old versions of pods that have changed since the present plan was requested (a question sent the change): the plan
        #: refers to the old version. None before the first plan: who never requests one would keep each pod that ever was.
        self._planned: dict[PodUid, Pod] | None = None

    def begin(self) -> None:
        """Follows the journals from now on, for a new, empty replica."""
        assert self._collector is None, "there is a replica already"
        self._collector = ChangeCollector(self._state_machine)
        if self._source is not None:
            self._source.reset()

    def end(self) -> None:
        """Stops following the journals, because the replica is gone."""
        if self._collector is not None:
            self._collector.stop()
        self._collector, self._pods, self._planned = None, {}, None

    def reset(self) -> None:
        """Makes the next collection the whole cluster, because the replica may lack what was collected last."""
        if self._source is not None:
            self._source.reset()
        self._pods, self._planned = {}, None
        if self._collector is not None:
            self._collector.reset()

    async def collect(self, watch: Watch, *, for_plan: bool = False) -> Changes:
        """The changes since the last call. They are collected in slices, so that the event loop is not blocked, and lead to the
        state at the end of this call. `for_plan`: they go with the request for a new plan, which ends the last one."""
        collector, nodes, pods = self._collector, list[NodeChange](), list[PodChange]()
        assert collector is not None, "nobody has a replica"
        if for_plan:
            self._planned = {}
        while len(collector) > _SLICE:
            with watch:
                some = collector.some(_SLICE)
                self._note(some[1], for_plan=for_plan)
                nodes += some[0]
                pods += some[1]
            await anyio.lowlevel.checkpoint()
        with watch:
            source = self._source
            around = source.changes() if source is not None and source.ready else AuxiliaryObjects()
            news = {name: value for name in AuxiliaryObjects.__slots__ if (value := getattr(around, name)) is not None}
            self.auxiliary = replace(self.auxiliary, **news)
            changes = collector.rest((nodes, pods), around)
            self._note(changes.pods[len(pods) :], for_plan=for_plan)
        return changes

    def pod_of(self, uid: PodUid) -> Pod:
        """The pod with this UID as the replica had it when the last plan was requested; a newer pod as the replica has it."""
        return (self._planned or {}).get(uid) or self._pods[uid]

    def _note(self, changes: Sequence[PodChange], *, for_plan: bool) -> None:
        for uid, pod, _ in changes:
            before = self._pods.pop(uid, None)
            if before is not None and self._planned is not None and not for_plan:
                self._planned.setdefault(uid, before)
            if pod is not None:
                self._pods[uid] = pod
