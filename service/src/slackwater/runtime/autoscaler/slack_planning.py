"""Growth and slack planned together: real pods first and alone, then placeholders on what they leave, then nodes for these.

    found = plan_with_slack(snapshot, demand, groups, policy=policy, clock=clock, slack=inquiry, tenancy=tenancy)
    found.plan                # growth for pods, and behind it growth for placeholders
    found.slack               # the placeholders and their places; what to remember

The plan for the pods is what it would be without slack: placeholders are not in the snapshot while it is made. Then they
find places beside the pods, where these stand or will stand. Who finds none is demand of the lowest priority, of the nodes
that are no larger than needed (expander `smallest-node`), as far as the limits allow after the pods' nodes. Deliberately
absent: where it is asked from (the loop, or a file), and how long anything is remembered.
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
    """What is asked for, what was before, and when it is."""

    policy: SlackPolicy
    now: UnixTime
    asking: Asking = field(default_factory=Asking)
    state: SlackState = field(default_factory=SlackState)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlackPlan:
    """`state.placeholders` are all there are; those with a place stand on nodes that are there or on their way.

    `coming` will stand on nodes that the plan asks for; `unhelpable` fit nowhere, and no group may grow for them. `pushed` are
    numbers of placeholders that had to leave their place. `alone_in`: by group, nodes that are there for slack alone. `asking`:
    who wanted placeholders like pods.
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
        """In all groups."""
        return sum(self.alone_in.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """Both plans. `slack` is None where none is asked for."""

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

    The snapshot is as before afterwards. Raises `UnreadLabel` where it was built without a mirrored kind."""
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
    """The snapshot as the plan for the pods leaves it: nodes on their way and new ones stand there, with everybody placed."""

    def __init__(self, snapshot: ClusterSnapshot, groups: Sequence[GrowableGroup], plan: ScaleUpPlan, system: Amounts) -> None:
        self._snapshot, self._groups, self._plan, self._system = snapshot, groups, plan, system
        #: The groups of the rows of nodes on their way.
        self._upcoming: dict[int, GroupName] = {}
        for group in groups:
            if group.template is not None:
                names = [upcoming_name(group.name, number) for number in range(group.upcoming)]
                self._upcoming.update(dict.fromkeys(add_nodes(snapshot, group.template, names, system=system), group.name))
        self._there = snapshot.n_rows
        #: Of the rows of new nodes: the group, and which of its new nodes.
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
        """What each rule finds: nodes that are there or on their way. What is only planned counts once it is asked for."""
        sites = [Site(node=group.template.node, room=_room(group)) for group in self._groups if group.template is not None]
        rows = [Row(row) for row in range(self._there)]
        waiting = pod_requests.of(pending)
        return {
            rule.name: slack_input_of(self._snapshot, rule, rows=rows, sites=sites, pod_requests=pod_requests, waiting=waiting)
            for rule in policy.rules
            if rule.asks
        }

    def alone(self, found: SlackFound, pod_requests: RunningPodRequests) -> dict[GroupName, int]:
        """How many nodes above their groups' minimum hold placeholders and no pod that did not come with them."""
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
        """Nodes for the placeholders that have no place. `most`: so many at most; None: no limit of slack's own."""
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
    """One plan of growth, the pods' nodes first; and the placeholders with what became of each."""
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
