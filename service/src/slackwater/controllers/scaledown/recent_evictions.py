"""Recent evictions: finds the evicted pods that still need room because their controllers may not have created new pods yet.

A pod without a controller needs room for as long as its eviction is remembered. If it is known how many replicas a controller
wants, the number of its present pods is subtracted; the present pods are counted here, since the controller's own count may be
older than the eviction. If it is not known, each pod that the controller has created since replaces an evicted one. Pending
pods count as present: they have room in the snapshot, or are demand already.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime

from slackwater.controllers.scaledown.planning_input import PlanningInput
from slackwater.controllers.scaledown.state import Eviction
from slackwater.model.auxiliary import ControllerKey, Targets
from slackwater.model.ids import Row, UnixTime
from slackwater.model.objects import Pod

#: Times in API objects are whole seconds.
_RESOLUTION_SECONDS = 1.0


def remembered(evictions: Sequence[Eviction], now: UnixTime, seconds: float) -> tuple[Eviction, ...]:
    """The evictions of less than `seconds` ago."""
    return tuple(eviction for eviction in evictions if now - eviction.at < seconds)


def missing(evictions: Sequence[Eviction], planning_input: PlanningInput) -> list[Pod]:
    """The evicted pods that still need room, in the order of their eviction.

    A pod that the watch still shows on a node is not among them: it has room there.
    """
    if not evictions:
        return []
    alive = [pod for pod in _related(evictions, planning_input) if not pod.deleting]
    here = {pod.uid for pod in alive}
    gone = [eviction for eviction in evictions if eviction.pod.uid not in here]
    left = _missing_of(gone, alive, planning_input.replicas or {})
    found = []
    for eviction in gone:
        controller = _controller(eviction.pod)
        if controller is not None:
            left[controller] -= 1
            if left[controller] < 0:
                continue
        found.append(eviction.pod)
    return found


def _related(evictions: Sequence[Eviction], planning_input: PlanningInput) -> Iterator[Pod]:
    """Yields the evicted pods that still exist, and all pods of controllers with the name of an evicted pod's controller.

    Comparing only names is fast: there may be 150,000 pods, few of them of these controllers.
    """
    uids = {eviction.pod.uid for eviction in evictions}
    names = {eviction.pod.eviction_facts.owner.name for eviction in evictions if eviction.pod.eviction_facts.owner is not None}
    for pod in _all_pods(planning_input):
        owner = pod.eviction_facts.owner
        if pod.uid in uids or (owner is not None and owner.name in names):
            yield pod


def _missing_of(gone: Sequence[Eviction], alive: Sequence[Pod], targets: Targets) -> Counter[ControllerKey]:
    """The number of pods that each evicted pod's controller still has to create."""
    evicted: dict[ControllerKey, list[float]] = defaultdict(list)
    for eviction in gone:
        controller = _controller(eviction.pod)
        if controller is not None:
            evicted[controller].append(eviction.at)
    of_these = [(controller, pod) for pod in alive if (controller := _controller(pod)) is not None and controller in evicted]
    current = Counter(controller for controller, _ in of_these)
    made = Counter(
        controller for controller, pod in of_these if _created_at(pod) >= min(evicted[controller]) - _RESOLUTION_SECONDS
    )
    missing = Counter[ControllerKey]()
    for controller, times in evicted.items():
        target = targets.get(controller)
        missing[controller] = len(times) - made[controller] if target is None else target - current[controller]
    return missing


def _all_pods(planning_input: PlanningInput) -> Iterable[Pod]:
    for row in range(planning_input.snapshot.n_rows):
        for running_pod in planning_input.running_pods.on(Row(row)):
            yield running_pod.pod
    yield from planning_input.pending


def _controller(pod: Pod) -> ControllerKey | None:
    owner = pod.eviction_facts.owner
    return None if owner is None else (pod.key.namespace, owner)


def _created_at(pod: Pod) -> float:
    """When the pod was created, as Unix time; 0 if not known."""
    if not pod.created_at:
        return 0.0
    at = datetime.fromisoformat(pod.created_at)
    return (at.replace(tzinfo=UTC) if at.tzinfo is None else at).timestamp()
