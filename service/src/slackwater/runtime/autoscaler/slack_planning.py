"""Plans scale-up and slack together: first for real pods, then placeholders in the remaining room, then nodes for the rest.

    found = plan_with_slack(snapshot, demand, groups, policy=policy, clock=clock, slack=inquiry, pod_requests=pod_requests)
    found.plan                # scale-up for pods, then for placeholders
    found.slack               # the placeholders with their places, and the state for the next plan

Slack does not change the plan for the pods: no placeholders are in the snapshot while it is made. Placeholders then get the
room that is left on existing, upcoming and newly planned nodes. Those without room get nodes of their own, of the smallest
sufficient size (expander `smallest-node`), as far as the limits allow after the pods' nodes. Deliberately absent: the caller
(the loop, or a simulation from a file), and how long state is kept.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

import numpy as np

from slackwater.controllers.scaleup.groups import GrowableGroup, SkipReason, add_nodes, upcoming_name
from slackwater.controllers.scaleup.outcome import ScaleUp, ScaleUpPlan, Unhelpable
from slackwater.controllers.scaleup.pending import Demand
from slackwater.controllers.scaleup.plan import plan_scale_up
from slackwater.controllers.scaleup.policy import ScaleUpPolicy
from slackwater.controllers.slack.plan import SlackDemand, SlackFound, plan_slack
from slackwater.controllers.slack.planning_input import Site, SlackInput, slack_input_of
from slackwater.controllers.slack.rule import SlackPolicy
from slackwater.controllers.slack.sizing import Cut
from slackwater.controllers.slack.state import Placeholder, SlackState
from slackwater.fit.packing import NOWHERE
from slackwater.model.ids import NodeName, PodUid, Row, UnixTime
from slackwater.model.nodegroups import GroupName, Membership
from slackwater.model.objects import Pod
from slackwater.model.resources import NOTHING, Amounts
from slackwater.runtime.autoscaler.headroom import Asking
from slackwater.runtime.autoscaler.tenancy import RunningPodRequests
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.equivalence_groups import KindId

_NO_HINTS: Final[Mapping[PodUid, NodeName]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class SlackInquiry:
    """The input of a slack plan: the policy, the current time, the requested pod headroom and the state after the last plan."""

    policy: SlackPolicy
    now: UnixTime
    asking: Asking = field(default_factory=Asking)
    state: SlackState = field(default_factory=SlackState)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlackPlan:
    """The result of a slack plan. `state.placeholders` are all placeholders; a placed one is on an existing or upcoming node.

    `coming`: placeholders on nodes that this plan adds, with the group. `unhelpable`: placeholders that fit nowhere, for which
    no group can grow. `pushed`: numbers of placeholders that lost their place. `alone_in`: nodes kept for slack alone, by
    group. `asking`: the requested pod headroom.
    """

    state: SlackState
    coming: Mapping[int, GroupName]
    unhelpable: tuple[Unhelpable, ...]
    cuts: Mapping[str, Cut]
    pushed: tuple[int, ...]
    alone_in: Mapping[GroupName, int]
    asking: Asking = field(default_factory=Asking)

    @property
    def alone(self) -> int:
        """The number of nodes kept for slack alone, in all groups."""
        return sum(self.alone_in.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """The scale-up plan and the slack plan; `slack` is None if slack is off."""

    plan: ScaleUpPlan
    slack: SlackPlan | None = None


def plan_with_slack(
    snapshot: ClusterSnapshot,
    demand: Demand,
    groups: Sequence[GrowableGroup],
    *,
    policy: ScaleUpPolicy,
    clock: Callable[[], float],
    slack: SlackInquiry,
    pod_requests: RunningPodRequests,
    hints: Mapping[PodUid, NodeName] = _NO_HINTS,
) -> Planned:
    """Plans scale-up and slack together: real pods first, then placeholders on what they leave.

    Leaves the snapshot unchanged.

    :raises UnreadLabel: the snapshot was built without an equivalence group that the plan needs.
    """
    with snapshot.fork():
        plan = plan_scale_up(snapshot, demand, groups, policy=policy, clock=clock, hints=hints)
    with snapshot.fork():
        stage = _Stage(snapshot, groups, plan, policy.system)
        grounds = stage.grounds(slack.policy, pod_requests, demand.counted)
        asked = SlackDemand(policy=slack.policy, grounds=grounds, pod_headroom=slack.asking.pod_headroom)
        found = plan_slack(snapshot, slack.state, asked, now=slack.now)
        alone = stage.alone(found, pod_requests)
        left = None if not slack.policy.max_nodes else max(slack.policy.max_nodes - sum(alone.values()), 0)
        more = stage.grow(found.settled.homeless, policy=policy, clock=clock, most=left)
    together = _together(plan, stage, found, more)
    own = SlackPlan(
        state=together.state,
        coming=together.coming,
        unhelpable=more.unhelpable,
        cuts=found.cuts,
        pushed=found.settled.pushed,
        alone_in=alone,
        asking=slack.asking,
    )
    return Planned(plan=replace(plan, scale_ups=together.scale_ups), slack=own)


class _Stage:
    """The snapshot after the plan for real pods: with the upcoming and the newly planned nodes, and with all pods placed."""

    def __init__(self, snapshot: ClusterSnapshot, groups: Sequence[GrowableGroup], plan: ScaleUpPlan, system: Amounts) -> None:
        self._snapshot, self._groups, self._plan, self._system = snapshot, groups, plan, system
        #: The group of each row of an upcoming node.
        self._upcoming: dict[int, GroupName] = {}
        for group in groups:
            if group.template is not None:
                names = [upcoming_name(group.name, number) for number in range(group.upcoming)]
                self._upcoming.update(dict.fromkeys(add_nodes(snapshot, group.template, names, system=system), group.name))
        self._there = snapshot.n_rows
        #: The group of each row of a newly planned node, and its number among them.
        self.new: dict[int, tuple[GroupName, int]] = {}
        by_name = {group.name: group for group in groups}
        homes = [(pod, snapshot.facts.row_of[name]) for pod, name in plan.schedulable if name in snapshot.facts.row_of]
        for scale_up in plan.scale_ups:
            homes += self._open(by_name[scale_up.group], scale_up)
        self._real = {row for _, row in homes}
        self._stand(homes)

    def _open(self, group: GrowableGroup, scale_up: ScaleUp) -> list[tuple[Pod, Row]]:
        assert group.template is not None
        names = [NodeName(f"planned:{group.name}:{number}") for number in range(scale_up.count)]
        rows = add_nodes(self._snapshot, group.template, names, system=self._system)
        self.new.update({row: (group.name, number) for number, row in enumerate(rows)})
        return [(pod, Row(row)) for row, pods in zip(rows, scale_up.nodes, strict=True) for pod in pods]

    def _stand(self, homes: Sequence[tuple[Pod, Row]]) -> None:
        kinds = self._snapshot.number([pod for pod, _ in homes])
        rows = np.fromiter((row for _, row in homes), np.intp, len(homes))
        for kind in np.unique(kinds).tolist():
            where, counts = np.unique(rows[kinds == kind], return_counts=True)
            self._snapshot.place_many(KindId(kind), where, counts)

    def grounds(self, policy: SlackPolicy, pod_requests: RunningPodRequests, pending: Sequence[Pod]) -> dict[str, SlackInput]:
        """The input of each slack rule: existing and upcoming nodes. Newly planned nodes count once they are requested."""
        sites = [Site(node=group.template.node, room=_room(group)) for group in self._groups if group.template is not None]
        rows = [Row(row) for row in range(self._there)]
        waiting = pod_requests.of(pending)
        return {
            rule.name: slack_input_of(self._snapshot, rule, rows=rows, sites=sites, pod_requests=pod_requests, waiting=waiting)
            for rule in policy.rules
            if rule.asks
        }

    def alone(self, found: SlackFound, pod_requests: RunningPodRequests) -> dict[GroupName, int]:
        """The number of nodes kept for slack alone, by group: they have placeholders but no pods except DaemonSet pods. Nodes
        within a group's minimum do not count."""
        membership = Membership(group.group for group in self._groups)
        counts: dict[GroupName, int] = {}
        for row in np.unique(found.settled.rows[found.settled.rows != NOWHERE]).tolist():
            if row in self._real or row in self.new or pod_requests.in_use(Row(row)):
                continue
            name = self._upcoming.get(row) or membership.group_of(self._snapshot.facts.nodes[row])
            if name is not None:
                counts[name] = counts.get(name, 0) + 1
        groups = {group.name: group.group for group in self._groups}
        most = {name: max(groups[name].target - groups[name].min_size, 0) for name in counts}
        return {name: least for name, count in counts.items() if (least := min(count, most[name]))}

    def grow(
        self, homeless: Sequence[Placeholder], *, policy: ScaleUpPolicy, clock: Callable[[], float], most: int | None
    ) -> ScaleUpPlan:
        """The scale-up for placeholders without a place. `most`: the most nodes to add for slack; None: no own limit."""
        if not homeless:
            return ScaleUpPlan()
        limits = [] if most is None else [most]
        if policy.max_nodes:
            limits.append(max(policy.max_nodes - self._plan.n_nodes, 0))
        skip_reason = SkipReason(kind="limit", text="no more nodes may be added for slack alone") if 0 in limits else None
        grown = {scale_up.group: scale_up.count for scale_up in self._plan.scale_ups}
        groups = [
            replace(
                group,
                upcoming=0,
                skip_reason=group.skip_reason or skip_reason,
                group=replace(group.group, target=group.group.target + grown.get(group.name, 0)),
            )
            for group in self._groups
        ]
        chain = (*(name for name in policy.expanders if name == "priority"), "smallest-node", *policy.expanders)
        own = replace(policy, expanders=tuple(dict.fromkeys(chain)), max_nodes=min(limits, default=0))
        asked = Demand(counted=tuple(each.pod for each in homeless))
        return plan_scale_up(self._snapshot, asked, groups, policy=own, clock=clock)


