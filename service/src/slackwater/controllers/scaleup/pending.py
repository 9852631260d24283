"""Pending pods: decides for which of them nodes may be added (these pods "count"), and in which order they are planned.

In: every pod without a node. Out: the pods that count, the most important and oldest first; the pods that are nominated to a
node; and for every other pod the reason why it does not count now.

A burst: the pending pods of one controller, those with a GPU apart. They wait until the first of them is a little older: a
Deployment takes seconds to create a thousand pods, and a plan for the first ten of them adds the wrong nodes. Pods that request
a GPU wait longer, since such nodes are expensive. Each burst waits separately, so bursts do not delay one another.

A scheduler with twenty thousand pods to try reports only minutes later that the last one fits nowhere. So pods of the
schedulers in `PendingRules.bypassed_scheduler_names`, whose rules are known to be those of planning, count before the scheduler
has tried them, once they are a little older. Only pods for which the scheduler might make room by preemption have to be tried
first.

Pods that count are placed on existing and upcoming nodes first (`place_existing`): those that fit there need no new node.
Higher priorities are placed first. Within a priority, pods for which an earlier plan found a node (their hint) are tried there
before the others are placed. Deliberately absent: scores. It does not matter which node kube-scheduler will choose, only that
there is one. The module reads no clock.
"""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import merge
from typing import Final

import numpy as np

from slackwater.controllers.scaleup.outcome import SkippedPod
from slackwater.fit.assumed_claims import assume_free_devices
from slackwater.fit.binpacking import NO_HINTS, NOWHERE, Hints, place_pods
from slackwater.fit.failure import concerning
from slackwater.model.authority import EVERY_POD, HandedOverPods
from slackwater.model.columns import Rows
from slackwater.model.eviction_facts import Owner
from slackwater.model.ids import NodeName, PodUid, Seconds, UnixTime
from slackwater.model.objects import Pod, created_at_of, is_daemon
from slackwater.model.resources import GPUS
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.equivalence_groups import KindId

_PIECE: Final = 1_000
#: Stands for the row of a pod that was not tried.
UNREACHED: Final = -2
NO_CUTS: Final[Mapping[PodUid, int]] = {}
#: A pod created more than this in the future has its time from another clock. Its age means nothing, so it does not wait.
_SKEW_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingRules:
    """Settings that decide which pods count. Pods of a priority below `expendable_pods_priority_cutoff` are expendable.
    `new_pod_delay`: the age that each pod must have. `settle_time`, `gpu_settle_seconds`: the age that the first pod of a burst
    must have. `max_pods`: the most pods that one loop plans for; 0: no limit.

    `after_scheduler`: a pod counts only once its scheduler has reported that it fits nowhere; but pods of the schedulers in
    `bypassed_scheduler_names` count once they are `untried_seconds` old.
    """

    expendable_pods_priority_cutoff: int
    new_pod_delay: Seconds
    settle_time: Seconds
    gpu_settle_seconds: float = 30.0
    max_pods: int
    after_scheduler: bool = True
    bypassed_scheduler_names: tuple[str, ...]
    #: No nodes are added for other pods.
    handed_over: HandedOverPods = EVERY_POD
    untried_seconds: float = 5.0

    def seconds_of(self, pod: Pod) -> float:
        """The age in seconds that the pod itself must have; its burst may wait for longer."""
        untried = self.untried_seconds if self.after_scheduler and is_untried(pod) else 0.0
        return max(self.new_pod_delay, pod.scale_up_delay_seconds or 0.0, untried)


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """The pods without a node, by whether scale-up plans for them. `counted`: pods for which nodes may be added, in the order
    of importance. `nominated`: pods that wait for room on their nominated node.

    `disputed`: counted pods that kube-scheduler keeps refusing on present nodes; they need a new one even if they fit there.
    `cut_off`: counted pods that a limit cut off the last plans, each with the number of these plans in a row. Within a priority
    those that have waited for the most plans are planned first.
    `passed_over`: pods that do not count now. `not_looked_at`: pods beyond `PendingRules.max_pods`. `again_at`: when the first
    pod that is too young now will count; None if there is no such pod.
    """

    counted: tuple[Pod, ...] = ()
    nominated: tuple[Pod, ...] = ()
    disputed: frozenset[PodUid] = frozenset()
    cut_off: Mapping[PodUid, int] = field(default_factory=dict)
    passed_over: tuple[SkippedPod, ...] = ()
    not_looked_at: tuple[Pod, ...] = ()
    again_at: UnixTime | None = None

    def undisputed(self, pods: Rows) -> Rows:
        """Those of the counted pods, by position, that are placed on a present node if they fit there."""
        return pods if not self.disputed else pods[[self.counted[pod].uid not in self.disputed for pod in pods.tolist()]]


