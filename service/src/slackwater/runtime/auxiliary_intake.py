"""Keeps the auxiliary objects, which only planners read (namespaces, volumes, workloads, buffers), and returns the changed
ones to each reader.

The state machine needs none of them, and the readiness of the service does not wait for their first lists.
"""

from collections.abc import Mapping, Set
from contextlib import aclosing
from typing import Any, Final

import anyio
import structlog

from slackwater.model.auxiliary import (
    ASKING,
    DEVICE_KINDS,
    WORKLOAD_KINDS,
    AuxiliaryEvent,
    AuxiliaryGone,
    AuxiliaryKey,
    AuxiliaryKind,
    AuxiliaryObjects,
    AuxiliarySeen,
    ControllerKey,
    ControllerScale,
    by_name,
    devices_of,
    storage_of,
)
from slackwater.model.eviction_facts import Owner
from slackwater.model.objects import Pod
from slackwater.model.placeholders import CapacityBuffer, HeadroomRequests, Workload
from slackwater.model.scheduler_profile import SpreadSources
from slackwater.model.selectors import Selector
from slackwater.ports.protocols import EventSource

_log = structlog.get_logger(__name__)

#: API group and kind of the controllers whose replica counts are kept.
_CONTROLLERS: Final[Mapping[AuxiliaryKind, tuple[str, str]]] = {
    "daemonsets": ("apps", "DaemonSet"),
    "replicasets": ("apps", "ReplicaSet"),
    "replicationcontrollers": ("", "ReplicationController"),
    "statefulsets": ("apps", "StatefulSet"),
    "jobs": ("batch", "Job"),
}


