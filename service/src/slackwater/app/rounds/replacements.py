"""Consolidation in the rounds: the service's own loop and plan, with its moves' machines ordered on virtual time.

The rules of `controllers.consolidation` decide when a plan is made, which of its moves begin, and what scale-down has to know.
Here is only what they ask of others: the state of the groups, and the pods that moved a short while ago.
"""

from collections import Counter
from collections.abc import Mapping

from slackwater.app.offline.cluster import Cluster
from slackwater.app.offline.consolidation import planned_consolidation
from slackwater.app.offline.growth import Grown
from slackwater.app.policies import consolidation_rules_of, scale_up_policy_of
from slackwater.app.prices import every_price
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
    """Consolidation of one cluster. `plan`: the last one; None before the first, and if consolidation is off."""

    def __init__(self, cluster: VirtualCluster, read: Cluster, settings: Settings, timeline: Timeline) -> None:
        self._cluster, self._timeline = cluster, timeline
        self._prices = every_price(settings, overlays=read.price_overlays, table=read.price_table)
        self._rules = consolidation_rules_of(settings, scale_up_policy_of(settings, prices=self._prices, plan_steps=0))
        policy = self._rules.policy
        self.plan: ConsolidationPlan | None = None
        self.enabled = policy.enabled
        #: For how long a moved pod rests.
        self.rest_seconds = policy.pod_rest
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

    def begin(
        self,
        grown: Grown,
        status: Mapping[GroupName, NodeGroupStatus],
        state: ScaleDownState,
        disruptions: Mapping[GroupName, GroupDisruptions],
        moved: Mapping[PodUid, UnixTime],
    ) -> Counter[GroupName] | None:
        """Plans, if a plan is due, and begins moves. Returns the machines to order for them, by growable group; None if no move
        began. `moved`: when each pod was made for an evicted one."""
        if self._loop.inquiry(state) is None:
            return None
        cluster, now = self._cluster.cluster(), self._timeline.now
        resting = frozenset(uid for uid, at in moved.items() if now - at < self.rest_seconds)
        with self._cluster.replica.snapshot.fork():
            self.plan = planned_consolidation(
                cluster,
                grown,
                state,
                self._rules,
                self._prices,
                budgets=cluster.budgets,
                now=now,
                known=NodeFacts(resting=resting),
                most_steps=MOST_STEPS,
            )
        record = self._loop.act(self.plan, status, healthy=True, disruptions=disruptions)
        if not record.began:
            return None
        coming = [each for running in record.running for each in running.move.coming]
        wanted = Counter(each.owner for each in coming)
        self._loop.requested(
            Grow(group=owner, provider="", seen=status[owner].group.target, to=status[owner].group.target + count)
            for owner, count in wanted.items()
        )
        return Counter(each.group for each in coming)


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
