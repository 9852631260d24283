"""Finds obstacles to the removal of a node: rules about the node itself, and pods that must not be evicted.

- `obstacle`: the obstacle for a rule about the node, with changes that might remove it.
- `blocked`: the obstacles for pods that a rule or a disruption budget protects from eviction, with changes that might help.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, Final

from msgspec import structs

from slackwater.controllers.scaledown.eligibility import EligibilityInput, healthy_nodes
from slackwater.controllers.scaledown.policy import GroupPolicy, ScaleDownPolicy
from slackwater.explain.explain_input import (
    BudgetsEdit,
    Change,
    ExplainInput,
    GroupEdit,
    NodeEdit,
    PodEdit,
    PodLeaves,
    PolicyEdit,
)
from slackwater.explain.findings import MOST_OBJECTS, Obstacle, of_reason
from slackwater.explain.resource_findings import quantity
from slackwater.fit.drainability import RuleFacts, judge
from slackwater.model.ids import Row
from slackwater.model.nodegroups import GroupName
from slackwater.model.objects import DisruptionBudget, Pod
from slackwater.model.reasons import UnremovableReason
from slackwater.snapshot.node_facts import CPU, MEMORY
from slackwater_protocol.names import DO_NOT_DISRUPT, SAFE_TO_EVICT

#: Thresholds are raised to a multiple of 1/1000.
_FINE: Final = 1000


def obstacle(
    explain_input: ExplainInput,
    candidate: EligibilityInput,
    row: Row,
    unremovable_reason: UnremovableReason,
    detail: str,
) -> Obstacle:
    """The obstacle for a rule that forbids the removal, by its reason and detail; with the changes that might help."""
    objects = [f"node {candidate.node.name}"] + ([f"group {candidate.group}"] if candidate.group is not None else [])
    finding = of_reason(unremovable_reason, nodes=1, objects=tuple(objects), detail=detail)
    if candidate.group is None:
        return Obstacle(finding)
    return Obstacle(finding, tuple(_changes(explain_input, candidate, row, candidate.group, unremovable_reason)))


def _changes(
    explain_input: ExplainInput,
    candidate: EligibilityInput,
    row: Row,
    group: GroupName,
    unremovable_reason: UnremovableReason,
) -> Iterator[Change]:
    match unremovable_reason:
        case UnremovableReason.DISABLED_FOR_GROUP:
            words = f"let nodes of group {group} be removed (scaleDown.enabled)"
            yield PolicyEdit(words=words, scale_down=_of_group(group, enabled=True))
        case UnremovableReason.DISABLED_ANNOTATION:
            words = f"remove annotation {candidate.node.keep} from node {candidate.node.name}"
            yield NodeEdit(words=words, node=candidate.node.name, edit=lambda node: structs.replace(node, keep=""))
        case UnremovableReason.UNREADY_DISABLED:
            words = "let nodes that are not ready be removed (scaleDown.unreadyEnabled)"
            yield PolicyEdit(words=words, scale_down=lambda policy: replace(policy, unready_enabled=True))
        case UnremovableReason.NOT_UNDERUTILIZED:
            yield _threshold(candidate, group)
        case UnremovableReason.GROUP_MIN_SIZE:
            yield _smaller(explain_input, group)
        case UnremovableReason.CLUSTER_MINIMUM:
            yield _less(explain_input, row)
        case _:
            return


def _of_group(group: GroupName, **changes: Any) -> Callable[[ScaleDownPolicy], ScaleDownPolicy]:
    """An edit that changes fields of a group's own policy."""

    def edit(policy: ScaleDownPolicy) -> ScaleDownPolicy:
        own = replace(policy.groups.get(group, GroupPolicy()), **changes)
        return replace(policy, groups={**policy.groups, group: own})

    return edit


def _threshold(candidate: EligibilityInput, group: GroupName) -> Change:
    assert candidate.rules is not None
    share = math.ceil(candidate.utilization.share * _FINE) / _FINE
    if candidate.utilization.of_gpu:
        before = candidate.rules.gpu_utilization_threshold
        words = f"raise scaleDown.gpuUtilizationThreshold from {before:g} to {share:g}"
        return PolicyEdit(words=words, scale_down=lambda policy: replace(policy, gpu_utilization_threshold=share))
    words = f"raise the utilization threshold of group {group} from {candidate.rules.utilization_threshold:g} to {share:g}"
    return PolicyEdit(words=words, scale_down=_of_group(group, utilization_threshold=share))


