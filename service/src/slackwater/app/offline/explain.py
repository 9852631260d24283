"""Explains a pod, a node or a group of a decoded cluster, without a running service.

In: a `Cluster` and settings. Out: the same answer as `/explain/...` of the service, as far as the objects of the API tell: what
a running service remembers, such as its reservations, timers and back-offs, is not in it.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final, Literal

from msgspec import structs

from slackwater.app.explain.absent import Absent, known_text
from slackwater.app.offline.cluster import Cluster
from slackwater.app.offline.consolidation import consolidation_words
from slackwater.app.offline.growth import growable_groups, let_expendable_yield, planned_growth, removal_groups
from slackwater.app.offline.objects import ClusterError
from slackwater.app.offline.placement import pending_pods, snapshot_of
from slackwater.app.offline.scaledown import scale_down_answer
from slackwater.app.offline.scaleup import growth_notes
from slackwater.app.policies import own_score_of, scale_down_policy_of, scale_up_policy_of
from slackwater.app.prices import price_book_of
from slackwater.app.scheduler_config.filters_and_scores import known_schedulers, scores_of_pod
from slackwater.app.settings import Settings
from slackwater.controllers.scaleup.expanders import NO_PRIORITIES
from slackwater.controllers.scaleup.groups import GrowableGroup
from slackwater.controllers.slack.report import slack_in_group
from slackwater.explain.explain_input import ExplainInput
from slackwater.explain.findings import Explanation, remedy
from slackwater.explain.node_groups import explain_group
from slackwater.explain.nodes import NodeContext, explain_node, what_helps
from slackwater.explain.pods import explain_pod, explain_without_nodes, partly_judged
from slackwater.fit.remaining_pdb_tracker import counted
from slackwater.model.ids import NodeName, PodKey, UnixTime
from slackwater.model.nodegroups import GroupName
from slackwater.model.reasons import UnremovableReason
from slackwater.snapshot.running_pods import RunningPods

#: What can be explained from the objects of the API alone.
Explainable = Literal["pod", "node", "group"]
_SLACK: Final = UnremovableReason.SLACK_NEEDED
_REMARK: Final = "judged without a running service, from the objects of the API alone"


def explain_offline(cluster: Cluster, settings: Settings, what: Explainable, namespace: str, name: str) -> Explanation:
    """The explanation. Raises `ClusterError` if there is no such object."""
    key = PodKey(namespace, name)
    asked = next((pod.kind.scheduler_name for pod in cluster.pods if what == "pod" and pod.key == key), settings.scheduler_name)
    scores, unfollowed = scores_of_pod(settings, asked)
    explain_input = replace(_explain_input(cluster, settings, what, key), profile=scores)
    explanation, notes = _explained(cluster, explain_input, settings, what=what, namespace=namespace, name=name)
    remarks = explanation.remarks
    if explanation.instead is not None:
        remarks += unfollowed
    return structs.replace(partly_judged(explanation, (*explanation.notes, *notes)), remarks=(_REMARK, *remarks))


def _explain_input(
    cluster: Cluster, settings: Settings, what: Explainable, key: PodKey, now: UnixTime | None = None
) -> ExplainInput:
    """The input, on the snapshot on which scale-up is planned: nodes that have not started count as upcoming, unless the
    question is about a node; expendable pods yield their room, unless it is about one of them. `now`: None: the clock's."""
    prices = price_book_of(settings, overlays=cluster.price_overlays)
    groups, group_of, starting = growable_groups(cluster, settings, prices=prices, variants=what != "node")
    snapshot = snapshot_of(cluster)
    running_pods, cutoff = RunningPods(snapshot, cluster.pods), settings.autoscaler.scale_up.expendable_pods_priority_cutoff
    if not any(what == "pod" and pod.key == key and pod.priority < cutoff for pod in cluster.pods):
        let_expendable_yield(snapshot, running_pods, cutoff)
    for node in starting if what != "node" else ():
        snapshot.close(snapshot.facts.row_of[node])
    budgets = None if cluster.budgets is None else counted(cluster.budgets, cluster.pods, cluster.scales).budgets
    return ExplainInput(
        snapshot=snapshot,
        running_pods=running_pods,
        pending={pod.uid: pod for pod in pending_pods(cluster)},
        budgets=budgets,
        replicas=cluster.scales.replicas,
        groups={group.name: group for group in groups},
        group_of=group_of,
        scale_up=scale_up_policy_of(
            settings, priorities=cluster.priorities or NO_PRIORITIES, prices=prices, after_scheduler=False
        ),
        scale_down=scale_down_policy_of(settings),
        own_score=own_score_of(settings),
        schedulers=known_schedulers(settings, cluster.profiles, (pod for pod in cluster.pods if pod.node is not None)),
        now=UnixTime(datetime.now(UTC).timestamp()) if now is None else now,
    )


