"""Recent evictions: which evicted pods still need room, because their controllers may not have created new ones yet.

A pod whose controller is unknown needs room for as long as it is remembered. If the number of replicas that a controller wants
is known, at most as many pods are missing as it has too few; its present pods are counted here, since its own count may be
older than the eviction. If only the controller's name is known, pods that it has created since replace evicted ones. Pending
pods are not missing: they have their room in the snapshot, or are demand already.
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
    """The evicted pods that have no replacement yet, in the order of their eviction.

    A pod that is still on a node, as far as the watch has shown, has its room there.
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
    """The evicted pods themselves where they still exist, the pods of their controllers, and of other controllers with the same
    name.

    They are found by name alone: there may be 150,000 pods, and few are of these controllers.
    """
    uids = {eviction.pod.uid for eviction in evictions}
    names = {eviction.pod.eviction_facts.owner.name for eviction in evictions if eviction.pod.eviction_facts.owner is not None}
    for pod in _everyone(planning_input):
        owner = pod.eviction_facts.owner
        if pod.uid in uids or (owner is not None and owner.name in names):
            yield pod


def _missing_of(gone: Sequence[Eviction], alive: Sequence[Pod], targets: Targets) -> Counter[ControllerKey]:
    """How many pods each controller still has to create."""
    evicted: dict[ControllerKey, list[float]] = defaultdict(list)
    for eviction in gone:
        controller = _controller(eviction.pod)
        if controller is not None:
            evicted[controller].append(eviction.at)
    of_these = [(controller, pod) for pod in alive if (controller := _controller(pod)) is not None and controller in evicted]
    current = Counter(controller for controller, _ in of_these)
    made = Counter(controller for controller, pod in of_these if _born(pod) >= min(evicted[controller]) - _RESOLUTION_SECONDS)
    missing = Counter[ControllerKey]()
    for controller, times in evicted.items():
        target = targets.get(controller)
        missing[controller] = len(times) - made[controller] if target is None else target - current[controller]
    return missing


def _everyone(planning_input: PlanningInput) -> Iterable[Pod]:
    for row in range(planning_input.snapshot.n_rows):
        for running_pod in planning_input.running_pods.on(Row(row)):
            yield running_pod.pod
    yield from planning_input.pending


def _controller(pod: Pod) -> ControllerKey | None:
    owner = pod.eviction_facts.owner
    return None if owner is None else (pod.key.namespace, owner)


def _born(pod: Pod) -> float:
    """When the pod was created; 0 if not known."""
    if not pod.created_at:
        return 0.0
    at = datetime.fromisoformat(pod.created_at)
    return (at.replace(tzinfo=UTC) if at.tzinfo is None else at).timestamp()