def _smaller(explain_input: ExplainInput, group: GroupName) -> Change:
    known = explain_input.groups[group].group
    healthy = healthy_nodes(explain_input.snapshot.facts, explain_input.group_of)[group]
    size = max(min(known.target, healthy) - 1, 0)
    return GroupEdit(
        words=f"lower min of group {group} from {known.min_size} to {size}",
        group=group,
        edit=lambda each: replace(each, group=replace(each.group, min_size=size)),
    )


def _less(explain_input: ExplainInput, row: Row) -> Change:
    """The change that lowers the cluster's minima just enough for the removal of the node."""
    facts = explain_input.snapshot.facts
    live = facts.live[: facts.n_rows]
    stay = facts.allocatable[[CPU, MEMORY], : facts.n_rows][:, live].sum(axis=1) - facts.allocatable[[CPU, MEMORY], row]
    before = explain_input.scale_down.minimum
    nodes, cpu, memory = int(live.sum()) - 1, int(stay[CPU]), int(stay[MEMORY])
    after = replace(before, nodes=min(before.nodes, nodes), cpu=min(before.cpu, cpu), memory=min(before.memory, memory))
    changed = [
        f"{name} from {text(was)} to {text(now)}"
        for name, was, now, text in (
            ("nodes", before.nodes, after.nodes, str),
            ("cpu", before.cpu, after.cpu, lambda amount: quantity("cpu", amount)),
            ("memory", before.memory, after.memory, lambda amount: quantity("memory", amount)),
        )
        if was != now
    ]
    words = f"lower the cluster's minimum of {' and of '.join(changed)}"
    return PolicyEdit(words=words, scale_down=lambda policy: replace(policy, minimum=after))


def blocked(explain_input: ExplainInput, row: Row, facts: RuleFacts) -> list[Obstacle]:
    """What blocks a drain of the row's node: an obstacle for each pod that a rule of drainability protects, and one for each
    disruption budget that allows no eviction, which lists all pods on the node that it protects."""
    found: list[Obstacle] = []
    by_budget: dict[tuple[str, str], list[Pod]] = {}
    by_budgets: dict[tuple[tuple[str, str], ...], list[Pod]] = {}
    for running_pod in explain_input.running_pods.on(row):
        verdict = judge(running_pod.pod, facts)
        if verdict.unremovable_reason is UnremovableReason.NOT_ENOUGH_PDB and facts.disruptions is not None:
            for budget in facts.disruptions.against(running_pod.pod):
                by_budget.setdefault(budget, []).append(running_pod.pod)
        elif verdict.unremovable_reason is UnremovableReason.MULTIPLE_PDBS and facts.disruptions is not None:
            by_budgets.setdefault(facts.disruptions.of(running_pod.pod), []).append(running_pod.pod)
        elif verdict.unremovable_reason is not None:
            found.append(_of_pod(explain_input, running_pod.pod, row, verdict.unremovable_reason))
    found += [_of_budget(explain_input, key, pods) for key, pods in by_budget.items()]
    return [*found, *(_of_several(keys, pods) for keys, pods in by_budgets.items())]


def _of_several(keys: tuple[tuple[str, str], ...], pods: list[Pod]) -> Obstacle:
    """The obstacle for pods that several budgets select, because the eviction API refuses to evict such pods. Each change
    deletes all budgets but one."""
    names = [f"PodDisruptionBudget {namespace}/{name}" for namespace, name in keys]
    objects = (*names, *(f"pod {pod.key}" for pod in pods))
    finding = of_reason(UnremovableReason.MULTIPLE_PDBS, nodes=1, objects=objects[:MOST_OBJECTS], detail=", ".join(names))
    changes = []
    for kept in range(len(keys)):
        others = [at for at in range(len(keys)) if at != kept]
        words = f"delete {' and '.join(names[at] for at in others)}"
        gone = frozenset(keys[at] for at in others)
        changes.append(BudgetsEdit(words=words, edit=partial(_deleted, gone)))
    return Obstacle(finding, tuple(changes))


def _deleted(gone: frozenset[tuple[str, str]], budget: DisruptionBudget) -> DisruptionBudget | None:
    return None if (budget.namespace, budget.name) in gone else budget


