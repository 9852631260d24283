"""Which nodes would be added for a cluster's pending pods? The answer of `slackwater simulate scale-up` (DESIGN section 3).

What flows through: decoded objects and settings -> `decide.scaleup`'s plan -> one JSON value. A file has no clock: nothing
waits for its age, nothing is in creation, and no group backs off (a running service knows the latter two). Every pod without a
node counts, whether its scheduler has looked at it or not.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final

from slackwater.app.offline.cluster import Cluster
from slackwater.app.offline.knowngroups import labelled_groups
from slackwater.app.offline.placement import picture_of
from slackwater.app.offline.skipped import skipped_rules
from slackwater.app.offline.slack import slack_inquiry
from slackwater.app.policy import policy_of, scale_up_policy_of
from slackwater.app.settings import Settings
from slackwater.decide.scaleup.existing import awaits_devices
from slackwater.decide.scaleup.expanders.priority import NO_PRIORITIES
from slackwater.decide.scaleup.groups import Bar, GrowableGroup, Template
from slackwater.decide.scaleup.outcome import Refused, Unhelpable
from slackwater.decide.scaleup.pending import which_count
from slackwater.decide.scaleup.plan import plan_scale_up
from slackwater.decide.scaleup.policy import ScaleUpPolicy
from slackwater.decide.scaleup.template import template_of
from slackwater.edge.kube.priorities import CONFIG_MAP
from slackwater.model.ids import NodeName
from slackwater.model.nodegroups import GroupName, Membership
from slackwater.model.objects import Node, Pod
from slackwater.model.reasons import MEANINGS
from slackwater.run.loops.slack_planning import Planned, plan_with_slack
from slackwater.run.loops.tenancy import PodsTenancy
from slackwater.simulate.kindtable import KindId
from slackwater.simulate.picture import Picture
from slackwater.simulate.tenants import Tenants

#: Bars that time or demand elsewhere may lift.
_PASSING: Final = frozenset({"limit", "time", "backoff", "not-ready"})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scene:
    """What is planned on: the cluster without what counts for nobody, and its groups."""

    cluster: Cluster
    groups: tuple[GrowableGroup, ...]


def scale_up_answer(cluster: Cluster, settings: Settings, *, accounting: bool = False) -> dict[str, Any]:
    """The whole plan, before any cap on nodes in creation; see DESIGN section 3 for its shape.

    `seconds` is from decoded objects to the plan. Besides: `notCounted` pods with why, `notLookedAt` beyond `scaleUp.maxPods`,
    and `skipped`: what could not be judged.
    """
    policy = scale_up_policy_of(settings, priorities=cluster.priorities or NO_PRIORITIES, after_scheduler=False)
    began = time.perf_counter()
    scene = _scene(cluster, settings, policy)
    picture = picture_of(scene.cluster, policy=policy_of(settings).nodes if accounting else None)
    picture.missing_requests_refused = settings.vertical.missing_requests == "reject"
    pending = [pod for pod in cluster.pods if pod.node is None and not pod.ended]
    demand = which_count(pending, rules=policy.pending, now=None, reserved=cluster.promised)
    slack = slack_inquiry(cluster.pods, settings)
    if slack is None:
        found = Planned(plan=plan_scale_up(picture, demand, scene.groups, policy=policy, clock=time.perf_counter))
    else:
        found = plan_with_slack(
            picture,
            demand,
            scene.groups,
            policy=policy,
            clock=time.perf_counter,
            slack=slack,
            tenancy=PodsTenancy(Tenants(picture, scene.cluster.pods)),
        )
    seconds = time.perf_counter() - began
    return {**_answer(found, scene.groups), "seconds": round(seconds, 6), **_skipped(picture, pending, cluster, settings)}


def _scene(cluster: Cluster, settings: Settings, policy: ScaleUpPolicy) -> _Scene:
    known = cluster.groups
    if known is None:
        known = labelled_groups(cluster.nodes, settings.autoscaler.node_groups)
    membership = Membership(found.group for found in known)
    by_group: dict[GroupName, list[Node]] = {}
    for node in cluster.nodes:
        if (name := membership.group_of(node)) is not None:
            by_group.setdefault(name, []).append(node)
    standing: dict[NodeName | None, list[Pod]] = {}
    for pod in cluster.pods:
        standing.setdefault(pod.node, []).append(pod)
    groups = []
    half: set[NodeName] = set()
    for found in known:
        nodes = by_group.get(found.group.name, [])
        group = replace(found.group, target=found.group.target + len(nodes) - len(found.nodes))
        started = [node for node in nodes if node.name not in found.starting]
        template = template_of(group, started, pods_on=lambda name: standing.get(name, ()), daemons=cluster.daemons)
        waiting = [node.name for node in nodes if node.name in found.starting or _awaits(node, template)]
        half.update(waiting)
        upcoming = found.coming + len(waiting)
        groups.append(GrowableGroup(group=group, template=template, upcoming=upcoming, bar=found.bar))
    return _Scene(cluster=_counted(cluster, half, policy.pending.priority_cutoff), groups=tuple(groups))


def _awaits(node: Node, template: Template | None) -> bool:
    return template is not None and awaits_devices(node, template.node)


def _counted(cluster: Cluster, half: set[NodeName], cutoff: int) -> Cluster:
    """Without nodes that wait for their devices (they are upcoming) and without expendable pods, which would give way."""
    nodes = tuple(node for node in cluster.nodes if node.name not in half)
    pods = tuple(pod for pod in cluster.pods if pod.node is None or pod.priority >= cutoff)
    return replace(cluster, nodes=nodes, pods=pods)


def _answer(found: Planned, groups: Sequence[GrowableGroup]) -> dict[str, Any]:
    plan = found.plan
    growths = {growth.group: growth for growth in plan.growths}
    answer: dict[str, Any] = {
        "groups": [
            {
                "name": group.name,
                "newNodes": growths[group.name].count if group.name in growths else 0,
                "pods": [str(pod.key) for pod in growths[group.name].pods] if group.name in growths else [],
            }
            for group in groups
        ],
        "schedulable": [{"pod": str(pod.key), "node": node} for pod, node in (*plan.schedulable, *_standing(found))],
        "unhelpable": [
            entry
            for unhelpable in (*plan.unhelpable, *(found.slack.unhelpable if found.slack else ()))
            for entry in _unhelpable(unhelpable)
        ],
    }
    if plan.passed_over:
        answer["notCounted"] = [{"pod": str(each.pod.key), "reason": each.why} for each in plan.passed_over]
    if plan.not_looked_at:
        answer["notLookedAt"] = [str(pod.key) for pod in plan.not_looked_at]
    return answer


def _standing(found: Planned) -> Iterator[tuple[Pod, NodeName]]:
    """Placeholders that fit nodes which are there: people know them as pods `slack/<n>`."""
    for each in found.slack.state.placeholders if found.slack else ():
        if each.place is not None:
            yield each.pod, each.place


def _unhelpable(unhelpable: Unhelpable) -> Iterator[dict[str, Any]]:
    why = {name: _why(reason) for name, reason in unhelpable.groups.items()}
    return ({"pod": str(pod.key), "groups": why} for pod in unhelpable.pods)


def _why(reason: Refused | Bar) -> dict[str, Any]:
    if isinstance(reason, Bar):
        plugin, words, resolvable = "Slackwater", [reason.text], reason.kind in _PASSING
    else:
        meaning = MEANINGS[reason.reason]
        plugin, words, resolvable = meaning.plugin, list(reason.words), meaning.resolvable
    return {"plugin": plugin, "reasons": words, "code": "Unschedulable" if resolvable else "UnschedulableAndUnresolvable"}


def _skipped(picture: Picture, pending: Sequence[Pod], cluster: Cluster, settings: Settings) -> dict[str, list[str]]:
    @cache
    def of_kind(kind: int) -> tuple[str, ...]:
        return tuple(skipped_rules(picture.of(KindId(kind)), cluster.unknown - {"Node"}, cluster.where))

    found = dict.fromkeys(note for kind in picture.number(pending).tolist() for note in of_kind(kind))
    if "DaemonSet" in cluster.unknown and pending:
        found[f"the room that DaemonSets take on new nodes of groups without a node: no DaemonSet {cluster.where}"] = None
    if "priority" in settings.autoscaler.expanders and cluster.priorities is None:
        found[f"expander priority: {cluster.priorities_problem or f'no ConfigMap {CONFIG_MAP} {cluster.where}'}"] = None
    return {"skipped": list(found)} if found else {}
