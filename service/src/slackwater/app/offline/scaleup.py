"""Answers `slackwater simulate scale-up`: which nodes would be added for a cluster's pending pods.

In: a `Cluster` and settings, planned by `growth`. Out: the plan as one JSON value.
"""

import time
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, Final

from slackwater.adapters.kube.config_maps import PRIORITIES_CONFIG_MAP
from slackwater.app.offline.cluster import Cluster, skipped_rules
from slackwater.app.offline.growth import planned_growth
from slackwater.app.settings import Settings
from slackwater.controllers.scaleup.groups import GrowableGroup, SkipReason
from slackwater.controllers.scaleup.outcome import GroupRefusal, Unhelpable
from slackwater.model.ids import NodeName
from slackwater.model.objects import Pod
from slackwater.model.reasons import MEANINGS
from slackwater.runtime.autoscaler.slack_planning import LoopPlans
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.equivalence_groups import KindId

#: Skip reasons that may pass without a change of the configuration or of the pod.
_PASSING: Final = frozenset({"limit", "time", "backoff", "not-ready"})

#: The most reasons (one for each pod and node group) that an answer repeats for pods with the same reasons.
_MOST_REASONS: Final = 200_000


def scale_up_answer(cluster: Cluster, settings: Settings, *, accounting: bool = False) -> dict[str, Any]:
    """Plans a scale-up and returns the plan as a JSON value; docs/simulate.md describes its shape.

    Limits on nodes in creation do not reduce the plan. With `accounting`, nodes have no more room than our own accounting
    gives them.

    `seconds` is the time from the decoded objects to the plan. `notCounted` lists pods that were not planned for, with the
    reason, `notLookedAt` the pods beyond `scaleUp.maxPods`, `failures` what was left out of the plan because planning raised
    an error, `skipped` the rules that could not be judged.
    """
    began = time.perf_counter()
    grown = planned_growth(cluster, settings, accounting=accounting)
    seconds = time.perf_counter() - began
    skipped = _skipped(grown.snapshot, grown.pending, cluster, settings)
    return {**_answer(grown.found, grown.groups), "seconds": round(seconds, 6), **skipped}


def _answer(found: LoopPlans, groups: Sequence[GrowableGroup]) -> dict[str, Any]:
    plan = found.plan
    scale_ups = {scale_up.group: scale_up for scale_up in plan.scale_ups}
    answer: dict[str, Any] = {
        "groups": [
            {
                "name": group.name,
                "newNodes": scale_ups[group.name].count if group.name in scale_ups else 0,
                "pods": [str(pod.key) for pod in scale_ups[group.name].pods] if group.name in scale_ups else [],
            }
            for group in groups
        ],
        "schedulable": [{"pod": str(pod.key), "node": node} for pod, node in (*plan.schedulable, *_placeholders(found))],
        "unhelpable": list(_unhelpable([*plan.unhelpable, *(found.slack.unhelpable if found.slack else ())])),
    }
    if plan.passed_over:
        answer["notCounted"] = [{"pod": str(each.pod.key), "reason": each.why} for each in plan.passed_over]
    if plan.not_looked_at:
        answer["notLookedAt"] = [str(pod.key) for pod in plan.not_looked_at]
    if plan.failures:
        answer["failures"] = [{"about": each.about, "error": each.error} for each in plan.failures]
    return answer


def _placeholders(found: LoopPlans) -> Iterator[tuple[Pod, NodeName]]:
    """The placeholders that fit on existing nodes, with their nodes. The plan lists them as pods `slack/<n>`."""
    for each in found.slack.state.placeholders if found.slack else ():
        if each.place is not None:
            yield each.pod, each.place


def _unhelpable(found: Sequence[Unhelpable]) -> Iterator[dict[str, Any]]:
    """An entry for each pod. Of pods with the same reasons the first has them; the others too, as far as `_MOST_REASONS`
    allows, and else `sameAs`, the name of the first."""
    left = _MOST_REASONS - sum(len(unhelpable.groups) for unhelpable in found)
    for unhelpable in found:
        why = {name: _why(reason) for name, reason in unhelpable.groups.items()}
        first = str(unhelpable.pods[0].key)
        yield {"pod": first, "groups": why}
        for pod in unhelpable.pods[1:]:
            left -= len(why)
            yield {"pod": str(pod.key), "groups": why} if left >= 0 else {"pod": str(pod.key), "groups": {}, "sameAs": first}


def _why(reason: GroupRefusal | SkipReason) -> dict[str, Any]:
    if isinstance(reason, SkipReason):
        plugin, words, resolvable = "Slackwater", [reason.text], reason.kind in _PASSING
    else:
        meaning = MEANINGS[reason.reason]
        plugin, words, resolvable = meaning.plugin, list(reason.words), meaning.resolvable
    return {"plugin": plugin, "reasons": words, "code": "Unschedulable" if resolvable else "UnschedulableAndUnresolvable"}


def _skipped(snapshot: ClusterSnapshot, pending: Sequence[Pod], cluster: Cluster, settings: Settings) -> dict[str, list[str]]:
    @cache
    def of_kind(kind: int) -> tuple[str, ...]:
        return tuple(skipped_rules(snapshot.of(KindId(kind)), cluster.unknown - {"Node"}, cluster.where, cluster.ignored))

    found = dict.fromkeys(note for kind in snapshot.number(pending).tolist() for note in of_kind(kind))
    if "DaemonSet" in cluster.unknown and pending:
        found[f"the room that DaemonSets take on new nodes of groups without a node: no DaemonSet {cluster.where}"] = None
    if "priority" in settings.autoscaler.expanders and cluster.priorities is None:
        found[f"expander priority: {cluster.priorities_problem or f'no ConfigMap {PRIORITIES_CONFIG_MAP} {cluster.where}'}"] = (
            None
        )
    return {"skipped": list(found)} if found else {}
