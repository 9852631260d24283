"""Which nodes of a file could go together now, and where would their pods live? The answer of `slackwater simulate scale-down`.

What flows through: decoded objects and settings -> `decide.scaledown`'s plan -> one JSON value (DESIGN section 3). A file has
no clock and no memory: timers, cool-downs and limits on what goes at the same time are not applied, and nothing is remembered
of earlier plans. Pending pods that fit are put on their nodes first, as a scheduler would.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from slackwater.app.offline.cluster import Cluster
from slackwater.app.offline.placement import pending_pods, picture_of
from slackwater.app.offline.skipped import skipped_rules
from slackwater.app.offline.slack import slack_inquiry
from slackwater.app.policy import policy_of
from slackwater.app.scaledown import scale_down_policy_of
from slackwater.app.settings import Settings
from slackwater.decide.scaledown.outcome import Removable, ScaleDownPlan
from slackwater.decide.scaledown.plan import plan_scale_down
from slackwater.decide.scaledown.scene import Scene
from slackwater.decide.scaledown.state import KeptNode, ScaleDownState
from slackwater.decide.scaleup.pending import Demand
from slackwater.decide.scaleup.policy import ScaleUpPolicy
from slackwater.model.columns import Rows
from slackwater.model.hindrances import TEXTS, Hindrance
from slackwater.model.ids import NodeName, UnixTime
from slackwater.model.nodegroups import GroupName, Membership, NodeGroup
from slackwater.model.objects import Pod
from slackwater.run.loops.slack_planning import plan_with_slack
from slackwater.run.loops.tenancy import PodsTenancy
from slackwater.simulate.drainability import DrainPolicy, Facts, Fate, judge
from slackwater.simulate.kindtable import KindId
from slackwater.simulate.picture import Picture
from slackwater.simulate.place import NOWHERE, place_pods
from slackwater.simulate.tenants import Tenants
from slackwater_protocol.durations import seconds as seconds_of
from slackwater_protocol.names import NODE_GROUP

#: The group of all nodes, where neither the configuration nor any label names one.
_EVERY_NODE = GroupName("")


def scale_down_answer(cluster: Cluster, settings: Settings, *, accounting: bool = False) -> dict[str, Any]:
    """What could go together now; see DESIGN section 3 for its shape. `seconds` is from decoded objects to the plan.

    Besides: each removable node's `worth`, and `skipped`: what could not be judged.
    """
    policy, now = scale_down_policy_of(settings), UnixTime(datetime.now(UTC).timestamp())
    timeout = seconds_of(settings.autoscaler.scale_down.simulation_timeout)
    began = time.perf_counter()
    picture = picture_of(cluster, policy=policy_of(settings).nodes if accounting else None)
    picture.missing_requests_refused = settings.vertical.missing_requests == "reject"
    arriving = _settle(picture, cluster)
    groups = _groups(cluster, settings)
    awaited = _awaited(cluster, policy.rules, now)
    members = _memberships(cluster, groups)
    scene = Scene(
        picture=picture,
        standing=Tenants(picture, cluster.pods),
        groups={group.name: group for group in groups},
        group_of={name: group for name, group in members.items() if name not in awaited},
        budgets=cluster.budgets,
        arriving=arriving,
    )

    def stop() -> bool:
        return timeout > 0 and time.perf_counter() - began > timeout

    scene = replace(scene, placeholders=_placeholders(scene, cluster.pods, settings))
    plan = plan_scale_down(ScaleDownState(), scene, policy, now=now, stop=stop)
    took = time.perf_counter() - began
    waiting = [_waits(name, pod) for name, pod in awaited.items() if name in members]
    return {**_answer(plan, waiting, cluster), "seconds": round(took, 6), **_skipped(picture, cluster)}


def _settle(picture: Picture, cluster: Cluster) -> frozenset[NodeName]:
    """Puts pending pods where they fit, important ones first; the nodes that they go to."""
    pending = sorted(pending_pods(cluster), key=lambda pod: -pod.priority)
    if not pending:
        return frozenset()
    rows = place_pods(picture, picture.number(pending), rows=np.arange(picture.n_rows)).rows
    taken: Rows = np.unique(rows[rows != NOWHERE])
    return frozenset(picture.facts.nodes[row].name for row in taken.tolist())


def _placeholders(scene: Scene, pods: Sequence[Pod], settings: Settings) -> tuple[Pod, ...]:
    """Slack as it would stand on the nodes of the file, beside all pods. Nobody says here what a new node would be like."""
    slack = slack_inquiry(pods, settings)
    if slack is None:
        return ()
    found = plan_with_slack(
        scene.picture,
        Demand(),
        (),
        policy=ScaleUpPolicy(),
        clock=time.perf_counter,
        slack=slack,
        tenancy=PodsTenancy(scene.standing),
    )
    assert found.slack is not None
    return tuple(each.pod for each in found.slack.state.placeholders if each.place is not None)


def _groups(cluster: Cluster, settings: Settings) -> list[NodeGroup]:
    """A running service's; else those of the configuration; without any, those that labels name; without any label, all nodes
    are one."""
    if cluster.groups is not None:
        return [known.group for known in cluster.groups]
    labels = [node.labels.get(NODE_GROUP, "") for node in cluster.nodes]
    configured = settings.autoscaler.node_groups
    if configured:
        sizes = [(group.name, group.min_size, group.max_size) for group in configured]
    else:
        sizes = [(name, 0, len(labels)) for name in sorted(set(filter(None, labels))) or [str(_EVERY_NODE)]]
    return [
        NodeGroup(
            name=GroupName(name), provider="", min_size=smallest, max_size=largest, target=labels.count(name), instances=()
        )
        for name, smallest, largest in sizes
    ]


def _memberships(cluster: Cluster, groups: Sequence[NodeGroup]) -> dict[NodeName, GroupName]:
    if [group.name for group in groups] == [_EVERY_NODE]:
        return {node.name: _EVERY_NODE for node in cluster.nodes}
    membership = Membership(groups)
    found = ((node.name, membership.group_of(node)) for node in cluster.nodes)
    return {name: group for name, group in found if group is not None}


def _awaited(cluster: Cluster, rules: DrainPolicy, now: UnixTime) -> dict[NodeName, Pod]:
    """Nodes that wait for a pod to complete, and for which: they cannot go now, so in this plan they stay."""
    facts, found = Facts(now=now, policy=rules), dict[NodeName, Pod]()
    for pod in cluster.pods:
        if pod.node is None or pod.ties.safe_to_evict != "on-completion":
            continue
        if judge(pod, facts).fate is Fate.WAIT:
            found.setdefault(pod.node, pod)
    return found


def _waits(node: NodeName, pod: Pod) -> KeptNode:
    return KeptNode(node=node, hindrance=Hindrance.AWAITS_COMPLETION, blocked_by=pod.key)


def _answer(plan: ScaleDownPlan, waiting: Sequence[KeptNode], cluster: Cluster) -> dict[str, Any]:
    """Removable nodes in the order in which they can go, each other node in the order of the file."""
    place = {node.name: at for at, node in enumerate(cluster.nodes)}
    kept = {**{one.node: one for one in plan.kept}, **{one.node: one for one in waiting}}
    stay = sorted(kept.values(), key=lambda kept: place[kept.node])
    return {"removable": [_removable(found) for found in plan.removable], "kept": [_kept(one) for one in stay]}


def _removable(found: Removable) -> dict[str, Any]:
    return {
        "node": found.node,
        "empty": found.empty,
        "destinations": {str(pod.key): to for pod, to in found.moves},
        "worth": found.worth.words(),
    }


def _kept(kept: KeptNode) -> dict[str, Any]:
    return {
        "node": kept.node,
        "reason": str(kept.hindrance),
        "detail": kept.detail or TEXTS[kept.hindrance],
        "blockedBy": None if kept.blocked_by is None else str(kept.blocked_by),
    }


def _skipped(picture: Picture, cluster: Cluster) -> Mapping[str, list[str]]:
    kinds = (picture.of(KindId(kind)) for kind in range(len(picture.kinds)))
    notes = [note for kind in kinds for note in skipped_rules(kind, cluster.unknown, cluster.where)]
    if cluster.budgets is None and cluster.pods:
        notes.append(f"disruption budgets, and pods of kube-system without one: no PodDisruptionBudget {cluster.where}")
    return {"skipped": list(dict.fromkeys(notes))} if notes else {}
