"""Answers `/explain/...` on the running service: implements `ports.protocols.Explain`.

    event loop:     changes since the last question, values of the object in question  -> `_Inquiry`
    worker thread:  `_Inquiry` -> updates the snapshot replica, searches it            -> JSON

One question is answered at a time. Only the event loop reads the state machine; only the worker thread uses the replica.
"""

import gc
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

import anyio
import anyio.lowlevel
import anyio.to_thread
import msgspec
import numpy as np

from slackwater.app.explaining.reading import (
    HeldBack,
    PodRead,
    read_gate,
    read_migration,
    read_node,
    read_permit,
    read_pod,
)
from slackwater.app.offline.skipped import skipped_rules
from slackwater.app.policy import scale_up_policy_of
from slackwater.app.scaledown import scale_down_policy_of
from slackwater.app.settings import Settings
from slackwater.app.whatif.live import GroupRegistryView, unknown
from slackwater.cluster.nodegroups.status import NodeGroupStatus
from slackwater.controllers.scaleup.expanders.priority import NO_PRIORITIES
from slackwater.explain.findings import Explanation, document
from slackwater.explain.growing import Gated, Grower, Moving, explain_gate, explain_migration, explain_permit
from slackwater.explain.growth import explain_group
from slackwater.explain.nodes import NodeWord, explain_node
from slackwater.explain.pods import explain_pod
from slackwater.explain.situation import ExplainInput
from slackwater.model.auxiliary import AuxiliaryObjects
from slackwater.model.changes import Changes, NodeChange, PodChange
from slackwater.model.columns import SCHEMA, NodeColumns
from slackwater.model.ids import Instant, NodeName, PodKey, Row, UnixTime
from slackwater.model.nodegroups import GroupName, Membership, NodeGroup
from slackwater.ports.protocols import Explained, NothingThere, WhatIfRefused
from slackwater.runtime.autoscaler.scaleup_planning import growable_group
from slackwater.runtime.autoscaler.slack_planning import SlackPlan
from slackwater.runtime.autoscaler.slack_report import slack_in_group
from slackwater.runtime.changes import ChangeCollector
from slackwater.runtime.state_machine import StateMachine
from slackwater.snapshot.replica import SnapshotReplica

#: Objects collected before other tasks of the event loop run: about 2 ms of work.
_SLICE: Final = 500
#: The replica is discarded this long after the last question.
IDLE_SECONDS: Final = 300.0
_NOWHERE: Final = Row(-1)


@dataclass(slots=True)
class _Followed:
    """The replica and the collector of its changes. `around` is the storage and namespaces that the replica has. They are sent
    again only if they differ, because namespaces make the replica rebuild itself."""

    collector: ChangeCollector
    replica: SnapshotReplica
    around: AuxiliaryObjects


class ExplainReplica:
    """Keeps the service's one replica for explanations, and collects its changes. The caller asks one question at a time."""

    def __init__(self, state_machine: StateMachine, group_registry: Callable[[], GroupRegistryView | None]) -> None:
        self._state_machine = state_machine
        self._group_registry = group_registry
        self._followed: _Followed | None = None
        self._asked_at = Instant(0.0)

    async def changes(self, now: Instant) -> tuple[SnapshotReplica, Changes, GroupRegistryView | None]:
        """The replica, the changes to apply to it before it is used, and the node groups. Builds a new replica if there is
        none."""
        self._asked_at = now
        if self._followed is None:
            self._followed = _Followed(
                ChangeCollector(self._state_machine, quarantined_too=True), SnapshotReplica(), AuxiliaryObjects()
            )
        followed, nodes, pods = self._followed, list[NodeChange](), list[PodChange]()
        while len(followed.collector) > _SLICE:
            some = followed.collector.some(_SLICE)
            nodes += some[0]
            pods += some[1]
            await anyio.lowlevel.checkpoint()
        group_registry = self._group_registry()
        around = AuxiliaryObjects() if group_registry is None else _news(followed.around, group_registry.around)
        if group_registry is not None:
            followed.around = group_registry.around
        return followed.replica, followed.collector.rest((nodes, pods), around), group_registry

    def give_up(self) -> None:
        """Discards the replica; the next question builds a new one. Called if collected changes may be lost, or when idle."""
        if self._followed is not None:
            self._followed.collector.stop()
            self._followed = None

    def idle(self, now: Instant) -> bool:
        return self._followed is not None and now - self._asked_at > IDLE_SECONDS


def _news(before: AuxiliaryObjects, now: AuxiliaryObjects) -> AuxiliaryObjects:
    return AuxiliaryObjects(
        namespaces=None if now.namespaces == before.namespaces else now.namespaces,
        storage=None if now.storage == before.storage else now.storage,
    )


