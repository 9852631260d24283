"""Answers `/explain/...`: implements `run.ports.Explain`.

One question at a time. What has to be read of the world is read on the event loop; the picture is looked at in a worker
thread, which alone owns it.
"""

import gc
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

import anyio
import anyio.to_thread
import msgspec

from slackwater.app.explaining.following import Following, ledger_for
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
from slackwater.app.whatif.live import FleetView, unknown
from slackwater.cluster.nodegroups.status import Census
from slackwater.controllers.scaleup.expanders.priority import NO_PRIORITIES
from slackwater.explain.findings import Explanation, document
from slackwater.explain.growing import Gated, Grower, Moving, explain_gate, explain_migration, explain_permit
from slackwater.explain.growth import explain_group
from slackwater.explain.nodes import NodeWord, explain_node
from slackwater.explain.pods import explain_pod
from slackwater.explain.situation import Situation
from slackwater.model.changes import Changes
from slackwater.model.columns import NodeColumns
from slackwater.model.ids import Instant, NodeName, PodKey, Row, UnixTime
from slackwater.model.nodegroups import GroupName, Membership, NodeGroup
from slackwater.ports.protocols import Explained, NothingThere, WhatIfRefused
from slackwater.runtime.autoscaler.scaleup_planning import growable_group
from slackwater.runtime.autoscaler.slack_planning import SlackPlan
from slackwater.runtime.autoscaler.slack_report import slack_in_group
from slackwater.runtime.state_machine import World
from slackwater.snapshot.replica import Mirror

#: For so long a question waits for those before it.
_PATIENCE_SECONDS: Final = 30.0
#: While a thread computes, the serving loop waits for its turn at most so long.
_SWITCH_SECONDS: Final = 1e-4
_LOOK_SECONDS: Final = 30.0

HeldBackOf = Callable[[NodeName, NodeGroup], HeldBack]
#: What was read about the object; a group's name stands for itself.
Read = PodRead | NodeWord | Grower | Moving | Gated | GroupName


@dataclass(frozen=True, slots=True, kw_only=True)
class _Inquiry:
    """All that the thread needs."""

    read: Read
    name: str
    changes: Changes
    columns: NodeColumns
    row_of: dict[NodeName, Row]
    fleet: FleetView | None
    settings: Settings
    now: Instant
    unix_now: UnixTime


@dataclass(frozen=True, slots=True, kw_only=True)
class Clocks:
    """`clock` is for intervals. `steady` is for the times that objects carry; it never jumps."""

    clock: Callable[[], Instant]
    steady: Callable[[], UnixTime]


class Explaining:
    """See the module. `held_back` says what holds a candidate for removal back; `fleet` is asked on the loop."""

    def __init__(
        self,
        world: World,
        *,
        fleet: Callable[[], FleetView | None],
        settings: Callable[[], Settings],
        held_back: HeldBackOf,
        clocks: Clocks,
    ) -> None:
        self._world = world
        self._settings = settings
        self._held_back = held_back
        self._clocks = clocks
        self._fleet = fleet
        self._following = Following(world, fleet)
        self._one = anyio.CapacityLimiter(1)

    async def run(self) -> None:
        """Gives the mirror up when nobody has asked for a while; until cancelled."""
        while True:
            await anyio.sleep(_LOOK_SECONDS)
            if not self._one.borrowed_tokens and self._following.idle(self._clocks.clock()):
                self._following.give_up()

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
        self._read(what, key, self._fleet())  # nothing is collected for what is not there
        try:
            return await self._looked(what, key)
        except BaseException:
            self._following.give_up()  # what was collected may not have been taken in
            raise

    async def _looked(self, what: Explained, key: PodKey) -> bytes:
        mirror, changes, fleet = await self._following.changes(self._clocks.clock())
        read = self._read(what, key, fleet)  # at the same moment as the last of the changes
        columns = read.seen.columns if isinstance(read, PodRead) else self._world.ledger.columns.copy()
        inquiry = _Inquiry(
            read=read,
            name=key.name,
            changes=changes,
            columns=columns,
            row_of=dict(self._world.nodes.row_of),
            fleet=fleet,
            settings=self._settings(),
            now=self._clocks.clock(),
            unix_now=self._clocks.steady(),
        )
        before, built = sys.getswitchinterval(), mirror.builds
        sys.setswitchinterval(_SWITCH_SECONDS)
        try:
            return await anyio.to_thread.run_sync(_explained, mirror, inquiry)
        finally:
            sys.setswitchinterval(before)
            if not built:
                # The mirror stays for a while: the garbage collector need not look through it again and again.
                gc.freeze()

    def _read(self, what: Explained, key: PodKey, fleet: FleetView | None) -> Read:
        now = self._clocks.clock()
        match what:
            case "pod":
                return read_pod(self._world, key, now)
            case "node":
                return self._node(NodeName(key.name), fleet)
            case "permit":
                return read_permit(self._world, key)
            case "migration":
                return read_migration(self._world, key, now)
            case "gate":
                return read_gate(self._world, key, now)
            case "group":
                if fleet is None or key.name not in fleet.census:
                    raise NothingThere(f"group {key.name}: no provider has told of it")
                return GroupName(key.name)

    def _node(self, name: NodeName, fleet: FleetView | None) -> NodeWord:
        row = self._world.nodes.row_of.get(name)
        node = None if row is None else self._world.nodes.by_row[row]
        groups = {} if fleet is None else {each.group.name: each.group for each in fleet.census.values()}
        of = None if node is None else Membership(groups.values()).group_of(node)
        group = None if of is None else groups[of]
        return read_node(self._world, name, (None, ()) if group is None else self._held_back(name, group))


