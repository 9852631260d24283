"""Answers `slackwater simulate scale-down`: which nodes could be removed together now, and where their pods would move.

In: a `Cluster` and settings. Out: the plan of `controllers.scaledown`. The plan has no history, so timers,
cool-downs and limits on parallel removals do not apply. Pending pods that fit take room where `simulate scale-up` places them.
"""

import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np

from slackwater.app.offline.cluster import Cluster
from slackwater.app.offline.growth import Grown, planned_growth, removal_groups
from slackwater.app.offline.scaleup import planning_answer
from slackwater.app.policies import scale_down_policy_of
from slackwater.app.settings import Settings
from slackwater.controllers.scaledown.plan import plan_scale_down
from slackwater.controllers.scaledown.planning_input import PlanningInput
from slackwater.controllers.scaledown.policy import ScaleDownPolicy
from slackwater.controllers.scaledown.replica_plan import running_there, settled
from slackwater.controllers.scaledown.row_movers import RowMovers
from slackwater.controllers.scaledown.state import KeptNode, Removable, ScaleDownPlan, ScaleDownState
from slackwater.controllers.scaleup.outcome import ScaleUpPlan
from slackwater.fit.drainability import DrainabilityOutcome, DrainPolicy, RuleFacts, judge
from slackwater.fit.remaining_pdb_tracker import CountedBudgets
from slackwater.fit.steps import PlanSteps
from slackwater.model.ids import NodeName, Row, UnixTime
from slackwater.model.objects import DisruptionBudget, Pod
from slackwater.model.reasons import UnremovableReason
from slackwater.ports.whatif_answers import Kept, PlanningAnswer, RemovableNode, ScaleDownAnswer
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.equivalence_groups import KindId


def scale_down_answer(
    cluster: Cluster, settings: Settings, *, accounting: bool = False, plan_steps: int = 0
) -> ScaleDownAnswer:
    """Plans a scale-down and returns the answer; docs/simulate.md describes its shape.

    `seconds` is the time from the decoded objects to the plan. Each removable node has a `removal_score`. `skipped` lists rules
    that could not be judged. `plan_steps`: the most steps of the plan (`fit.steps`); 0: no limit.
    """
    policy, now = scale_down_policy_of(settings), UnixTime(datetime.now(UTC).timestamp())
    began = time.perf_counter()
    grown = planned_growth(cluster, settings, accounting=accounting, plan_steps=plan_steps)
    budgets = cluster.counted_budgets()

    # CPU time: the answer must not depend on what else the machine does.
    spent, snapshot = time.process_time(), grown.snapshot

    def is_late() -> bool:
        return 0 < policy.simulation_timeout < time.process_time() - spent

    steps = PlanSteps(snapshot, most=plan_steps, is_late=is_late)
    plan = planned_removals(
        cluster,
        grown,
        ScaleDownState(),
        policy,
        budgets=None if budgets is None else budgets.budgets,
        now=now,
        stop=steps.over,
    )
    took = time.perf_counter() - began
    return ScaleDownAnswer(
        removable=[_removable(found) for found in plan.removable],
        kept=[kept_answer(one) for one in plan.kept],
        skipped=notes_of(snapshot, cluster, budgets),
        remarks=(*cluster.remarks, *grown.unmet),
        planning=_planning(steps, grown.found.plan, cut=plan.cut),
        seconds=round(took, 6),
    )


def planned_removals(
    cluster: Cluster,
    grown: Grown,
    state: ScaleDownState,
    policy: ScaleDownPolicy,
    *,
    budgets: tuple[DisruptionBudget, ...] | None,
    now: UnixTime,
    stop: Callable[[], bool],
) -> ScaleDownPlan:
    """Plans a scale-down beside the scale-up that was planned for the cluster. `budgets`: with what they allow now; None if
    none are known. A node whose pods have to complete first is kept, since it is not known when they do."""
    awaited = _awaited(grown, policy.blocked_by, now)
    with removal_input(cluster, grown, budgets, but=awaited) as planning_input:
        plan = plan_scale_down(state, planning_input, policy, now=now, stop=stop)
    waiting = [_waits(name, pod) for name, pod in awaited.items() if name in (planning_input.members or ())]
    place = {node.name: at for at, node in enumerate(cluster.nodes)}
    kept = {**{one.node: one for one in plan.kept}, **{one.node: one for one in waiting}}
    return replace(plan, kept=tuple(sorted(kept.values(), key=lambda one: place[one.node])))


