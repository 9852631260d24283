"""Which recently evicted pods still need room: their controllers may not have made new ones yet.

A pod whose controller is unknown needs it for as long as it is remembered. Where it is known how many pods a controller wants
and has, at most the difference is missing. Where only the controller's name is known, pods that it has made since count as the
evicted ones' successors. Whoever is pending already is not missed: it has its room in the picture, or has asked for more.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime

from slackwater.decide.scaledown.scene import Scene
from slackwater.decide.scaledown.state import Eviction
from slackwater.model.ids import Row, UnixTime
from slackwater.model.objects import Pod
from slackwater.simulate.drainability import ControllerKey

#: Objects' times are whole seconds.
_RESOLUTION_SECONDS = 1.0


def remembered(evictions: Sequence[Eviction], now: UnixTime, seconds: float) -> tuple[Eviction, ...]:
    """Those that were evicted less than `seconds` ago."""
    return tuple(eviction for eviction in evictions if now - eviction.at < seconds)


def missing(evictions: Sequence[Eviction], scene: Scene) -> list[Pod]:
    """The evicted pods that nothing has been made for yet, in the order of their eviction."""
    left = _missing_of(evictions, scene)
    found = []
    for eviction in evictions:
        controller = _controller(eviction.pod)
        if controller is not None:
            left[controller] -= 1
            if left[controller] < 0:
                continue
        found.append(eviction.pod)
    return found


def _missing_of(evictions: Sequence[Eviction], scene: Scene) -> Counter[ControllerKey]:
    """How many pods each controller still has to make."""
    known = scene.replicas or {}
    evicted: dict[ControllerKey, list[float]] = defaultdict(list)
    for eviction in evictions:
        controller = _controller(eviction.pod)
        if controller is not None:
            evicted[controller].append(eviction.at)
    counts = Counter({key: max(replicas.target - replicas.current, 0) for key, replicas in known.items() if key in evicted})
    first = {controller: min(times) for controller, times in evicted.items() if controller not in known}
    made = Counter(_made_since(first, scene)) if first else Counter[ControllerKey]()
    for controller in first:
        counts[controller] = max(len(evicted[controller]) - made[controller], 0)
    return counts


def _made_since(first: dict[ControllerKey, float], scene: Scene) -> Iterator[ControllerKey]:
    """The controller of each pod that was made since the first eviction of its controller's pods."""
    for pod in _everyone(scene):
        controller = _controller(pod)
        if controller in first and not pod.deleting and _born(pod) >= first[controller] - _RESOLUTION_SECONDS:
            yield controller


def _everyone(scene: Scene) -> Iterable[Pod]:
    for row in range(scene.picture.n_rows):
        for tenant in scene.standing.on(Row(row)):
            yield tenant.pod
    yield from scene.pending


def _controller(pod: Pod) -> ControllerKey | None:
    owner = pod.ties.owner
    return None if owner is None else (pod.key.namespace, owner)


def _born(pod: Pod) -> float:
    """When the pod was made; 0 where it does not say."""
    if not pod.created_at:
        return 0.0
    at = datetime.fromisoformat(pod.created_at)
    return (at.replace(tzinfo=UTC) if at.tzinfo is None else at).timestamp()
