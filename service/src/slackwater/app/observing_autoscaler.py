"""The autoscaler of a shadow: it plans, and withholds what it decides. It reads node groups, and has no object that writes.

It is built with the service, so that its metrics exist from the start. `intake` follows auxiliary objects, on a standby too;
`act` opens the node providers and runs the loop. All decisions are in `controllers` and `runtime.autoscaler`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace
from random import Random
from typing import Any, Generic, TypeVar, cast

import anyio
import structlog
from anyio.abc import TaskGroup

from slackwater.adapters.api_calls import ApiReader
from slackwater.adapters.kube.auxiliary import auxiliary
from slackwater.adapters.kube.headroom_requests import headroom_requests
from slackwater.adapters.kube.reflector import Reflector, ReflectorConfig
from slackwater.adapters.kube.resource_type import OnBroken
from slackwater.app.clouds import open_readers
from slackwater.app.group_priorities import GroupPriorities
from slackwater.app.labelled_groups import BY_LABELS, LabelledGroups, by_labels
from slackwater.app.node_prices import NodePrices
from slackwater.app.other_autoscaler import ListedGroups
from slackwater.app.persisted_pod_arrivals import PersistedArrivals, StoredArrivals
from slackwater.app.policies import (
    batch_seconds_of,
    bypassed_of,
    consolidation_policy_of,
    node_group_policy_of,
    scale_down_policy_of,
    scale_up_policy_of,
    settling_of,
    slack_policy_of,
    slo_classes_of,
    strict_for_of,
)
from slackwater.app.settings import Settings
from slackwater.app.shared_replica import Replica
from slackwater.app.whatif.question import GroupRegistryView
from slackwater.cluster.nodegroups.registry import NodeGroupRegistry
from slackwater.cluster.nodegroups.status import NodeGroupPolicy, NodeGroupStatus
from slackwater.controllers.consolidation.loop import ConsolidationLoop
from slackwater.controllers.loop_plans import ScaleUpRules
from slackwater.controllers.scaledown.loop import ScaleDownLoop
from slackwater.controllers.scaleup.expanders import NO_PRIORITIES
from slackwater.controllers.slack.pod_arrivals import ArrivalWatch
from slackwater.model.authority import SHADOW, Capability
from slackwater.model.auxiliary import AuxiliaryKind
from slackwater.model.effects import Effect
from slackwater.model.ids import NodeName, PodKey, UnixTime
from slackwater.model.nodegroups import GroupName, NodeGroup
from slackwater.model.pod_constraints import KindInterner
from slackwater.model.reasons import UnremovableReason
from slackwater.ports.clock import Clocks, SteadyClock, Times
from slackwater.ports.protocols import GroupReader
from slackwater.runtime.autoscaler.cycle import Autoscaler, LoopConfig
from slackwater.runtime.autoscaler.loop_record import LEFT_OUT, LoopCounts, LoopRecord
from slackwater.runtime.autoscaler.provider_calls import Actor
from slackwater.runtime.autoscaler.status_document import record_document
from slackwater.runtime.auxiliary_intake import AuxiliaryIntake
from slackwater.runtime.state_machine import StateMachine
from slackwater_protocol.durations import seconds
from slackwater_protocol.names import SCHEDULER_NAMESPACE

Api = TypeVar("Api", bound=ApiReader)

_log = structlog.get_logger(__name__)


class ObservingAutoscaler(Generic[Api]):
    """The autoscaler of a shadow: its objects, connected with each other."""

    def __init__(
        self,
        settings: Settings,
        client: Api,
        state_machine: StateMachine,
        kinds: KindInterner,
        *,
        arrivals: StoredArrivals,
        on_broken: OnBroken,
        on_record: Callable[[LoopRecord], object] = lambda _: None,
        rng: Random,
        times: Times = Times(),
        submit: Callable[[Iterable[Effect]], None] = lambda _: None,
        leads: Callable[[], bool] = lambda: True,
        evicted_before: Callable[[], Mapping[PodKey, UnixTime]] = dict,
    ) -> None:
        """`on_record` is called with the record of each loop. `arrivals` keeps what was observed of pods with an SLO. A shadow
        has no use for the others: `submit` carries effects out, which are Events and the steps of removals; `leads`: whether
        this replica does so now; `evicted_before` returns the pods that earlier processes evicted when they removed nodes, and
        when."""
        self._settings = settings
        self._times = times
        self._steady = SteadyClock(times)
        self._client = client
        self._on_record = on_record
        self._submit = submit
        self._leads = leads
        self._evicted_before = evicted_before
        self._document: tuple[LoopRecord, dict[str, Any]] | None = None
        config = ReflectorConfig()
        headroom = settings.feature_gates.resource_slack and settings.autoscaler.slack.headroom
        kubernetes = state_machine.policy.kubernetes
        # Only default constraints that are hard need the selectors of Services and controllers.
        spreading = any(profile.spread for profile in state_machine.policy.profiles.values())
        more = headroom_requests(kinds, on_broken, kubernetes) if headroom else ()
        types = (*auxiliary(kinds, on_broken, templates=headroom, spreading=spreading, kubernetes=kubernetes), *more)
        self.reflectors: dict[str, Reflector[Any]] = {
            t.name: Reflector(client, t, rng=rng, config=config, clock=times.monotonic) for t in types
        }
        self.intake = AuxiliaryIntake({cast("AuxiliaryKind", name): each for name, each in self.reflectors.items()})
        self.counts = LoopCounts()
        self._state_machine = state_machine
        self._group_registry = NodeGroupRegistry(self._node_group_policy())
        self._listed = ListedGroups(client, settings.autoscaler.cluster_autoscaler_status, wall=times.wall)
        self._seed = rng.getrandbits(31)
        self._priorities = GroupPriorities(settings, client)
        self._prices = NodePrices(settings, client)
        self._arrivals = self._persisted_arrivals(arrivals)
        self._autoscaler: Autoscaler | None = None
        self._scale_down_loop: ScaleDownLoop | None = None
        self._consolidation_loop: ConsolidationLoop | None = None
        self._connect()

    @property
    def last(self) -> LoopRecord | None:
        """The newest loop's record; None before the first loop has ended."""
        return None if self._autoscaler is None else self._autoscaler.last

    def document(self) -> dict[str, Any] | None:
        """The newest loop's record as JSON values; None before the first loop has ended."""
        record = self.last
        if record is None:
            return None
        if self._document is None or self._document[0] is not record:  # cached: the dashboard asks each second
            self._document = record, record_document(record)
        return self._document[1]

    def view(self) -> GroupRegistryView | None:
        """The part of the autoscaler's state that what-if and explain need; None until all auxiliary objects are listed."""
        if not self.intake.ready:
            return None
        given = None if self._priorities.last is NO_PRIORITIES else self._priorities.last
        slack = None if self.last is None else self.last.slack
        return GroupRegistryView(
            group_status=dict(self._group_registry.group_status),
            priorities=given,
            prices=self._prices.last,
            slack=slack,
            headroom=self.intake.headroom_requests(),
        )

    def held_back(self, name: NodeName, group: NodeGroup) -> tuple[float | None, Sequence[tuple[UnremovableReason, str]]]:
        """For how many seconds a node has been a candidate for removal (None: it is none), and the reasons that keep it."""
        node = self._state_machine.state.nodes.get(name)
        if self._scale_down_loop is None or node is None:
            return None, ()
        assert self._consolidation_loop is not None
        since, waits = self._scale_down_loop.held_back(name, group, ready=node.ready)
        return since, (*waits, *self._consolidation_loop.words(name))

    def after_event(self) -> None:
        """Wakes the parts that follow the state machine; to be called after each of its events."""
        if self._arrivals is not None:
            self._arrivals.arrival_watch.after_event()
        if self._autoscaler is not None:
            self._autoscaler.after_event()

    async def act(self, replica: Replica) -> None:
        """Runs the loop and what belongs to it until cancelled. `replica` makes the plans. `intake` has to run too; a standby
        runs only that. The state machine's own objects must have been listed before."""
        async with self._opened() as groups, anyio.create_task_group() as tasks:
            await self.intake.synced()
            await self._listed.look()
            self._mark_listed()  # before the first loop changes anything
            tasks.start_soon(self._listed.run, name="groups of Cluster Autoscaler")
            if self._arrivals is not None:
                tasks.start_soon(self._arrivals.run, name="arrivals")
                await self._arrivals.begun()
            scale_down_loop = self._scale_down_loop = self._new_scale_down_loop()
            consolidation_loop = self._consolidation_loop = self._new_consolidation_loop()
            self._autoscaler = Autoscaler(
                self._state_machine,
                groups,
                actor=self._actor(),
                group_registry=self._group_registry,
                planning=replica,
                rules=self._rules,
                submit=self._submit,
                write_status=self._write_status,
                clocks=Clocks(clock=self._times.monotonic, wall=self._wall, steady=self._steady),
                counts=self.counts,
                config=loop_config_of(self._settings),
                leading=self._leads,
                prepare=self._notes,
                scale_down_loop=scale_down_loop,
                consolidation_loop=consolidation_loop,
                observed=tuple if self._arrivals is None else self._arrivals.arrival_watch.observed,
                withholds=self._withholds,
            )
            self._start(tasks, replica)
            _log.info("autoscaler runs", providers=[group.name for group in groups])
            await self._autoscaler.run()

    # --- what a shadow does not do ---------------------------------------------------------------------------------------

    def _connect(self) -> None:
        """Builds what writes."""

    def _node_group_policy(self) -> NodeGroupPolicy:
        return node_group_policy_of(self._settings)

    def _opened(self) -> AbstractAsyncContextManager[Sequence[GroupReader]]:
        """The node groups' providers, for as long as the context lasts."""
        if by_labels(self._settings):
            nodes = self._state_machine.state.nodes
            return nullcontext((LabelledGroups(lambda: [node for _, node in nodes]),))
        return open_readers(self._settings, self._client, now=self._steady)

    def _actor(self) -> Actor | None:
        """What calls the providers to change something."""
        return None

    def _withholds(self, _capability: Capability, _group: GroupName) -> str | None:
        return SHADOW

    def _start(self, tasks: TaskGroup, replica: Replica) -> None:
        """Starts the tasks that carry out removals."""

    async def _write_status(self, record: LoopRecord) -> None:
        self._on_record(record)

    # --- the loops -------------------------------------------------------------------------------------------------------

    def _persisted_arrivals(self, store: StoredArrivals) -> PersistedArrivals | None:
        """Builds the observation of pods with a start-time SLO; None if no SLO is configured."""
        classes = slo_classes_of(self._settings)
        if not classes:
            return None
        arrival_watch = ArrivalWatch(self._state_machine.state, classes, steady=self._steady)
        return PersistedArrivals(arrival_watch, self._group_registry, store)

    def _new_scale_down_loop(self) -> ScaleDownLoop:
        settings = self._settings
        policy = scale_down_policy_of(settings)
        return ScaleDownLoop(
            state_machine=self._state_machine,
            group_registry=self._group_registry,
            policy=lambda: policy,
            submit=self._submit,
            clock=self._times.monotonic,
            steady=self._steady,
            wall=self._wall,
            withholds=self._withholds,
        )

    def _new_consolidation_loop(self) -> ConsolidationLoop:
        """While scale-up or scale-down is paused, consolidation is off."""
        settings, machine = self._settings, self._state_machine
        policy, scale_down = consolidation_policy_of(settings), settings.autoscaler.scale_down
        off = replace(policy, enabled=False)
        return ConsolidationLoop(
            policy=lambda: off if machine.paused & {"scale-up", "scale-down"} else policy,
            nodes=lambda: {node.name for _, node in machine.state.nodes},
            busy=machine.busy_nodes,
            clock=self._times.monotonic,
            steady=self._steady,
            longest_growth=policy.overlap_seconds,
            longest_removal=seconds(scale_down.drain.deadline),
            most_leaving=scale_down.max_scale_down_parallelism,
            withholds=self._withholds,
            moved_before=self._evicted_before,
        )

    def _wall(self) -> UnixTime:
        return UnixTime(self._times.wall())

    def _rules(self) -> ScaleUpRules:
        """The rules of the next scale-up plan.

        If our filter rejects pods without requests, the plan does not count such pods of our scheduler either.
        """
        settings = self._settings
        return ScaleUpRules(
            policy=scale_up_policy_of(settings, priorities=self._priorities.last, prices=self._prices.last, seed=self._seed),
            slack=slack_policy_of(settings, at=self._wall()),
            strict_for=strict_for_of(settings),
        )

    async def _notes(self) -> Sequence[str]:
        """Notes for the status of the next loop: groups of other autoscalers, activities that are paused, and problems with the
        priorities and prices."""
        self._mark_listed()
        groups = self._group_registry.group_status.values()
        marked = dict.fromkeys(self._of_another(each) for each in groups if each.mark)
        unreadable = dict.fromkeys(f"{LEFT_OUT}{why}" for each in groups if (why := each.group.unreadable))
        problem = [self._listed.problem] if self._listed.problem else []
        assumed = [BY_LABELS] if by_labels(self._settings) else []
        paused = [each for each in self._state_machine.pauses if each.activity in {"scale-up", "scale-down"}]
        paused_notes = (f"{each.activity} is paused: {each.note}" for each in paused)
        read = (*await self._priorities.read(), *await self._prices.read())
        return (*assumed, *unreadable, *marked, *problem, *paused_notes, *read)

    def _mark_listed(self) -> None:
        """Lets the next loop know the groups that Cluster Autoscaler lists."""
        registry = self._group_registry
        registry.policy = replace(registry.policy, listed=self._listed.names)

    def _of_another(self, status: NodeGroupStatus) -> str:
        """What follows from another autoscaler's mark on a group."""
        name = status.group.pool or status.name
        if status.owner:
            return f"{name} is left alone: {status.owner}"
        if self._actor() is None:
            return f"{name} is planned as if it were handed over: {status.mark}"
        return f"{name} was handed over, but {status.mark}: what made that mark may change it too"


def loop_config_of(settings: Settings) -> LoopConfig:
    """The timing of the autoscaler's loop, and the object that its Events refer to."""
    autoscaler = settings.autoscaler
    settle, longest = settling_of(autoscaler)
    return LoopConfig(
        interval_seconds=seconds(autoscaler.scan_interval),
        settle_seconds=settle,
        longest_settle_seconds=longest,
        whole_bursts=batch_seconds_of(autoscaler) > 0,
        bypassed=bypassed_of(settings),
        call_seconds=seconds(autoscaler.creation.call_timeout),
        status_object=PodKey(SCHEDULER_NAMESPACE, autoscaler.status_config_map),
    )
