"""Plans scale-up and slack together: scale-up for real pods, then placeholders in the remaining room, then nodes for the rest.

    found = plan_with_slack(snapshot, demand, groups, policy=policy, clock=clock, slack=inquiry, running_pods=running_pods)
    found.plan                # scale-up for pods, then for placeholders
    found.slack               # the placeholders with their places, and the state for the next plan

In: a replica's snapshot and pods, and the objects that request headroom. Out: `LoopPlans`. Invariant: slack does not change the
plan for real pods. The callers are the planning process and simulations from a file; they keep `SlackState` between plans.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Final

import numpy as np

from slackwater.controllers.scaleup.groups import GrowableGroup, SkipReason, add_nodes, upcoming_name
from slackwater.controllers.scaleup.outcome import PlanFailure, ScaleUp, ScaleUpPlan, Unhelpable, failure_of
from slackwater.controllers.scaleup.pending import Demand
from slackwater.controllers.scaleup.plan import plan_scale_up
from slackwater.controllers.scaleup.policy import ScaleUpPolicy
from slackwater.controllers.slack.headroom_demand import HeadroomDemand
from slackwater.controllers.slack.headroom_limits import HeadroomBudget, HeadroomCut, joined, within_nodes
from slackwater.controllers.slack.plan import SlackFound, plan_slack
from slackwater.controllers.slack.planning_input import SlackInput, SlackNode, may_recur, slack_input_of, works
from slackwater.controllers.slack.policy import SlackPolicy
from slackwater.controllers.slack.rate_sizing import RuleSizes
from slackwater.controllers.slack.state import Placeholder, SlackLoad, SlackPurchase, SlackState, kept_nodes
from slackwater.fit.assumed_claims import assume_free_devices, has_claims
from slackwater.fit.binpacking import NOWHERE
from slackwater.fit.feasible_nodes import admitting
from slackwater.model.columns import Int64
from slackwater.model.ids import NodeName, PodUid, Row, UnixTime
from slackwater.model.nodegroups import GroupName, Membership
from slackwater.model.objects import Pod, is_daemon
from slackwater.model.pod_constraints import Kind
from slackwater.model.resources import NOTHING, Amounts, amounts_of, sum_of
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.equivalence_groups import KindId
from slackwater.snapshot.node_facts import CPU, MEMORY
from slackwater.snapshot.running_pods import PodsByRow

_NO_HINTS: Final[Mapping[PodUid, NodeName]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class SlackInquiry:
    """The input of a slack plan: the policy, the current time, the requested headroom and the state after the last plan."""

    policy: SlackPolicy
    now: UnixTime
    headroom: HeadroomDemand = field(default_factory=HeadroomDemand)
    state: SlackState = field(default_factory=SlackState)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlackPlan:
    """The result of a slack plan. `state.placeholders` are all placeholders; those with a `place` are on existing or upcoming
    nodes.

    `coming`: the group of each placeholder on a node that this plan adds, by the placeholder's number. `unhelpable`:
    placeholders that fit nowhere, and for which no group can grow. `cuts`: the sizes of the placeholders of each slack rule.
    `pushed`: the numbers of placeholders that lost their place. `alone_in`: the number of nodes kept for slack alone, by group.
    `headroom`: the requested headroom; `cuts_of_headroom`: what of it is not kept.
    """

    state: SlackState
    coming: Mapping[int, GroupName]
    unhelpable: tuple[Unhelpable, ...]
    cuts: Mapping[str, RuleSizes]
    pushed: tuple[int, ...]
    alone_in: Mapping[GroupName, int]
    headroom: HeadroomDemand = field(default_factory=HeadroomDemand)
    cuts_of_headroom: tuple[HeadroomCut, ...] = ()

    @property
    def alone(self) -> int:
        """The number of nodes kept for slack alone, in all groups."""
        return sum(self.alone_in.values())

    def cuts_for(self, pod: Pod) -> tuple[str, ...]:
        """Texts that say what is not kept of the room that the pod's annotation, or its controller's, asks for."""
        return tuple(cut.text for cut in self.cuts_of_headroom if cut.concerns(pod))


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopPlans:
    """The scale-up plan and the slack plan; `slack` is None if slack is off."""

    plan: ScaleUpPlan
    slack: SlackPlan | None = None

    def without(self, failure: PlanFailure) -> "LoopPlans":
        """These plans, with the report of an error in a further part, which was not planned."""
        return replace(self, plan=replace(self.plan, failures=(*self.plan.failures, failure)))


def plan_with_slack(
    snapshot: ClusterSnapshot,
    demand: Demand,
    groups: Sequence[GrowableGroup],
    *,
    policy: ScaleUpPolicy,
    clock: Callable[[], float],
    slack: SlackInquiry | None,
    running_pods: PodsByRow,
    hints: Mapping[PodUid, NodeName] = _NO_HINTS,
) -> LoopPlans:
    """Plans scale-up and slack together: real pods first, then placeholders in the room that is left.

    While scale-up for real pods is planned, the snapshot contains no placeholders. Placeholders then get the room that is left
    on existing, upcoming and newly planned nodes. Those without room get nodes of their own, of the smallest sufficient size
    (expander `smallest-node`), within the limits that the nodes for real pods leave. The snapshot is left unchanged.

    Without `slack` only real pods are planned for. If the plan for placeholders raises an error, the plan for real pods is
    returned alone, with the error (`failures`).
    """
    with snapshot.fork():
        plan = plan_scale_up(snapshot, demand, groups, policy=policy, clock=clock, hints=hints)
    if slack is None:
        return LoopPlans(plan=plan)
    try:
        return _with_placeholders(
            snapshot, demand, groups, plan, policy=policy, clock=clock, slack=slack, running_pods=running_pods
        )
    except Exception as error:
        return LoopPlans(plan=plan).without(failure_of("slack", "slack", error))


def _with_placeholders(
    snapshot: ClusterSnapshot,
    demand: Demand,
    groups: Sequence[GrowableGroup],
    plan: ScaleUpPlan,
    *,
    policy: ScaleUpPolicy,
    clock: Callable[[], float],
    slack: SlackInquiry,
    running_pods: PodsByRow,
) -> LoopPlans:
    with snapshot.fork():
        stage = _Stage(snapshot, groups, plan, policy.system)
        inputs = stage.slack_inputs(slack.policy, running_pods, demand.counted)
        wanted, limits = slack.headroom.pod_headroom, slack.policy.headroom_limits
        limited = within_nodes(wanted, stage.slack_nodes, limits, n_nodes=stage.n_existing)
        used, headroom = stage.used(), limited.pod_headroom
        found = plan_slack(
            snapshot, slack.state, policy=slack.policy, slack_inputs=inputs, pod_headroom=headroom, now=slack.now
        )
        alone = stage.alone(found, running_pods)
        left = None if not slack.policy.max_nodes else max(slack.policy.max_nodes - sum(alone.values()), 0)
        more = stage.grow(stage.in_need(found.homeless), policy=policy, clock=clock, most=left)
        namespace_of = {each.source: each.kind.namespace for each in headroom if each.capped}
        node_limits = HeadroomBudget(namespace_of=namespace_of, limits=limits, in_all=limits.in_all(stage.n_existing))
        if namespace_of:
            more = stage.within(node_limits, more, found, running_pods)
    scale_ups, placeholders, coming = stage.together(found, more)
    load = SlackLoad(
        used=used,
        asked=sum_of(cut.asked for cut in found.cuts.values()),
        rules=slack.policy.rules,
        headroom=sum(each.count for each in wanted),
    )
    purchases = stage.purchases(more, with_pods=any(rule.asks for rule in slack.policy.rules))
    kept = kept_nodes(slack.state.kept_nodes, load, purchases, now=slack.now, keep_seconds=slack.policy.keep_nodes)
    own = SlackPlan(
        state=SlackState(placeholders=placeholders, held=found.held, kept_nodes=kept),
        coming=coming,
        unhelpable=more.unhelpable,
        cuts=found.cuts,
        pushed=found.pushed,
        alone_in=alone,
        headroom=slack.headroom,
        cuts_of_headroom=joined(slack.headroom.cuts, limited.cuts, node_limits.cuts(headroom)),
    )
    return LoopPlans(
        plan=replace(
            plan,
            scale_ups=scale_ups,
            failures=(*plan.failures, *more.failures),
            steps=plan.steps + more.steps,
            cut_by=plan.cut_by or more.cut_by,
        ),
        slack=own,
    )


class _Stage:
    """The snapshot after the plan for real pods: with the upcoming and the newly planned nodes, and with all pods placed."""

    def __init__(self, snapshot: ClusterSnapshot, groups: Sequence[GrowableGroup], plan: ScaleUpPlan, system: Amounts) -> None:
        self._snapshot, self._groups, self._plan = snapshot, groups, plan
        self._wholes = {group.owner: group.provided for group in groups}
        self._owners = {group.name: group.owner for group in groups}
        self._membership = Membership(self._wholes.values())
        self.n_existing = int(snapshot.facts.live[: snapshot.n_rows].sum())
        #: The group of each row of an upcoming node.
        self._upcoming: dict[int, GroupName] = {}
        for group in groups:
            if group.template is not None:
                names = [upcoming_name(group.name, number) for number in range(group.upcoming)]
                self._upcoming.update(dict.fromkeys(add_nodes(snapshot, group.template, names, system=system), group.owner))
        self._there = snapshot.n_rows
        #: A new node of each group.
        self.slack_nodes = list[SlackNode]()
        for own in (group.template for group in groups if group.template is not None):
            room = own.node.allocatable.minus(sum_of(pod.kind.requests for pod in own.running_pods)).not_below_zero()
            self.slack_nodes.append(SlackNode(node=own.node, room=room))
        #: The group of each row of a newly planned node, and its number among them.
        self.new: dict[int, tuple[GroupName, int]] = {}
        by_name = {group.name: group for group in groups}
        placements = [(pod, snapshot.facts.row_of[name]) for pod, name in plan.schedulable if name in snapshot.facts.row_of]
        for scale_up in plan.scale_ups:
            template = by_name[scale_up.group].template
            assert template is not None
            names = [NodeName(f"planned:{scale_up.group}:{number}") for number in range(scale_up.count)]
            rows = add_nodes(snapshot, template, names, system=system)
            self.new.update({row: (scale_up.group, number) for number, row in enumerate(rows)})
            placements += [(pod, Row(row)) for row, pods in zip(rows, scale_up.nodes, strict=True) for pod in pods]
        self._real = {row for _, row in placements}
        kinds, at = snapshot.number([pod for pod, _ in placements]), np.array([row for _, row in placements], np.intp)
        for kind in map(KindId, np.unique(kinds).tolist()):
            where, counts = np.unique(at[kinds == kind], return_counts=True)
            for row in at[kinds == kind].tolist() if has_claims(snapshot, snapshot.of(kind)) else ():
                assume_free_devices(snapshot, kind, Row(row))  # placeholders must not get them
            snapshot.place_many(kind, where, counts)

    def used(self) -> Amounts:
        """What the pods of all nodes request together."""
        rows = self._snapshot.facts.live[: self._snapshot.n_rows]
        return amounts_of(self._snapshot.used[[CPU, MEMORY], : self._snapshot.n_rows][:, rows].sum(axis=1))

    def purchases(self, more: ScaleUpPlan, *, with_pods: bool) -> dict[GroupName, SlackPurchase]:
        """What the scale-up for placeholders buys in each group, `with_pods` also that for pods, with the number of nodes that
        the group then has: those that work and are not being removed, and those that come."""
        scale_ups = (*(self._plan.scale_ups if with_pods else ()), *more.scale_ups)
        if not scale_ups:
            return {}
        nodes = self._snapshot.facts.nodes
        there = Counter(
            self._membership.group_of(nodes[row])
            for row in np.flatnonzero(self._snapshot.facts.live[: self._there]).tolist()
            if row not in self._upcoming and works(nodes[row])
        )
        there.update(self._upcoming.values())
        there.update(self._owners[group] for group, _ in self.new.values())
        for each in more.scale_ups:
            there[self._owners[each.group]] += each.count
        return {
            self._owners[each.group]: SlackPurchase(
                nodes=there[self._owners[each.group]],
                piece=reduce(Amounts.at_least, (pod.kind.requests for pod in each.pods), NOTHING),
            )
            for each in scale_ups
        }

    def slack_inputs(self, policy: SlackPolicy, running_pods: PodsByRow, pending: Sequence[Pod]) -> dict[str, SlackInput]:
        """The input of each slack rule, by the rule's name: the existing and upcoming nodes. Nodes that this plan adds are not
        among them."""
        slack_nodes = self.slack_nodes
        rows = [Row(row) for row in range(self._there)]
        waiting = list(dict.fromkeys(pod.kind.requests for pod in pending if may_recur(pod)))
        return {
            rule.name: slack_input_of(
                self._snapshot, rule, rows=rows, slack_nodes=slack_nodes, running_pods=running_pods, waiting=waiting
            )
            for rule in policy.rules
            if rule.asks
        }

    def alone(self, found: SlackFound, running_pods: PodsByRow) -> dict[GroupName, int]:
        """The number of nodes kept for slack alone, by group: those that have placeholders and no pods except DaemonSet pods.
        Nodes within a group's minimum do not count."""
        counts: dict[GroupName, int] = {}
        for row in self._rows_alone(found, running_pods):
            name = self._upcoming.get(row) or self._membership.group_of(self._snapshot.facts.nodes[row])
            if name is not None:
                counts[name] = counts.get(name, 0) + 1
        most = {name: max(self._wholes[name].target - self._wholes[name].min_size, 0) for name in counts}
        return {name: least for name, count in counts.items() if (least := min(count, most[name]))}

    def _rows_alone(self, found: SlackFound, running_pods: PodsByRow) -> list[int]:
        rows = np.unique(found.rows[found.rows != NOWHERE]).tolist()
        return [
            row
            for row in rows
            if row not in self._real and row not in self.new and all(is_daemon(pod) for pod, _ in running_pods.on(Row(row)))
        ]

    def within(self, node_limits: HeadroomBudget, more: ScaleUpPlan, found: SlackFound, running_pods: PodsByRow) -> ScaleUpPlan:
        """The scale-up for placeholders (`more`) without the nodes by which annotations would exceed their limits, beside the
        nodes that are kept for annotations alone."""
        sources_on: dict[int, set[str]] = {row: set() for row in self._rows_alone(found, running_pods)}
        for each, row in zip(found.placeholders, found.rows.tolist(), strict=True):
            if row in sources_on:
                sources_on[row].add(each.source)
        for of_row in sources_on.values():
            node_limits.hold(of_row)
        sources = {each.pod.uid: each.source for each in found.homeless}
        kept = [
            ScaleUp(
                group=up.group,
                nodes=tuple(pods for pods in up.nodes if node_limits.take([sources[pod.uid] for pod in pods])),
            )
            for up in more.scale_ups
        ]
        return replace(more, scale_ups=tuple(scale_up for scale_up in kept if scale_up.count))

    def together(
        self, found: SlackFound, more: ScaleUpPlan
    ) -> tuple[tuple[ScaleUp, ...], tuple[Placeholder, ...], dict[int, GroupName]]:
        """Joins the scale-ups for real pods and for placeholders (`more`), in this order. Returns them, the placeholders, and
        the group of each placeholder on a new node by its number; such a placeholder has no place yet."""
        nodes = {scale_up.group: [list(pods) for pods in scale_up.nodes] for scale_up in self._plan.scale_ups}
        coming: dict[int, GroupName] = {}
        kept: list[Placeholder] = []
        for placeholder, row in zip(found.placeholders, found.rows.tolist(), strict=True):
            if row in self.new:
                group, number = self.new[row]
                nodes[group][number].append(placeholder.pod)
                coming[placeholder.number] = self._owners[group]
                kept.append(replace(placeholder, place=None))
            else:
                kept.append(placeholder)
        numbers = {each.pod.uid: each.number for each in found.homeless}
        for scale_up in more.scale_ups:
            nodes.setdefault(scale_up.group, []).extend(list(pods) for pods in scale_up.nodes)
            coming.update({numbers[pod.uid]: self._owners[scale_up.group] for pod in scale_up.pods})
        scale_ups = tuple(ScaleUp(group=name, nodes=tuple(map(tuple, of_group))) for name, of_group in nodes.items())
        return scale_ups, tuple(kept), coming

    def in_need(self, homeless: Sequence[Placeholder]) -> list[Placeholder]:
        """The placeholders without a place that need a node wherever a scheduler puts the pods for which nodes are to come.

        This plan packs these pods, and a scheduler may spread them. So a placeholder waits for them if the room left on the
        nodes to come, in sum over those that are large enough for it, suffices for it and for those that wait already.
        """
        facts, coming = self._snapshot.facts, np.array([*self._upcoming, *self.new], np.intp)
        if self._real.isdisjoint(coming.tolist()):
            return list(homeless)
        has = facts.allocatable[[CPU, MEMORY]][:, coming]
        free = has - self._snapshot.used_by_others()[[CPU, MEMORY]][:, coming]
        room: dict[Kind, Int64] = {}
        found: list[Placeholder] = []
        waiting = np.zeros(2, np.int64)
        for each in homeless:
            kind = each.pod.kind
            asks = np.array(kind.requests, np.int64)
            if kind not in room:
                room[kind] = free[:, admitting(kind, facts)[coming] & (asks[:, None] <= has).all(axis=0)].sum(axis=1)
            if (waiting + asks <= room[kind]).all():
                waiting += asks
            else:
                found.append(each)
        return found

    def grow(
        self, homeless: Sequence[Placeholder], *, policy: ScaleUpPolicy, clock: Callable[[], float], most: int | None
    ) -> ScaleUpPlan:
        """The scale-up for placeholders without a place. `most`: the most nodes to add for slack; None: only the limits of
        scale-up hold."""
        if not homeless:
            return ScaleUpPlan()
        limits = [] if most is None else [most]
        if policy.max_nodes_per_scale_up:
            limits.append(max(policy.max_nodes_per_scale_up - self._plan.n_nodes, 0))
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
        own = replace(policy, expanders=tuple(dict.fromkeys(chain)), max_nodes_per_scale_up=min(limits, default=0))
        asked = Demand(counted=tuple(each.pod for each in homeless))
        return plan_scale_up(self._snapshot, asked, groups, policy=own, clock=clock)