def _of_pod(explain_input: ExplainInput, pod: Pod, row: Row, unremovable_reason: UnremovableReason) -> Obstacle:
    owner = pod.eviction_facts.owner
    objects = [f"pod {pod.key}"]
    if owner is not None:
        objects.append(f"{owner.kind} {pod.key.namespace}/{owner.name}")
    if unremovable_reason is UnremovableReason.LOCAL_STORAGE:
        objects += [f"volume {name}" for name in pod.eviction_facts.local_volumes]
    finding = of_reason(unremovable_reason, nodes=1, objects=tuple(objects[:MOST_OBJECTS]))
    return Obstacle(finding, tuple(_of_rule(explain_input, pod, row, unremovable_reason)))


def _of_rule(explain_input: ExplainInput, pod: Pod, row: Row, unremovable_reason: UnremovableReason) -> Iterator[Change]:
    if unremovable_reason is UnremovableReason.MACHINE_CANNOT_MIGRATE and pod.vertical is not None:
        words = f"let the virtual machine of pod {pod.key} migrate"
        yield PodEdit(words=words, pod=pod, row=row, edit=_migratable)
    if unremovable_reason is UnremovableReason.DO_NOT_DISRUPT:
        words = f"remove annotation {DO_NOT_DISRUPT} from pod {pod.key}"
        yield PodEdit(words=words, pod=pod, row=row, edit=_annotated(do_not_disrupt=0.0))
    words = f"annotate pod {pod.key} with {SAFE_TO_EVICT}: true"
    yield PodEdit(words=words, pod=pod, row=row, edit=_annotated(safe_to_evict="true"))
    name = explain_input.snapshot.facts.nodes[row].name
    yield PodLeaves(words=f"delete pod {pod.key} from node {name}", pod=pod, row=row)


def _annotated(**facts: Any) -> Callable[[Pod], Pod]:
    return lambda pod: structs.replace(pod, eviction_facts=replace(pod.eviction_facts, **facts))


def _migratable(pod: Pod) -> Pod:
    return pod if pod.vertical is None else structs.replace(pod, vertical=replace(pod.vertical, auto_migrate=True))


def _of_budget(explain_input: ExplainInput, key: tuple[str, str], pods: list[Pod]) -> Obstacle:
    namespace, name = key
    budget = next(each for each in explain_input.budgets or () if (each.namespace, each.name) == key)
    owners = dict.fromkeys(
        f"{p.eviction_facts.owner.kind} {namespace}/{p.eviction_facts.owner.name}"
        for p in pods
        if p.eviction_facts.owner is not None
    )
    objects = (f"PodDisruptionBudget {namespace}/{name}", *(f"pod {pod.key}" for pod in pods))
    more = 1 - budget.disruptions_allowed + budget.lacking
    finding = of_reason(
        UnremovableReason.NOT_ENOUGH_PDB,
        nodes=1,
        objects=objects[:MOST_OBJECTS],
        detail=f"it allows {budget.disruptions_allowed} disruptions",
        short={"disruptions": 1 - budget.disruptions_allowed},
    )
    words = _what_budget_needs(budget, more, f" of {', '.join(owners)}" if owners else "")

    def edit(budget: DisruptionBudget) -> DisruptionBudget:
        return structs.replace(budget, disruptions_allowed=1) if (budget.namespace, budget.name) == key else budget

    return Obstacle(finding, (BudgetsEdit(words=words, edit=edit),))


def _what_budget_needs(budget: DisruptionBudget, more: int, whose: str) -> str:
    """The change after which a budget allows a disruption. Of a percentage that has to stay no number of replicas is known,
    since it rises with them; where the rule allows no disruption, replicas do not help at all."""
    name, rule = f"PodDisruptionBudget {budget.namespace}/{budget.name}", budget.rule
    replicas = f"{'one more ready replica' if more == 1 else f'{more} more ready replicas'}{whose}"
    if rule is not None and rule.unavailable and rule.allows_none:
        return f"raise maxUnavailable of {name} above {rule.text}"
    if rule is not None and rule.percent and not rule.unavailable:
        add = "" if rule.allows_none else f", or add replicas{whose}"
        return f"lower minAvailable of {name} from {rule.text}{add}, so that it allows a disruption"
    return f"{replicas}, so that {name} allows a disruption"