def _explained(
    cluster: Cluster, explain_input: ExplainInput, settings: Settings, *, what: Explainable, namespace: str, name: str
) -> tuple[Explanation, Sequence[str]]:
    match what:
        case "pod":
            key = PodKey(namespace, name)
            pod = next((pod for pod in cluster.pods if pod.key == key), None)
            if pod is None:
                why = f"{cluster.lack('Pod')}: pods are unknown" if "Pod" in cluster.unknown else f"is not {cluster.where}"
                sought = Absent(key)
                sought.look_at(other.key for other in cluster.pods)
                why += sought.hint
                why = "; ".join([why, *(each for each in cluster.refused if f" {namespace}/" in each.partition(": ")[0])])
                raise ClusterError(f"pod {namespace}/{name}", "", why)
            made = tuple(cluster.made[key] for key in (pod.key,) if key in cluster.made)
            explain = explain_without_nodes if pod.pending and "Node" in cluster.unknown and not cluster.nodes else explain_pod
            explanation = structs.replace(explain(explain_input, pod), remarks=made)
            kind = explain_input.snapshot.of(explain_input.kind_of(pod))
            return explanation, [*cluster.skipped(kind), *cluster.unread]
        case "node":
            if explain_input.row_of(NodeName(name)) is None:
                sought = Absent(PodKey("", name))
                sought.look_at(PodKey("", node.name) for node in cluster.nodes)
                why = cluster.lack("Node") if "Node" in cluster.forbidden else f"is not {cluster.where}{sought.hint}"
                raise ClusterError(f"node {name}", "", why)
            plan = scale_down_answer(cluster, settings)
            kept = [(_SLACK, each.detail) for each in plan.kept if (each.node, each.reason) == (name, _SLACK)]
            kept += consolidation_words(cluster, settings, NodeName(name))
            explanation = explain_node(_of_nodes(explain_input, cluster), NodeName(name), NodeContext(waits=kept))
            return structs.replace(explanation, remarks=plan.remarks), plan.skipped
        case "group":
            owners = {group.owner for group in explain_input.groups.values()}
            if name not in owners:
                raise ClusterError(f"group {name}", "", f"neither labels nor the configuration name it{known_text(owners)}")
            group, grown = GroupName(name), planned_growth(cluster, settings, accounting=False)
            nodes = [node for node, of in explain_input.group_of.items() if of == group]
            facts = {} if grown.found.slack is None else {"slack": slack_in_group(grown.found.slack, group, nodes)}
            explanation = structs.replace(explain_group(explain_input, group, facts), remarks=(*cluster.remarks, *grown.unmet))
            return explanation, growth_notes(grown, cluster, settings)


def _of_nodes(explain_input: ExplainInput, cluster: Cluster) -> ExplainInput:
    """The input with the groups by which `simulate scale-down` judges nodes."""
    known = explain_input.groups
    groups, group_of = removal_groups(tuple(known.values()), explain_input.group_of, cluster)
    added = {each: known.get(each) or GrowableGroup(group=group, template=None) for each, group in groups.items()}
    return replace(explain_input, groups=added, group_of=group_of)


def node_remedies(
    cluster: Cluster, settings: Settings, names: Sequence[NodeName], *, now: UnixTime
) -> dict[NodeName, tuple[str, ...]]:
    """Changes of which each would let the node go, by node; every one was tried. None for a node that nothing helps."""
    if not names:
        return {}
    explain_input = _of_nodes(_explain_input(cluster, settings, "node", PodKey("", ""), now), cluster)
    found = dict[NodeName, tuple[str, ...]]()
    for name in names:
        helping, _ = what_helps(explain_input, name, explain_input.snapshot.facts.row_of[name])
        found[name] = tuple(remedy(*changes).change for changes in helping)
    return found