def ledger_for(replica: SnapshotReplica, columns: NodeColumns, row_of: dict[NodeName, Row]) -> NodeColumns:
    """The state machine's columns, rearranged to the replica's rows: `row_of` gives the state machine's row of a node. Rows
    whose node no longer exists are zero."""
    facts = replica.snapshot.facts
    ours = NodeColumns(facts.n_rows)
    rows = np.fromiter((row_of.get(node.name, _NOWHERE) for node in facts.nodes), np.intp, facts.n_rows)
    to = np.flatnonzero((rows != _NOWHERE) & facts.live[: facts.n_rows])
    of = rows[to]
    for column in SCHEMA:
        getattr(ours, column.name)[:, to] = getattr(columns, column.name)[:, of]
    return ours


#: How long a question waits for those before it.
_PATIENCE_SECONDS: Final = 30.0
#: Python's switch interval while the worker thread computes: the event loop waits no longer for the interpreter lock.
_SWITCH_SECONDS: Final = 1e-4
_LOOK_SECONDS: Final = 30.0

HeldBackOf = Callable[[NodeName, NodeGroup], HeldBack]
#: What was read of the state machine about the object; for a node group its name is enough.
Read = PodRead | NodeWord | Grower | Moving | Gated | GroupName


@dataclass(frozen=True, slots=True, kw_only=True)
class _Inquiry:
    """A question as the worker thread gets it, with everything that was read on the event loop."""

    read: Read
    name: str
    changes: Changes
    columns: NodeColumns
    row_of: dict[NodeName, Row]
    group_registry: GroupRegistryView | None
    settings: Settings
    now: Instant
    unix_now: UnixTime


@dataclass(frozen=True, slots=True, kw_only=True)
class Clocks:
    """Two clocks. `clock` measures intervals. `steady` is Unix time that never jumps, to compare with objects' timestamps."""

    clock: Callable[[], Instant]
    steady: Callable[[], UnixTime]


class Explaining:
    """Answers `/explain/...` from a snapshot replica.

    `held_back` gives how long a node has been a candidate for removal, and what holds it back. It and `group_registry` are
    called on the event loop."""

    def __init__(
        self,
        state_machine: StateMachine,
        *,
        group_registry: Callable[[], GroupRegistryView | None],
        settings: Callable[[], Settings],
        held_back: HeldBackOf,
        clocks: Clocks,
    ) -> None:
        self._state_machine = state_machine
        self._settings = settings
        self._held_back = held_back
        self._clocks = clocks
        self._group_registry = group_registry
        self._explain_replica = ExplainReplica(state_machine, group_registry)
        self._one = anyio.CapacityLimiter(1)

    async def run(self) -> None:
        """Discards the replica when no question has come for `IDLE_SECONDS`. Runs until cancelled."""
        while True:
            await anyio.sleep(_LOOK_SECONDS)
            if not self._one.borrowed_tokens and self._explain_replica.idle(self._clocks.clock()):
                self._explain_replica.give_up()

    async def __call__(self, what: Explained, namespace: str, name: str) -> bytes:
        with anyio.move_on_after(_PATIENCE_SECONDS) as waiting:
            await self._one.acquire()
        if waiting.cancelled_caught:
            raise WhatIfRefused("other questions are being answered, want one at a time", busy=True)
        try:
            return await self._answer(what, PodKey(namespace, name))
        finally:
            self._one.release()

    async def _answer(self, what: Explained, key: PodKey) -> bytes:
        self._read(what, key, self._group_registry())  # raises NothingThere before changes are collected
        try:
            return await self._looked(what, key)
        except BaseException:
            self._explain_replica.give_up()  # the collected changes may not have been applied to it
            raise

    async def _looked(self, what: Explained, key: PodKey) -> bytes:
        replica, changes, group_registry = await self._explain_replica.changes(self._clocks.clock())
        read = self._read(what, key, group_registry)  # no await since the last changes: both show the same state
        columns = read.seen.columns if isinstance(read, PodRead) else self._state_machine.ledger.columns.copy()
        inquiry = _Inquiry(
            read=read,
            name=key.name,
            changes=changes,
            columns=columns,
            row_of=dict(self._state_machine.nodes.row_of),
            group_registry=group_registry,
            settings=self._settings(),
            now=self._clocks.clock(),
            unix_now=self._clocks.steady(),
        )
        before, built = sys.getswitchinterval(), replica.builds
        sys.setswitchinterval(_SWITCH_SECONDS)
        try:
            return await anyio.to_thread.run_sync(_explained, replica, inquiry)
        finally:
            sys.setswitchinterval(before)
            if not built:
                # The new replica lives for minutes: freezing it spares the garbage collector repeated scans.
                gc.freeze()

    def _read(self, what: Explained, key: PodKey, group_registry: GroupRegistryView | None) -> Read:
        now = self._clocks.clock()
        match what:
            case "pod":
                return read_pod(self._state_machine, key, now)
            case "node":
                return self._node(NodeName(key.name), group_registry)
            case "permit":
                return read_permit(self._state_machine, key)
            case "migration":
                return read_migration(self._state_machine, key, now)
            case "gate":
                return read_gate(self._state_machine, key, now)
            case "group":
                if group_registry is None or key.name not in group_registry.group_status:
                    raise NothingThere(f"group {key.name}: no provider has reported it")
                return GroupName(key.name)

    def _node(self, name: NodeName, group_registry: GroupRegistryView | None) -> NodeWord:
        row = self._state_machine.nodes.row_of.get(name)
        node = None if row is None else self._state_machine.nodes.by_row[row]
        groups = (
            {} if group_registry is None else {each.group.name: each.group for each in group_registry.group_status.values()}
        )
        of = None if node is None else Membership(groups.values()).group_of(node)
        group = None if of is None else groups[of]
        return read_node(self._state_machine, name, (None, ()) if group is None else self._held_back(name, group))