# --- in the thread --------------------------------------------------------------------------------------------------------


def _explained(mirror: Mirror, inquiry: _Inquiry) -> bytes:
    mirror.take(inquiry.changes)
    census = {} if inquiry.fleet is None else inquiry.fleet.census
    priorities = NO_PRIORITIES if inquiry.fleet is None else inquiry.fleet.priorities or NO_PRIORITIES
    growth = scale_up_policy_of(inquiry.settings, priorities=priorities, after_scheduler=False)
    daemons = () if inquiry.fleet is None else inquiry.fleet.around.daemons or ()
    groups = {
        name: growable_group(mirror, each, each.closed(inquiry.now), daemons=daemons, policy=growth)
        for name, each in census.items()
    }
    pods = [inquiry.read.pod] if isinstance(inquiry.read, PodRead) else []
    standing = [pod for group in groups.values() if group.template is not None for pod in group.template.standing]
    mirror.learn([*standing, *pods])
    membership = Membership(each.group for each in census.values())
    node = mirror.nodes.get(NodeName(inquiry.name))
    group = None if node is None else membership.group_of(node)
    mirror.picture.judge_by(ledger_for(mirror, inquiry.columns, inquiry.row_of))
    try:
        situation = Situation(
            picture=mirror.picture,
            standing=mirror,
            pending=mirror.pending,
            budgets=mirror.budgets,
            replicas=None if inquiry.fleet is None else inquiry.fleet.around.replicas,
            groups=groups,
            group_of={} if node is None or group is None else {node.name: group},
            growth=growth,
            shrink=scale_down_policy_of(inquiry.settings),
            now=inquiry.unix_now,
        )
        return msgspec.json.encode(document(_told(mirror, situation, inquiry, census)))
    finally:
        mirror.picture.judge_by(None)


def _told(mirror: Mirror, situation: Situation, inquiry: _Inquiry, census: Mapping[GroupName, Census]) -> Explanation:
    match inquiry.read:
        case PodRead(pod=pod, word=word):
            notes = skipped_rules(situation.picture.of(situation.kind_of(pod)), unknown(inquiry.fleet), "is watched")
            return replace(explain_pod(situation, pod, word), notes=tuple(notes))
        case NodeWord() as node_word:
            # No node stays for expendable pods.
            with mirror.without_below(situation.shrink.rules.priority_cutoff) as counted:
                return explain_node(replace(situation, standing=counted), NodeName(inquiry.name), node_word)
        case Grower() as grower:
            return explain_permit(situation, grower)
        case Moving() as moving:
            return explain_migration(situation, moving)
        case Gated() as gated:
            return explain_gate(gated)
        case name:
            slack = None if inquiry.fleet is None else inquiry.fleet.slack
            return explain_group(situation, GroupName(name), _figures(census[GroupName(name)], slack))


def _figures(census: Census, slack: SlackPlan | None) -> dict[str, object]:
    nodes = frozenset((*census.ready, *census.unready, *census.starting))
    return {
        "min": census.group.min_size,
        "max": census.group.max_size,
        "target": census.group.target,
        "ready": len(census.ready),
        "unready": len(census.unready),
        "upcoming": census.upcoming,
        "leaving": census.leaving,
        "provider": census.group.provider,
        "startSeconds": list(census.starts),
        "slack": None if slack is None else slack_in_group(slack, census.name, nodes),
    }
