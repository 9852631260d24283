"""The question that `/explain/...` sends to the planning process, which answers it on the replica.

In: the values that only the state machine and the autoscaler know. Out: the explanation as JSON. All changes of the replica
that the search for an answer makes are undone.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Final

import msgspec
import numpy as np
from msgspec import structs

from slackwater.app.offline.cluster import skipped_rules
from slackwater.app.policies import own_score_of, scale_down_policy_of, scale_up_policy_of, strict_for_of
from slackwater.app.scheduler_config.filters_and_scores import known_schedulers, scores_of_pod
from slackwater.app.settings import Settings
from slackwater.app.whatif.question import GroupRegistryView, unknown
from slackwater.cluster.nodegroups.status import NodeGroupStatus
from slackwater.controllers.disagreement.state import Disagreement
from slackwater.controllers.placement.filter_facts import FilterFacts
from slackwater.controllers.scaleup.expanders import NO_PRIORITIES
from slackwater.controllers.scaleup.growable_groups import growable_groups, leave_out
from slackwater.controllers.slack.report import slack_in_group
from slackwater.controllers.slack.scale_up import SlackPlan
from slackwater.explain.explain_input import ExplainInput
from slackwater.explain.findings import Explanation
from slackwater.explain.node_groups import explain_group
from slackwater.explain.nodes import NodeContext, explain_node
from slackwater.explain.pods import disputed, explain_pod, partly_judged
from slackwater.explain.workloads import (
    GatedPreemptor,
    GrowingPod,
    MigratingPod,
    explain_gate,
    explain_migration,
    explain_permit,
)
from slackwater.model.columns import SCHEMA, NodeColumns
from slackwater.model.history import HistoryLine
from slackwater.model.ids import Instant, NodeName, Row, UnixTime
from slackwater.model.nodegroups import AS_TEMPLATE, GroupName, Membership
from slackwater.model.objects import Pod
from slackwater.model.pauses import Pause, pause_text
from slackwater.model.scheduler_profile import with_default_spread
from slackwater.snapshot.snapshot_replica import SnapshotReplica

_NOWHERE: Final = Row(-1)


def _not_watched(kind: str) -> str:
    return f"no {kind} is watched"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodFacts:
    """A pod with its node and amounts as the reservations count them, and the state machine's findings on it. `disagreement`:
    with kube-scheduler, about where the pod fits; None if there is none."""

    pod: Pod
    word: FilterFacts
    disagreement: Disagreement | None = None


#: What was read from the state machine about the object; for a node group, only its name.
Read = PodFacts | NodeContext | GrowingPod | MigratingPod | GatedPreemptor | GroupName


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainQuestion:
    """Asks why an object (a pod, node, node group, permit, migration or gate) is in its present state. It contains what the
    answer needs and the replica lacks.

    `columns`: our accounting of all nodes. `row_of`: the row of each node in `columns`. `group_registry` is None if no
    autoscaler runs; with it, the replica has the auxiliary objects too (namespaces, storage, devices, pods' controllers). Its
    `slack` is set only if the question is about a node group. `slack_cuts`: what is not kept of the room that a pod's
    annotation asks for, or of all that is asked for if the question is about a group, as of the autoscaler's last loop.
    """

    read: Read
    name: str
    columns: NodeColumns
    row_of: Mapping[NodeName, Row]
    group_registry: GroupRegistryView | None
    slack_cuts: tuple[str, ...] = ()
    settings: Settings
    pauses: tuple[Pause, ...]
    now: Instant
    unix_now: UnixTime
    history: tuple[HistoryLine, ...] = ()

    @property
    def _group_status(self) -> Mapping[GroupName, NodeGroupStatus]:
        return {} if self.group_registry is None else self.group_registry.group_status

    def answer(self, replica: SnapshotReplica) -> bytes:
        """Returns the explanation as JSON."""
        if not isinstance(self.read, PodFacts):
            return self._answer(replica)
        # The replica's own pods have the default constraints of their profiles already.
        pod = with_default_spread(self.read.pod, replica.profiles, replica.spread_sources)
        return replace(self, read=replace(self.read, pod=pod))._answer(replica)

    def _answer(self, replica: SnapshotReplica) -> bytes:
        explain_input = self._input(replica)  # may rebuild the snapshot
        explain_input.snapshot.judge_by(ledger_for(replica, self.columns, self.row_of))
        explain_input.snapshot.strict_for = strict_for_of(self.settings)
        try:
            # A node's pods do not go where nothing new is placed; a pod's explanation names such nodes with their reason.
            with nullcontext() if isinstance(self.read, NodeContext) else self._as_planned(replica, explain_input):
                explanation = self._explained(replica, explain_input)
        finally:
            explain_input.snapshot.judge_by(None)
        remarks = tuple(filter(None, (pause_text(self.pauses), *self.slack_cuts)))
        return msgspec.json.encode(msgspec.structs.replace(explanation, remarks=remarks, history=self.history))

    def _input(self, replica: SnapshotReplica) -> ExplainInput:
        priorities = NO_PRIORITIES if self.group_registry is None else self.group_registry.priorities or NO_PRIORITIES
        prices = None if self.group_registry is None else self.group_registry.prices
        scale_up = scale_up_policy_of(self.settings, priorities=priorities, prices=prices, after_scheduler=False)
        # A node is removed from its group, not from a variant.
        statuses = list(self._group_status.values())
        if isinstance(self.read, NodeContext):
            statuses = [replace(each, group=replace(each.group, choice=AS_TEMPLATE)) for each in statuses]
        groups = {
            group.name: group
            for each in statuses
            for group in growable_groups(replica, each, each.closed(self.now), daemons=replica.daemons, policy=scale_up)
        }
        pods = [self.read.pod] if isinstance(self.read, PodFacts) else []
        running_pods = [pod for group in groups.values() if group.template is not None for pod in group.template.running_pods]
        replica.learn([*running_pods, *pods])
        membership = Membership(each.group for each in self._group_status.values())
        node = replica.nodes.get(NodeName(self.name))
        # A group's nodes are counted.
        members = replica.nodes.values() if isinstance(self.read, str) else () if node is None else (node,)
        return ExplainInput(
            snapshot=replica.snapshot,
            running_pods=replica,
            pending=replica.pending,
            budgets=replica.budgets,
            replicas=replica.replicas if self.group_registry is not None else None,
            groups=groups,
            group_of={each.name: found for each in members if (found := membership.group_of(each)) is not None},
            scale_up=scale_up,
            scale_down=scale_down_policy_of(self.settings),
            profile=scores_of_pod(self.settings, pods[0].kind.scheduler_name if pods else "")[0],
            own_score=own_score_of(self.settings),
            schedulers=known_schedulers(self.settings, replica.profiles, _placed(replica)) if pods else None,
            now=self.unix_now,
        )

    def _explained(self, replica: SnapshotReplica, explain_input: ExplainInput) -> Explanation:
        match self.read:
            case PodFacts(pod=pod, word=word, disagreement=disagreement):
                kind = explain_input.snapshot.of(explain_input.kind_of(pod))
                notes = skipped_rules(kind, unknown(watched=self.group_registry is not None), _not_watched)
                return partly_judged(disputed(explain_pod(explain_input, pod, word), disagreement), notes)
            case NodeContext() as node_word:
                # Expendable pods do not keep a node from being removed.
                with replica.yielding_below(explain_input.scale_down.blocked_by.expendable_pods_priority_cutoff) as counted:
                    return explain_node(replace(explain_input, running_pods=counted), NodeName(self.name), node_word)
            case GrowingPod() as grower:
                return explain_permit(explain_input, grower)
            case MigratingPod() as moving:
                return explain_migration(explain_input, moving)
            case GatedPreemptor() as gated:
                return explain_gate(gated)
            case name:
                assert self.group_registry is not None  # it names the groups that can be asked about
                figures = _figures(self._group_status[GroupName(name)], self.group_registry.slack)
                return explain_group(explain_input, GroupName(name), figures)

    @contextmanager
    def _as_planned(self, replica: SnapshotReplica, explain_input: ExplainInput) -> Iterator[None]:
        """The replica as scale-up plans see it, in a trial that ends with the context: expendable pods yield their room, unless
        the question is about an expendable pod, and nodes that have not started count as upcoming."""
        cutoff = explain_input.scale_up.pending.expendable_pods_priority_cutoff
        pod = self.read.pod if isinstance(self.read, PodFacts) else None
        yielding = nullcontext() if pod is not None and pod.priority < cutoff else replica.yielding_below(cutoff)
        with _as_seen(replica), yielding:
            for name, status in self._group_status.items():
                of_group = [group for group in explain_input.groups.values() if group.owner == name]
                leave_out(replica, status, of_group, self.unix_now)
            yield


def _placed(replica: SnapshotReplica) -> Iterator[Pod]:
    return (running_pod.pod for running_pod in replica.bound_pods())


@contextmanager
def _as_seen(replica: SnapshotReplica) -> Iterator[None]:
    """Uncordons the nodes that only our quarantine cordons, in a trial that ends with the context. The state machine's findings
    name these nodes with the reason."""
    with replica.snapshot.fork():
        for name, seen in replica.seen_nodes.items():
            node = replica.nodes[name]
            if node.unschedulable and not seen.unschedulable:
                replica.snapshot.put_node(replica.row_of(name), structs.replace(node, unschedulable=False))
        yield


def ledger_for(replica: SnapshotReplica, columns: NodeColumns, row_of: Mapping[NodeName, Row]) -> NodeColumns:
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