# --- in the thread --------------------------------------------------------------------------------------------------------


def _explained(replica: SnapshotReplica, inquiry: _Inquiry) -> bytes:
    replica.take(inquiry.changes)
    group_status = {} if inquiry.group_registry is None else inquiry.group_registry.group_status
    priorities = NO_PRIORITIES if inquiry.group_registry is None else inquiry.group_registry.priorities or NO_PRIORITIES
    scale_up = scale_up_policy_of(inquiry.settings, priorities=priorities, after_scheduler=False)
    daemons = () if inquiry.group_registry is None else inquiry.group_registry.around.daemons or ()
    groups = {
        name: growable_group(replica, each, each.closed(inquiry.now), daemons=daemons, policy=scale_up)
        for name, each in group_status.items()
    }
    pods = [inquiry.read.pod] if isinstance(inquiry.read, PodRead) else []
    standing = [pod for group in groups.values() if group.template is not None for pod in group.template.standing]
    replica.learn([*standing, *pods])
    membership = Membership(each.group for each in group_status.values())
    node = replica.nodes.get(NodeName(inquiry.name))
    group = None if node is None else membership.group_of(node)
    replica.snapshot.judge_by(ledger_for(replica, inquiry.columns, inquiry.row_of))
    try:
        explain_input = ExplainInput(
            snapshot=replica.snapshot,
            standing=replica,
            pending=replica.pending,
            budgets=replica.budgets,
            replicas=None if inquiry.group_registry is None else inquiry.group_registry.around.replicas,
            groups=groups,
            group_of={} if node is None or group is None else {node.name: group},
            scale_up=scale_up,
            scale_down=scale_down_policy_of(inquiry.settings),
            now=inquiry.unix_now,
        )
        return msgspec.json.encode(document(_told(replica, explain_input, inquiry, group_status)))
    finally:
        replica.snapshot.judge_by(None)


def _told(
    replica: SnapshotReplica, explain_input: ExplainInput, inquiry: _Inquiry, group_status: Mapping[GroupName, NodeGroupStatus]
) -> Explanation:
    match inquiry.read:
        case PodRead(pod=pod, word=word):
            notes = skipped_rules(
                explain_input.snapshot.of(explain_input.kind_of(pod)), unknown(inquiry.group_registry), "is watched"
            )
            return replace(explain_pod(explain_input, pod, word), notes=tuple(notes))
        case NodeWord() as node_word:
            # Expendable pods do not keep a node from being removed.
            with replica.without_below(explain_input.scale_down.rules.priority_cutoff) as counted:
                return explain_node(replace(explain_input, standing=counted), NodeName(inquiry.name), node_word)
        case Grower() as grower:
            return explain_permit(explain_input, grower)
        case Moving() as moving:
            return explain_migration(explain_input, moving)
        case Gated() as gated:
            return explain_gate(gated)
        case name:
            slack = None if inquiry.group_registry is None else inquiry.group_registry.slack
            return explain_group(explain_input, GroupName(name), _figures(group_status[GroupName(name)], slack))


def _figures(group_status: NodeGroupStatus, slack: SlackPlan | None) -> dict[str, object]:
    nodes = frozenset((*group_status.ready, *group_status.unready, *group_status.starting))
    return {
        "min": group_status.group.min_size,
        "max": group_status.group.max_size,
        "target": group_status.group.target,
        "ready": len(group_status.ready),
        "unready": len(group_status.unready),
        "upcoming": group_status.upcoming,
        "leaving": group_status.leaving,
        "provider": group_status.group.provider,
        "startSeconds": list(group_status.starts),
        "slack": None if slack is None else slack_in_group(slack, group_status.name, nodes),
    }