def importance(pod: Pod) -> tuple[int, str, str, str]:
    """The sort key of pods: 1. higher priority  2. created earlier  3. namespace and name: arbitrary, but stable."""
    return (-pod.priority, pod.created_at, *pod.key)


def in_order(pods: Sequence[Pod]) -> list[Pod]:
    """Sorts the pods by importance, in pieces: one sort of 20,000 pods takes 50 ms, in which no other thread runs."""
    pieces = (sorted(pods[start : start + _PIECE], key=importance) for start in range(0, len(pods), _PIECE))
    return list(merge(*pieces, key=importance))


def pending_demand(
    pods: Iterable[Pod],
    *,
    rules: PendingRules,
    now: UnixTime | None,
    reserved: Container[PodUid] = frozenset(),
    preemptible: int | None = None,
) -> Demand:
    """Decides for which of the pods without a node new nodes may be added (these pods count); the module's docstring has the
    rules. `now`: the time with which pods' ages are computed; None: pods count whatever their age.

    `reserved`: the pods for which room is reserved already; they do not count. `preemptible`: the lowest priority of a placed
    pod that is not expendable; None if there is no such pod. A pod of higher priority does not count before its scheduler has
    tried it, since it may get room by preemption.
    """
    nominated: list[Pod] = []
    passed: list[SkippedPod] = []
    left: list[Pod] = []
    for pod in pods:
        why = _why_not(pod, rules, reserved) or _why_not_untried(pod, rules, preemptible)
        if why is not None:
            passed.append(SkippedPod(pod=pod, why=why))
        elif pod.nominated_node is not None:
            nominated.append(pod)
        else:
            left.append(pod)
    again_at = None
    if now is not None:
        left, waiting, again_at = _of_age(left, rules, now)
        passed += waiting
    left = in_order(left)
    most = rules.max_pods or len(left)
    return Demand(
        counted=tuple(left[:most]),
        nominated=tuple(sorted(nominated, key=importance)),
        passed_over=tuple(passed),
        not_looked_at=tuple(left[most:]),
        again_at=again_at,
    )


def asks_gpu(pod: Pod) -> bool:
    asks = pod.kind.pod_constraints
    return asks is not None and any(name in GPUS and amount for name, amount in asks.scalars)


def is_untried(pod: Pod) -> bool:
    """Has the pod's scheduler not yet reported that the pod fits nowhere, nor nominated it?"""
    return pod.unschedulable_message is None and pod.nominated_node is None


def _why_not(pod: Pod, rules: PendingRules, reserved: Container[PodUid]) -> str | None:
    """The first reason for which the pod does not count, apart from its age; None if there is none."""
    return (
        ((pod.node is not None or pod.ended or pod.deleting) and "it has a node, has ended or is being deleted")
        or (pod.gates and f"gated: {', '.join(pod.gates)}")
        or (pod.uid in reserved and "room is promised to it already")
        or (
            pod.priority < rules.expendable_pods_priority_cutoff
            and f"expendable: its priority {pod.priority} is below {rules.expendable_pods_priority_cutoff}"
        )
        or (pod.provisioning_request and f"ProvisioningRequest {pod.provisioning_request} provides its nodes")
        or rules.handed_over.withholds(pod.key.namespace, pod.kind.scheduler_name)
        or (is_daemon(pod) and "it comes with its node")
        or (pod.vertical_problem and f"its annotations cannot be read: {pod.vertical_problem}")
        or (
            rules.after_scheduler
            and is_untried(pod)
            and pod.kind.scheduler_name not in rules.bypassed_scheduler_names
            and "the scheduler has not said yet that it fits nowhere"
        )
        or None
    )


def _why_not_untried(pod: Pod, rules: PendingRules, preemptible: int | None) -> str | None:
    if not rules.after_scheduler or preemptible is None or pod.priority <= preemptible or not is_untried(pod):
        return None
    return "the scheduler has not tried it yet, and may make room for it by preemption" if pod.kind.preempts else None