@contextmanager
def removal_input(
    cluster: Cluster,
    grown: Grown,
    budgets: tuple[DisruptionBudget, ...] | None,
    *,
    but: Collection[NodeName] = frozenset(),
) -> Iterator[PlanningInput]:
    """What a plan of removals reads, beside the scale-up that was planned for the cluster, while the context lasts. `budgets`:
    with what they allow now; None if none are known. The nodes of `but` are not removed."""
    groups, members = removal_groups(grown.groups, grown.group_of, cluster)
    with settled(grown.snapshot, grown.found.plan) as arriving:
        yield PlanningInput(
            snapshot=grown.snapshot,
            running_pods=grown.running_pods,
            groups=groups,
            group_of={name: group for name, group in members.items() if name not in but},
            members=members,
            budgets=budgets,
            arriving=arriving,
            placeholders=running_there(grown.snapshot, grown.found.slack),
        )


def _planning(steps: PlanSteps, scale_up: ScaleUpPlan, *, cut: bool) -> PlanningAnswer:
    by, used = planning_answer(scale_up).cut_by, scale_up.steps + steps.used
    if cut:
        by = "simulationTimeout" if steps.cut == "time" else steps.cut
    return PlanningAnswer(steps=used, cut_by=by)


def _awaited(grown: Grown, rules: DrainPolicy, now: UnixTime) -> dict[NodeName, Pod]:
    """The pods that have to complete before their nodes can go (`safe-to-evict: on-completion`), by node."""
    facts, nodes, found = RuleFacts(now=now, policy=rules), grown.snapshot.facts, dict[NodeName, Pod]()
    movers = RowMovers(grown.running_pods, nodes.nodes, facts)
    for row in map(Row, np.flatnonzero(nodes.live[: nodes.n_rows]).tolist()):
        for pod, _ in grown.running_pods.on(row) if movers.lasting(row) is None else ():
            if pod.eviction_facts.safe_to_evict == "on-completion" and judge(pod, facts).outcome is DrainabilityOutcome.WAIT:
                found.setdefault(nodes.nodes[row].name, pod)
    return found


def _waits(node: NodeName, pod: Pod) -> KeptNode:
    return KeptNode(node=node, unremovable_reason=UnremovableReason.AWAITS_COMPLETION, blocked_by=pod.key)


def _removable(found: Removable) -> RemovableNode:
    return RemovableNode(
        node=found.node,
        empty=found.empty,
        destinations={str(pod.key): to for pod, to in found.moves},
        removal_score=found.removal_score.words(),
    )


def kept_answer(kept: KeptNode) -> Kept:
    """The answer about a node that stays."""
    return Kept(
        node=kept.node,
        reason=str(kept.unremovable_reason),
        detail=kept.detail or kept.unremovable_reason.text,
        blocked_by=None if kept.blocked_by is None else str(kept.blocked_by),
    )


def notes_of(snapshot: ClusterSnapshot, cluster: Cluster, budgets: CountedBudgets | None) -> tuple[str, ...]:
    """What could not be judged."""
    kinds = (snapshot.of(KindId(kind)) for kind in range(len(snapshot.kinds)))
    notes = [note for kind in kinds for note in cluster.skipped(kind)]
    notes += [
        f"how many pods controllers want, for budgets without a status: {cluster.lack(kind)}, so as many as each has"
        for kind in (budgets.assumed if budgets is not None else ())
    ]
    notes += cluster.without_pods("every node counts as empty")
    if cluster.budgets is None and cluster.pods:
        notes.append(f"disruption budgets, and pods of kube-system without one: {cluster.lack('PodDisruptionBudget')}")
    return *dict.fromkeys(notes), *cluster.unread
