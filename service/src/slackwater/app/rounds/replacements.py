"""Consolidation in the rounds: the service's own loop and plan, with its moves' machines ordered on virtual time.

The rules of `controllers.consolidation` decide when a plan is made, which of its moves begin, and what scale-down has to know.
Here is only what they ask of others: the state of the groups, and the pods that moved a short while ago.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from slackwater.app.offline.cluster import Cluster
from slackwater.app.offline.consolidation import planned_consolidation
from slackwater.app.offline.growth import Grown
from slackwater.app.policies import consolidation_rules_of, scale_up_policy_of
from slackwater.app.prices import every_price
from slackwater.app.rounds.left_moves import left_moves
from slackwater.app.rounds.timeline import Timeline
from slackwater.app.rounds.virtual_cluster import VirtualCluster
from slackwater.app.settings import Settings
from slackwater.cluster.nodegroups.status import Grow, NodeGroupStatus
from slackwater.controllers.consolidation.candidates import NodeFacts
from slackwater.controllers.consolidation.loop import ConsolidationLoop
from slackwater.controllers.consolidation.outcome import ConsolidationPlan
from slackwater.controllers.scaledown.disruption_budgets import GroupDisruptions
from slackwater.controllers.scaledown.state import Replacing, ScaleDownState
from slackwater.fit.steps import MOST_STEPS
from slackwater.model.ids import Instant, NodeName, PodUid, UnixTime
from slackwater.model.nodegroups import GroupName, NodeGroup
from slackwater_protocol.durations import seconds


class Replacements:
    """Consolidation of one cluster. `plan`: the last one; None before the first, and if consolidation is off. `quota`: for so
    many nodes that begin to go a plan is used."""

    def __init__(self, cluster: VirtualCluster, read: Cluster, settings: Settings, timeline: Timeline, *, quota: int) -> None:
        self._cluster, self._timeline, self._quota = cluster, timeline, quota
        self._prices = every_price(settings, overlays=read.price_overlays, table=read.price_table)
        self._rules = consolidation_rules_of(settings, scale_up_policy_of(settings, prices=self._prices, plan_steps=0))
        policy = self._rules.policy
        self.plan: ConsolidationPlan | None = None
        self.enabled = policy.enabled
        #: May the last plan be used again?
        self._usable = False
        #: Is another plan due, as `go_on` found?
        self._is_due = False
        #: The nodes whose replacement it began.
        self._begun = set[NodeName]()
        #: When another plan may begin moves that the last one could not, if nothing else changes; None if none would.
        self.next_at: UnixTime | None = None
        #: For how long a moved pod rests: it matters to consolidation alone.
        self.rest_seconds = policy.pod_rest if policy.enabled else 0.0
        self._loop = ConsolidationLoop(
            policy=lambda: policy,
            nodes=cluster.replica.nodes.keys,
            busy=frozenset,
            clock=lambda: Instant(timeline.passed),
            steady=lambda: timeline.now,
            longest_growth=policy.overlap_seconds,
            longest_removal=seconds(settings.autoscaler.scale_down.drain.deadline),
            most_leaving=self._rules.scale_down.max_scale_down_parallelism,
        )

    def sense(self, status: Mapping[GroupName, NodeGroupStatus], state: ScaleDownState) -> Replacing:
        """What scale-down has to know of the moves that run."""
        return self._loop.sense(status, state)

    def go_on(
        self,
        status: Mapping[GroupName, NodeGroupStatus],
        state: ScaleDownState,
        disruptions: Mapping[GroupName, GroupDisruptions],
        moved: Mapping[PodUid, UnixTime],
    ) -> Counter[GroupName] | None:
        """Begins more moves of the last plan, if a plan is due. Returns the machines to order for them, by growable group; None
        if no move began. `moved`: when each pod was made for an evicted one."""
        self._is_due = False
        if self._loop.inquiry(state) is None:
            self.next_at = self._unix(self._loop.next_plan_at())
            return None
        left = self._left(self._resting(moved))
        wanted = None if left is None else self._act(left, status, disruptions)
        self._is_due = left is None or (wanted is None and self.next_at is None)
        return wanted

    def begin(
        self,
        grown: Grown,
        status: Mapping[GroupName, NodeGroupStatus],
        state: ScaleDownState,
        disruptions: Mapping[GroupName, GroupDisruptions],
        moved: Mapping[PodUid, UnixTime],
    ) -> Counter[GroupName] | None:
        """Begins moves of a new plan, if `go_on` found that one is due. As `go_on`."""
        if not self._is_due:
            return None
        self._is_due = False
        self.plan, self._begun = self._planned(grown, state, self._resting(moved)), set()
        return self._act(self.plan, status, disruptions)

    def _resting(self, moved: Mapping[PodUid, UnixTime]) -> frozenset[PodUid]:
        now = self._timeline.now
        return frozenset(uid for uid, at in moved.items() if now - at < self.rest_seconds)

    def forget(self) -> None:
        """The next plan is a new one: something changed that no plan of these rounds did."""
        self._usable = False

    def _planned(self, grown: Grown, state: ScaleDownState, resting: frozenset[PodUid]) -> ConsolidationPlan:
        cluster, self._usable = self._cluster.for_plans(), True
        with self._cluster.replica.snapshot.fork():
            return planned_consolidation(
                cluster,
                grown,
                state,
                self._rules,
                self._prices,
                budgets=cluster.budgets,
                now=self._timeline.now,
                known=NodeFacts(resting=resting),
                most_steps=MOST_STEPS,
            )

    def _left(self, resting: frozenset[PodUid]) -> ConsolidationPlan | None:
        """What the last plan still has to do, without moves of nodes that got moved pods; None if another plan is to be made.
        The service plans again, mostly the same."""
        if self.plan is None or not self._usable or len(self._begun) >= self._quota:
            return None
        if not self._begun:
            return self.plan
        replica = self._cluster.replica
        got = {pod.node for uid in resting if (pod := replica.find(uid)) is not None}
        left = left_moves(
            self.plan.moves,
            self._rules.policy,
            begun=self._begun,
            there=replica.nodes.keys() - got,
            most=self._rules.scale_down.max_scale_down_parallelism,
        )
        return replace(self.plan, moves=left) if left else None

    def _act(
        self,
        plan: ConsolidationPlan,
        status: Mapping[GroupName, NodeGroupStatus],
        disruptions: Mapping[GroupName, GroupDisruptions],
    ) -> Counter[GroupName] | None:
        record = self._loop.act(plan, status, healthy=True, disruptions=disruptions)
        self.next_at = None if (ripe := self._loop.ripe_at()) is None else self._unix(ripe)
        if not record.began:
            return None
        self._begun |= {each.name for running in record.running for each in running.move.leaving}
        coming = [each for running in record.running for each in running.move.coming]
        wanted = Counter(each.owner for each in coming)
        self._loop.requested(
            Grow(group=owner, provider="", seen=status[owner].group.target, to=status[owner].group.target + count)
            for owner, count in wanted.items()
        )
        return Counter(each.group for each in coming)

    def _unix(self, instant: Instant) -> UnixTime:
        return UnixTime(self._timeline.now + instant - self._timeline.passed)


def status_of(
    groups: Mapping[GroupName, NodeGroup], members: Mapping[NodeName, GroupName], cluster: VirtualCluster
) -> dict[GroupName, NodeGroupStatus]:
    """The status of each group: its nodes have all started. `members`: the group of each node."""
    ready: dict[tuple[GroupName, bool], list[NodeName]] = {}
    for name, node in cluster.replica.nodes.items():
        if (group := members.get(name)) is not None:
            ready.setdefault((group, node.ready), []).append(name)
    return {
        name: NodeGroupStatus(
            group=group,
            known=True,
            ready=tuple(ready.get((name, True), ())),
            unready=tuple(ready.get((name, False), ())),
            starting=(),
            coming=0,
            missing=0,
            lost=(),
            leaving=0,
        )
        for name, group in groups.items()
    }