class _Together(NamedTuple):
    scale_ups: tuple[ScaleUp, ...]
    state: SlackState
    coming: Mapping[int, GroupName]


def _together(plan: ScaleUpPlan, stage: _Stage, found: SlackFound, more: ScaleUpPlan) -> _Together:
    """Joins the scale-ups for pods and for placeholders, in this order, and notes where each placeholder is."""
    nodes = {scale_up.group: [list(pods) for pods in scale_up.nodes] for scale_up in plan.scale_ups}
    coming: dict[int, GroupName] = {}
    kept: list[Placeholder] = []
    for placeholder, row in zip(found.state.placeholders, found.settled.rows.tolist(), strict=True):
        if row in stage.new:
            group, number = stage.new[row]
            nodes[group][number].append(placeholder.pod)
            coming[placeholder.number] = group
            kept.append(replace(placeholder, place=None))
        else:
            kept.append(placeholder)
    numbers = {each.pod.uid: each.number for each in found.settled.homeless}
    for scale_up in more.scale_ups:
        nodes.setdefault(scale_up.group, []).extend(list(pods) for pods in scale_up.nodes)
        coming.update({numbers[pod.uid]: scale_up.group for pod in scale_up.pods})
    order = dict.fromkeys(scale_up.group for scale_up in (*plan.scale_ups, *more.scale_ups))
    scale_ups = tuple(ScaleUp(group=name, nodes=tuple(map(tuple, nodes[name]))) for name in order)
    return _Together(scale_ups, replace(found.state, placeholders=tuple(kept)), coming)


def _room(group: GrowableGroup) -> Amounts:
    assert group.template is not None
    taken = NOTHING
    for pod in group.template.standing:
        taken = taken.plus(pod.kind.requests)
    return group.template.node.allocatable.minus(taken).not_below_zero()