class AuxiliaryIntake:
    """Reads the event sources and keeps their objects. It is `ready` when each source has listed once."""

    def __init__(self, event_sources: Mapping[AuxiliaryKind, EventSource]) -> None:
        self._event_sources = event_sources
        self._unlisted = set(event_sources)
        self._synced = anyio.Event()
        self._objects: dict[AuxiliaryKind, dict[AuxiliaryKey, Any]] = {kind: {} for kind in event_sources}
        #: The replica count of each controller. Each event updates it, because there are thousands of controllers, and some
        #: change between any two calls of `changes`.
        self._replicas: dict[ControllerKey, int] = {}
        #: The selectors of controllers; none unless Services are watched too.
        self._selectors: dict[ControllerKey, Selector] = {}
        self._readers: list[AuxiliaryReader] = []
        #: Workloads with the slack annotation, so that `changes` need not search all workloads.
        self._marked: dict[tuple[AuxiliaryKind, AuxiliaryKey], Workload] = {}
        if not event_sources:
            self._synced.set()

    @property
    def ready(self) -> bool:
        return not self._unlisted

    async def synced(self) -> None:
        await self._synced.wait()

    async def run(self) -> None:
        async with anyio.create_task_group() as group:
            for kind, event_source in self._event_sources.items():
                group.start_soon(self._drain, kind, event_source, name=f"intake of {kind}")

    async def _drain(self, kind: AuxiliaryKind, event_source: EventSource) -> None:
        async with aclosing(event_source.batches()) as batches:
            async for batch in batches:
                for event in batch.events:
                    assert isinstance(event, AuxiliarySeen | AuxiliaryGone), event
                    self.take(event)
                if batch.listed and kind in self._unlisted:
                    self._unlisted.discard(kind)
                    if self.ready:
                        self._synced.set()

    def take(self, event: AuxiliaryEvent) -> None:
        """Applies one event."""
        for reader in self._readers:
            reader.changed.add(event.kind)
        self._marked.pop((event.kind, event.key), None)
        if event.kind in _CONTROLLERS:
            self._count(event)
        if isinstance(event, AuxiliarySeen):
            self._objects[event.kind][event.key] = event.value
            if isinstance(event.value, Workload) and event.value.slack:
                self._marked[event.kind, event.key] = event.value
        else:
            self._objects[event.kind].pop(event.key, None)

    def _count(self, event: AuxiliaryEvent) -> None:
        controller: ControllerKey = (event.key.namespace, Owner(*_CONTROLLERS[event.kind], event.key.name))
        value = None if isinstance(event, AuxiliaryGone) else event.value
        selector = value.selector if isinstance(value, ControllerScale | Workload) else None
        for reader in self._readers if self._selectors.get(controller) != selector else ():
            reader.spread_changed = True
        self._selectors.pop(controller, None)
        if selector is not None:
            self._selectors[controller] = selector
        if isinstance(event, AuxiliaryGone):
            self._replicas.pop(controller, None)
        else:
            self._replicas[controller] = event.value.replicas if isinstance(event.value, ControllerScale | Workload) else 0

    def reader(self) -> "AuxiliaryReader":
        """A reader that follows the objects from now on; first it gets everything."""
        self._readers.append(AuxiliaryReader(self))
        return self._readers[-1]

    @property
    def kinds(self) -> Set[AuxiliaryKind]:
        return self._event_sources.keys()

    def objects(self, changed: Set[AuxiliaryKind], *, spread: bool) -> AuxiliaryObjects:
        """The parts with objects of these kinds, as copies; the others are None. `spread`: the selectors of Services and
        controllers too."""
        return AuxiliaryObjects(
            namespaces=by_name(self._objects, "namespaces") if "namespaces" in changed else None,
            storage=storage_of(self._objects)
            if changed - {"namespaces", "services", *_CONTROLLERS} - ASKING - DEVICE_KINDS
            else None,
            devices=devices_of(self._objects) if changed & DEVICE_KINDS else None,
            daemons=self._daemons() if "daemonsets" in changed else None,
            replicas=dict(self._replicas) if changed & _CONTROLLERS.keys() else None,
            headroom_requests=self.headroom_requests() if changed & ASKING else None,
            spread_sources=self._spread_sources() if "services" in changed or spread else None,
        )

    def _spread_sources(self) -> SpreadSources:
        services: dict[str, tuple[Mapping[str, str], ...]] = {}
        found: dict[AuxiliaryKey, Mapping[str, str]] = self._objects["services"]
        for key in sorted(found):
            services[key.namespace] = (*services.get(key.namespace, ()), found[key])
        return SpreadSources(services=services, controllers=dict(self._selectors))

    def headroom_requests(self) -> HeadroomRequests:
        """The CapacityBuffers, the workloads and pod templates that they refer to, and the workloads with the slack
        annotation."""
        buffers: list[CapacityBuffer] = list(self._objects.get("capacitybuffers", {}).values())
        scaled = [(each.key.namespace, each.scalable) for each in buffers if each.scalable is not None]
        named = [(each.key.namespace, each.template) for each in buffers if each.template is not None]
        workloads = {key: found for key in scaled if (found := self._workload(*key)) is not None}
        templates = self._objects.get("podtemplates", {})
        return HeadroomRequests(
            buffers=tuple(buffers),
            workloads=workloads,
            templates={key: templates[AuxiliaryKey(*key)] for key in named if AuxiliaryKey(*key) in templates},
            marked=tuple(self._marked.values()),
            quotas=tuple(self._objects.get("resourcequotas", {}).values()),
        )

    def _workload(self, namespace: str, ref: Owner) -> Workload | None:
        kind = WORKLOAD_KINDS.get((ref.group, ref.kind))
        found = None if kind is None else self._objects.get(kind, {}).get(AuxiliaryKey(namespace, ref.name))
        return found if isinstance(found, Workload) else None

    def _daemons(self) -> tuple[Pod, ...]:
        pods: dict[AuxiliaryKey, Pod] = self._objects["daemonsets"]
        return tuple(pods[key] for key in sorted(pods))


class AuxiliaryReader:
    """Returns the changed objects to one reader. `spread_changed`: a Service, or the selector of a controller, changed."""

    def __init__(self, intake: AuxiliaryIntake) -> None:
        self._intake = intake
        self.reset()

    @property
    def ready(self) -> bool:
        return self._intake.ready

    def reset(self) -> None:
        """Makes `changes` return everything again, because the reader has lost its copies."""
        self.changed: set[AuxiliaryKind] = set(self._intake.kinds)
        self.spread_changed = "services" in self._intake.kinds

    def changes(self) -> AuxiliaryObjects:
        """The parts that changed since the last call, as copies; the others are None."""
        changed, spread = self.changed, self.spread_changed
        self.changed, self.spread_changed = set(), False
        return self._intake.objects(changed, spread=spread)
