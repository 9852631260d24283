"""Explains which pods keep a node from being removed: which, why, and what would let each go."""

from collections.abc import Iterator
from dataclasses import replace

from slackwater.explain.asked import Obstacle
from slackwater.explain.changes import BudgetEdit, BudgetsLeave, Change, PodEdit, PodLeaves
from slackwater.explain.findings import MOST_OBJECTS, of_unremovable_reason
from slackwater.explain.situation import ExplainInput
from slackwater.fit.drainability import Facts, judge
from slackwater.model.ids import Row
from slackwater.model.objects import DisruptionBudget, Pod
from slackwater.model.unremovable_reasons import UnremovableReason
from slackwater_protocol.names import SAFE_TO_EVICT


def blocked(explain_input: ExplainInput, row: Row, facts: Facts) -> list[Obstacle]:
    """One obstacle for each pod that a rule keeps, and one for each budget that keeps pods, with all of these."""
    found: list[Obstacle] = []
    by_budget: dict[tuple[str, str], list[Pod]] = {}
    by_budgets: dict[tuple[tuple[str, str], ...], list[Pod]] = {}
    for running_pod in explain_input.standing.on(row):
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
    """The obstacle of several budgets: all but one have to go; which one stays is their owner's choice."""
    names = [f"PodDisruptionBudget {namespace}/{name}" for namespace, name in keys]
    objects = (*names, *(f"pod {pod.key}" for pod in pods))
    finding = of_unremovable_reason(
        UnremovableReason.MULTIPLE_PDBS, nodes=1, objects=objects[:MOST_OBJECTS], detail=", ".join(names)
    )
    changes = []
    for kept in range(len(keys)):
        others = [at for at in range(len(keys)) if at != kept]
        words = f"delete {' and '.join(names[at] for at in others)}"
        changes.append(BudgetsLeave(words=words, budgets=frozenset(keys[at] for at in others)))
    return Obstacle(finding, tuple(changes))


def _of_pod(explain_input: ExplainInput, pod: Pod, row: Row, unremovable_reason: UnremovableReason) -> Obstacle:
    owner = pod.eviction_facts.owner
    objects = [f"pod {pod.key}"]
    if owner is not None:
        objects.append(f"{owner.kind} {pod.key.namespace}/{owner.name}")
    if unremovable_reason is UnremovableReason.LOCAL_STORAGE:
        objects += [f"volume {name}" for name in pod.eviction_facts.local_volumes]
    finding = of_unremovable_reason(unremovable_reason, nodes=1, objects=tuple(objects[:MOST_OBJECTS]))
    return Obstacle(finding, tuple(_of_rule(explain_input, pod, row, unremovable_reason)))


def _of_rule(explain_input: ExplainInput, pod: Pod, row: Row, unremovable_reason: UnremovableReason) -> Iterator[Change]:
    if unremovable_reason is UnremovableReason.MACHINE_CANNOT_MIGRATE and pod.vertical is not None:
        yield PodEdit(words=f"let the virtual machine of pod {pod.key} migrate", pod=pod, row=row, edit=_migratable)
    yield PodEdit(words=f"annotate pod {pod.key} with {SAFE_TO_EVICT}: true", pod=pod, row=row, edit=_safe)
    name = explain_input.snapshot.facts.nodes[row].name
    yield PodLeaves(words=f"delete pod {pod.key} from node {name}", pod=pod, row=row)


def _safe(pod: Pod) -> Pod:
    return replace(pod, eviction_facts=replace(pod.eviction_facts, safe_to_evict="true"))


def _migratable(pod: Pod) -> Pod:
    return pod if pod.vertical is None else replace(pod, vertical=replace(pod.vertical, auto_migrate=True))


def _of_budget(explain_input: ExplainInput, key: tuple[str, str], pods: list[Pod]) -> Obstacle:
    namespace, name = key
    budget = next(each for each in explain_input.budgets or () if (each.namespace, each.name) == key)
    owners = dict.fromkeys(
        f"{p.eviction_facts.owner.kind} {namespace}/{p.eviction_facts.owner.name}"
        for p in pods
        if p.eviction_facts.owner is not None
    )
    objects = (f"PodDisruptionBudget {namespace}/{name}", *(f"pod {pod.key}" for pod in pods))
    finding = of_unremovable_reason(
        UnremovableReason.NOT_ENOUGH_PDB,
        nodes=1,
        objects=objects[:MOST_OBJECTS],
        detail=f"it allows {budget.disruptions_allowed} disruptions",
        short={"disruptions": 1 - budget.disruptions_allowed},
    )
    more = 1 - budget.disruptions_allowed
    who = f" of {', '.join(owners)}" if owners else ""
    words = f"{_replicas(more)}{who}, so that PodDisruptionBudget {namespace}/{name} allows a disruption"
    return Obstacle(finding, (BudgetEdit(words=words, namespace=namespace, name=name, edit=_one_allowed),))


def _replicas(more: int) -> str:
    return "one more ready replica" if more == 1 else f"{more} more ready replicas"


def _one_allowed(budget: DisruptionBudget) -> DisruptionBudget:
    return replace(budget, disruptions_allowed=1)
