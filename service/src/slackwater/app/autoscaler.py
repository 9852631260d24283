"""The autoscaler that carries out what is decided. Built only if `autoscaler.enabled` is true.

What plans, and reads the node groups, is in `observing_autoscaler`; what writes is connected here.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime

import anyio
from anyio.abc import TaskGroup

from slackwater.adapters.api_calls import ApiPort
from slackwater.adapters.kube.config_maps import ConfigMapWriter
from slackwater.adapters.kube.headroom_requests import BufferStatusWriter
from slackwater.app.cleanup import LAST_UPDATED
from slackwater.app.clouds import open_clouds
from slackwater.app.observing_autoscaler import ObservingAutoscaler
from slackwater.app.policies import drain_policy_of
from slackwater.app.shared_replica import Replica
from slackwater.cluster.nodegroups.status import NodeGroupPolicy
from slackwater.model.authority import Capability, withheld_by_settings
from slackwater.model.effects import DrainReport, FindDestinations, PodEvicted, RemoveNode
from slackwater.model.events import Event
from slackwater.model.nodegroups import GroupName, MachineWarning
from slackwater.ports.protocols import GroupReader, NodeProvider
from slackwater.runtime.autoscaler.destination_finder import DestinationFinder
from slackwater.runtime.autoscaler.loop_record import LoopRecord
from slackwater.runtime.autoscaler.provider_calls import Actor, MachineRemover
from slackwater.runtime.autoscaler.status_document import StatusText, stamp
from slackwater_protocol.durations import seconds
from slackwater_protocol.names import SCHEDULER_NAMESPACE


class AutoscalerService(ObservingAutoscaler[ApiPort]):
    """The autoscaler of one `Service`, which carries out what is decided."""

    def _connect(self) -> None:
        name = self._settings.autoscaler.status_config_map
        self._status = StatusText()
        self._config_map = ConfigMapWriter(self._client, namespace=SCHEDULER_NAMESPACE, name=name)
        self._buffers = BufferStatusWriter(self._client, now=lambda: datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
        self._providers: Sequence[NodeProvider] = ()
        self._remover: MachineRemover | None = None
        self._finder: DestinationFinder | None = None

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[Sequence[GroupReader]]:
        """Opens the providers, and runs their tasks."""
        async with (
            open_clouds(self._settings, self._client, now=self._steady, leads=self._leads, on_warning=self._warned) as clouds,
            anyio.create_task_group() as tasks,
        ):
            for name, task in clouds.tasks.items():
                tasks.start_soon(task, name=name)
            self._providers = clouds.providers
            yield clouds.providers

    def _warned(self, warning: MachineWarning) -> bool:
        return self._scale_down_loop is not None and self._scale_down_loop.warned(warning)

    def _actor(self) -> Actor:
        return Actor(
            self._providers,
            self._group_registry,
            clock=self._times.monotonic,
            leading=self._leads,
            timeout_seconds=seconds(self._settings.autoscaler.creation.call_timeout),
        )

    def _node_group_policy(self) -> NodeGroupPolicy:
        return replace(
            super()._node_group_policy(), handed_over=frozenset(map(GroupName, self._settings.autoscaler.handed_over))
        )

    def _withholds(self, capability: Capability, group: GroupName) -> str | None:
        """What the settings say is withheld, and whatever concerns a group that another autoscaler has, unless it was handed
        over."""
        said, status = self._settings.shadow, self._group_registry.group_status.get(group)
        owner = None if status is None else status.owner or None
        return owner or withheld_by_settings(capability, group, capabilities=said.capabilities, groups=said.groups)

    def _start(self, tasks: TaskGroup, replica: Replica) -> None:
        remover = self._remover = MachineRemover(
            self._state_machine,
            self._group_registry,
            self._providers,
            on_event=self._on_event,
            leading=self._leads,
            timeout_seconds=seconds(self._settings.autoscaler.creation.call_timeout),
        )
        tasks.start_soon(remover.run, name="deletion of machines")
        cutoff = drain_policy_of(self._settings).expendable_pods_priority_cutoff
        finder = self._finder = DestinationFinder(replica.ask, cutoff=cutoff, on_event=self._on_event)
        tasks.start_soon(finder.run, name="destinations of leaving pods")

    def take(self, report: DrainReport) -> None:
        """Passes a drain's report on: RemoveNode to the machine remover, FindDestinations to the destination finder, all others
        to the scale-down loop.

        All exist by then, because no drain begins before `act` has built them."""
        if isinstance(report, RemoveNode):
            assert self._remover is not None
            self._remover.take(report)
        elif isinstance(report, FindDestinations):
            assert self._finder is not None
            self._finder.take(report)
        else:
            assert self._scale_down_loop is not None
            assert self._consolidation_loop is not None
            self._scale_down_loop.take(report)
            if isinstance(report, PodEvicted):
                self._consolidation_loop.evicted(report.pod)

    def _on_event(self, event: Event) -> None:
        self._submit(self._state_machine.apply(event, self._times.monotonic()))

    async def _write_status(self, record: LoopRecord) -> None:
        if record.slack is not None:
            await self._buffers.write((each.buffer, each.status) for each in record.slack.headroom.buffers)
        self._on_record(record)
        await self._config_map.write({"status": self._status.of(record)}, {LAST_UPDATED: stamp(record.at)})
