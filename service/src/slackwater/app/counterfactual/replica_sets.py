"""Which pods end on our side when a ReplicaSet is scaled down: a model of its controller, which chooses by where its pods run.

Of each ReplicaSet as many pods end here as really do, but the controller would choose others here: first those without a node,
then those that are not ready, those whose deletion cost is low, those beside the most pods of their kind, and the newest.
Source: getPodsToDelete in pkg/controller/replicaset/replica_set.go, ActivePodsWithRanks in pkg/controller/controller_utils.go.
Pods of one ReplicaSet count as a kind; the controller also counts those of the Deployment's other ReplicaSets.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf, log2
from typing import Final

from slackwater.app.counterfactual.demand import Arrived, Changed, DemandEvent, Ended
from slackwater.app.counterfactual.pods_here import PodsHere
from slackwater.app.rounds.virtual_cluster import VirtualCluster
from slackwater.model.auxiliary import ControllerKey, controller_key
from slackwater.model.ids import PodUid, UnixTime
from slackwater.model.objects import Pod, created_at_of

_KINDS: Final = frozenset({("apps", "ReplicaSet"), ("", "ReplicationController")})


@dataclass(slots=True)
class ReplicaSets:
    """The places of ReplicaSets on our side, and which of them stands for which place of the real cluster."""

    _places: dict[ControllerKey, dict[PodUid, None]] = field(default_factory=dict)
    #: Our place by the real one, and the reverse, where they have different names.
    _here: dict[PodUid, PodUid] = field(default_factory=dict)
    _real: dict[PodUid, PodUid] = field(default_factory=dict)

    def add(self, place: PodUid, pod: Pod) -> None:
        """A place that is on both sides from now on."""
        if (controller := _replica_set_of(pod)) is not None:
            self._places.setdefault(controller, {})[place] = None

    def here(self, event: DemandEvent) -> DemandEvent:
        """The event with our place in place of the real one."""
        match event:
            case Arrived():
                self.add(event.place, event.pod)
            case Changed() if event.place in self._here:
                return replace(event, place=self._ours(event.place))
            case _:
                pass
        return event

    def ended(self, events: Sequence[Ended], cluster: VirtualCluster, pods: PodsHere, now: UnixTime) -> Iterator[Ended]:
        """What ends here at the moment at which `events` really ended. `pods`: what else changes here at this moment."""
        together: dict[ControllerKey, list[Ended]] = {}
        for event in events:
            controller = _replica_set_of(event.pod)
            if controller is None or self._ours(event.place) not in self._places.get(controller, ()):
                self._real.pop(self._here.pop(event.place, event.place), None)
                yield event
            else:
                together.setdefault(controller, []).append(event)
        for controller, some in together.items():
            places = self._places[controller]
            found = {place: pods.get(place) or cluster.find(place) for place in places}
            there = {place: pod for place, pod in found.items() if pod is not None}
            # Without a pod here: one that the controller takes for gone, as Failed.
            ending = [event for event in some if self._ours(event.place) in there]
            chosen = sorted(there, key=ending_order(there, now))[: len(ending)]
            self._pair([event.place for event in some], chosen, there)
            for place in (*chosen, *(found.keys() - there)):
                del places[place]
            if not places:
                del self._places[controller]
            yield from (replace(event, place=place) for event, place in zip(ending, chosen, strict=True))

    def _ours(self, place: PodUid) -> PodUid:
        return self._here.get(place, place)

    def _pair(self, ended: Sequence[PodUid], chosen: Sequence[PodUid], there: Collection[PodUid]) -> None:
        """Our places that go on without their real ones stand for the real ones that go on without theirs."""
        ours = dict.fromkeys(self._here.pop(place, place) for place in ended)
        for place in ours:
            self._real.pop(place, None)
        ending = set(chosen)
        going_on = [place for place in ours if place in there and place not in ending]
        for place, kept in zip((place for place in chosen if place not in ours), going_on, strict=True):
            real = self._real.pop(place, place)
            self._here[real], self._real[kept] = kept, real


def ending_order(there: Mapping[PodUid, Pod], now: UnixTime) -> Callable[[PodUid], tuple[float | str, ...]]:
    """The key by which the controller sorts places: the first ends first."""
    beside = Counter(pod.node for pod in there.values())

    def key(place: PodUid) -> tuple[float | str, ...]:
        pod = there[place]
        age = now - created_at_of(pod.created_at)
        power = int(log2(age * 1e9)) if age > 0 else -inf
        return (pod.node is not None, pod.ready, pod.eviction_facts.deletion_cost, -beside[pod.node], power, place)

    return key


def _replica_set_of(pod: Pod) -> ControllerKey | None:
    controller = controller_key(pod)
    return None if controller is None or (controller[1].group, controller[1].kind) not in _KINDS else controller
