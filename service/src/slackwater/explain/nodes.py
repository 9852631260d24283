"""Why is a node still here, and what would let it go? `explain_node` asks every rule of removal, and tries changes.

Removable means what it means to `slackwater simulate scale-down`: the rules let the node and its pods go, its group and the
cluster keep their minima, and all its pods find a place at the same time, were it alone to go. Timers, cool-downs and what
is under way are told beside it: they pass by themselves.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from slackwater.controllers.scaledown.eligibility import RULES, Look, recently_unremovable
from slackwater.controllers.scaledown.minima import Minima
from slackwater.controllers.scaledown.planning_input import Scene
from slackwater.controllers.scaledown.policy import GroupRules, rules_of
from slackwater.controllers.scaledown.state import ScaleDownState
from slackwater.controllers.scaledown.utilization import Utilization, utilizations, without_daemons
from slackwater.explain import leaving, noderules
from slackwater.explain.asked import Asked, Obstacle
from slackwater.explain.findings import Explanation, Finding, Remedy, of_hindrance, of_standstill
from slackwater.explain.obstacles import on_row
from slackwater.explain.pods import nearest, why_nowhere
from slackwater.explain.search import Goal, minimal_set, single_remedies
from slackwater.explain.situation import Situation
from slackwater.fit.disruptions import Disruptions
from slackwater.fit.drainability import Facts
from slackwater.fit.evacuation import Evacuated, Evacuations, Kept
from slackwater.model.ids import NodeName, Row
from slackwater.model.nodegroups import GroupName
from slackwater.model.unremovable_reasons import Hindrance
from slackwater.model.wait_reasons import Standstill
from slackwater.snapshot.running_pods import Tenant

_MOST_REMEDIES: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeWord:
    """What is known of a node beside the picture. `begun`: how far its removal has come, where that has begun.

    `unneeded_seconds`: for how long it has been a candidate; None: it is none. `waits`: what holds a candidate back now.
    """

    begun: str | None = None
    unneeded_seconds: float | None = None
    waits: Sequence[tuple[Hindrance, str]] = ()
    ledger: Mapping[str, Any] = field(default_factory=dict)


NO_WORD: Final = NodeWord()


def explain_node(situation: Situation, name: NodeName, word: NodeWord = NO_WORD) -> Explanation:
    """See the module. Raises KeyError for a node that is not there."""
    row = situation.row_of(name)
    if row is None:
        raise KeyError(name)
    title, facts = f"node {name}", _facts(situation, row, word)
    if word.begun is not None:
        begun = of_hindrance(Hindrance.BEING_DELETED, objects=(f"node {name}",), detail=word.begun)
        return Explanation(object=title, state="leaving", reasons=(begun,), facts=facts)
    found = hindrances(situation, row)
    waits = [*_waits(situation, row, word)]
    if not found:
        removable = of_standstill(Standstill.REMOVABLE, nodes=1)
        return Explanation(object=title, state="removable", reasons=(*waits, removable), facts=facts)
    goal = Goal(
        reached=lambda then: is_removable(then, row), obstacles=lambda then: hindrances(then, row), where=f"node {name}"
    )
    remedies = single_remedies(situation, [goal])
    minimal = minimal_set(situation, goal)
    if not remedies and minimal is not None:
        remedies = [Remedy(changes=minimal.changes)]
    return Explanation(
        object=title,
        state="needed",
        reasons=(*(obstacle.finding for obstacle in found), *waits),
        remedies=tuple(remedies[:_MOST_REMEDIES]),
        minimal=() if minimal is None else (minimal,),
        facts=facts,
    )


def _waits(situation: Situation, row: Row, word: NodeWord) -> Iterator[Finding]:
    """What passes by itself."""
    yield from (of_hindrance(hindrance, nodes=1, detail=detail) for hindrance, detail in word.waits)
    evacuated = _evacuated(situation, row)
    if isinstance(evacuated, Evacuated) and evacuated.awaited:
        awaited = tuple(f"pod {pod.key}" for pod in evacuated.awaited)
        yield of_hindrance(Hindrance.AWAITS_COMPLETION, nodes=1, objects=awaited)


def _facts(situation: Situation, row: Row, word: NodeWord) -> dict[str, Any]:
    used = utilizations(situation.picture, np.array([row], np.intp))[0]
    node = situation.picture.facts.nodes[row]
    group = situation.group_of.get(node.name)
    rules = None if group is None else _rules(situation, group)
    return {
        "group": group,
        "utilization": {"resource": used.resource, "share": round(used.share, 4)},
        "utilizationThreshold": None if rules is None else rules.utilization_threshold,
        "pods": len(situation.standing.on(row)),
        "ready": node.ready,
        "unneededSeconds": None if word.unneeded_seconds is None else round(word.unneeded_seconds, 1),
        "unneededTimeSeconds": None if rules is None else (rules.unneeded_seconds if node.ready else rules.unready_seconds),
        **word.ledger,
    }


def _rules(situation: Situation, group: GroupName) -> GroupRules:
    return rules_of(situation.groups[group].group, situation.shrink)


# --- may it go? -----------------------------------------------------------------------------------------------------------


def is_removable(situation: Situation, row: Row) -> bool:
    """Were it alone to go, now, whatever it waits for."""
    return not _of_the_node(situation, row) and isinstance(_evacuated(situation, row), Evacuated)


def hindrances(situation: Situation, row: Row) -> list[Obstacle]:
    """Everything that keeps the node, each with changes to be tried; empty where it can go.

    Of the pods that fit nowhere only the first is told; whoever finds it a place looks again.
    """
    found = _of_the_node(situation, row)
    blocked = leaving.blocked(situation, row, _drain_facts(situation))
    found += blocked
    evacuated = _evacuated(situation, row, begun=bool(blocked))
    if isinstance(evacuated, Kept):
        found += _homeless(situation, row, evacuated)
    return found


def _of_the_node(situation: Situation, row: Row) -> list[Obstacle]:
    node = situation.picture.facts.nodes[row]
    group = situation.group_of.get(node.name)
    rules = None if group is None else _rules(situation, group)
    look = Look(
        node=node,
        group=group,
        rules=rules,
        utilization=_utilization(situation, row, rules),
        state=ScaleDownState(),
        policy=situation.shrink,
        now=situation.now,
    )
    words = [word for rule in RULES if rule is not recently_unremovable and (word := rule(look)) is not None]
    if group is not None:
        minima = Minima(_scene(situation), ScaleDownState(), situation.shrink.minimum)
        refusal = minima.refusal(row, group, situation.groups[group].group.min_size)
        words += [] if refusal is None else [refusal]
    return [noderules.obstacle(situation, look, row, *word) for word in words]


def _utilization(situation: Situation, row: Row, rules: GroupRules | None) -> Utilization:
    """As `plan_scale_down` has it."""
    used = utilizations(situation.picture, np.array([row], np.intp))[0]
    if rules is None or not rules.ignore_daemon_sets or used.of_gpu or used.share <= rules.utilization_threshold:
        return used
    return without_daemons(situation.picture, situation.standing, row)


def _scene(situation: Situation) -> Scene:
    return Scene(
        picture=situation.picture,
        standing=situation.standing,
        groups={name: group.group for name, group in situation.groups.items()},
        group_of=situation.group_of,
        budgets=situation.budgets,
        replicas=situation.replicas,
    )


def _drain_facts(situation: Situation) -> Facts:
    return Facts(
        now=situation.now,
        policy=situation.shrink.rules,
        disruptions=None if situation.budgets is None else Disruptions(situation.budgets),
        replicas=situation.replicas,
    )


def _evacuated(situation: Situation, row: Row, *, begun: bool = False) -> Evacuated | Kept | None:
    """Places are looked for in the order of the plan that may remove this node alone: which pod finds one depends on it.

    The picture is as before afterwards. `begun`: rules are not asked.
    """
    picture = situation.picture
    rows = np.flatnonzero(picture.facts.live[: picture.n_rows])[::-1]
    with picture.fork():
        evacuations = Evacuations(picture, situation.standing, facts=_drain_facts(situation))
        return evacuations.evacuate(row, rows=rows, begun=begun)


def _homeless(situation: Situation, row: Row, kept: Kept) -> list[Obstacle]:
    """The first pod without a place, why it has none, and what would let it stand on the nearest other nodes."""
    tenant = next(tenant for tenant in situation.standing.on(row) if tenant.pod.uid == kept.pod.uid)
    picture = situation.picture
    with picture.fork():
        picture.remove(tenant.kind, row)
        picture.close(row)
        asked = Asked(situation.edited(kept.pod.uid, None), kept.pod, at=row)
        why = why_nowhere(asked)
        changes = [
            change
            for near in nearest(asked, but=row)
            if len(against := on_row(asked, near)) == 1
            for change in against[0].changes
        ]
    return [Obstacle(_no_place(kept, tenant, why), tuple(changes))]


def _no_place(kept: Kept, tenant: Tenant, why: Sequence[Finding]) -> Finding:
    words = ", ".join(f"{finding.nodes} {finding.detail or finding.text}" for finding in why[:3])
    base = of_hindrance(Hindrance.NO_PLACE, nodes=1, objects=(f"pod {tenant.pod.key}",), detail=words)
    short = why[0] if len(why) == 1 else None
    return base if short is None else replace(base, resource=short.resource, short=short.short)