def _of_age(pods: Sequence[Pod], rules: PendingRules, now: UnixTime) -> tuple[list[Pod], list[SkippedPod], UnixTime | None]:
    """Divides the pods by age. Returns the pods that are old enough; the others, with the reason; and when the first of the
    others will be old enough (None if there are no others)."""
    old = now - max(rules.settle_time, rules.gpu_settle_seconds, rules.new_pod_delay, rules.untried_seconds)
    if all(created_at_of(pod.created_at) <= old and not pod.scale_up_delay_seconds for pod in pods):
        return list(pods), [], None  # no burst waits either: a burst is at least as old as each of its pods
    first: dict[tuple[str, Owner | None, bool], float] = {}
    bursts = []
    for pod in pods:
        burst = (pod.key.namespace, pod.eviction_facts.owner, asks_gpu(pod))
        created = created_at_of(pod.created_at)
        bursts.append((pod, burst, created))
        first[burst] = min(created, first.get(burst, created))
    ready: list[Pod] = []
    waiting: list[SkippedPod] = []
    again_at: float | None = None
    for pod, burst, created in bursts:
        settle = rules.gpu_settle_seconds if burst[2] else rules.settle_time
        settled = first[burst] + settle
        grown = created + rules.seconds_of(pod)
        if (now >= settled and now >= grown) or created > now + _SKEW_SECONDS:
            ready.append(pod)
            continue
        at = max(settled, grown)
        again_at = at if again_at is None else min(again_at, at)
        why = "more pods of its burst may follow" if now < settled else "it is young"
        waiting.append(SkippedPod(pod=pod, why=f"{why}: counts in {at - now:.0f} s"))
    return ready, waiting, None if again_at is None else UnixTime(again_at)


def place_existing(
    snapshot: ClusterSnapshot,
    pods: Sequence[Pod],
    kinds: Rows,
    *,
    hints: Mapping[PodUid, NodeName],
    cut_off: Mapping[PodUid, int] = NO_CUTS,
    stop: Callable[[], bool] = lambda: False,
    together: bool = True,
) -> Rows:
    """Places the pods in the snapshot. Returns the row of each pod, NOWHERE if it fits on none, UNREACHED if `stop` ended the
    placing before it; shape (pods,). `pods` are in the order of importance, `kinds` are their equivalence groups. `cut_off` is
    as in `Demand`. With `together`, pods that need one another on one node are placed only where all of them fit."""
    rows: Rows = np.full(len(pods), NOWHERE, np.intp)
    if not snapshot.n_rows:
        return rows
    row_of = snapshot.facts.row_of
    names = (hints.get(pod.uid) for pod in pods)
    hinted = np.fromiter((NOWHERE if name is None else row_of.get(name, NOWHERE) for name in names), np.intp, len(pods))
    priorities = np.fromiter((-pod.priority for pod in pods), np.int64, len(pods))
    later = np.zeros_like(priorities)
    if cut_off:
        later = np.fromiter((-cut_off.get(pod.uid, 0) for pod in pods), np.int64, len(pods))
    every = np.lexsort((later, priorities)) if cut_off else np.arange(len(pods))
    turns = np.column_stack((priorities if hints else np.zeros_like(priorities), later))[every]
    for part in np.split(every, np.flatnonzero((turns[1:] != turns[:-1]).any(axis=1)) + 1):
        # By priority, and within a priority by equivalence group, in the order of the groups' first pods.
        _, starts, of = np.unique(kinds[part], return_index=True, return_inverse=True)
        order = part[np.lexsort((part, starts[of], priorities[part]))]
        found = place_pods(
            snapshot,
            kinds[order],
            rows=np.arange(snapshot.n_rows),
            hints=Hints(pods=hinted[order]) if hints else NO_HINTS,
            stop=stop,
            reasons=False,
            together=together,
        )
        rows[order] = found.rows
        rows[order[list(found.unreached)]] = UNREACHED
    return rows


def place_nominated(snapshot: ClusterSnapshot, pods: Sequence[Pod]) -> list[tuple[Pod, NodeName]]:
    """Places nominated pods on their nominated nodes, whether or not they fit now: preemption makes room for them there. These
    nodes must exist. Returns the pods with their nodes."""
    placed = [(pod, pod.nominated_node) for pod in pods if pod.nominated_node is not None]
    for kind, (_, name) in zip(snapshot.number(pods).tolist(), placed, strict=True):
        row = snapshot.facts.row_of[name]
        with concerning(KindId(kind)):
            assume_free_devices(snapshot, KindId(kind), row)
        snapshot.place(KindId(kind), row)
    return placed
