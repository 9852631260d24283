"""What became of the nodes that were requested for one group.

- `BoughtNodes`: what its new machines really are, whatever configuration and older nodes promise.
- `StartTimes`: how long they take to start.
- `ZoneBalance`: whether they came evenly over the zones.
- `MissingNodes`: those of which the provider lists no instance yet.
"""

from collections import Counter, deque
from collections.abc import Collection, Container, Mapping
from dataclasses import dataclass, replace
from typing import Final

from msgspec import structs

from slackwater.cluster.nodegroups.status import BoughtNode, NodeObservation
from slackwater.model.ids import DAY_SECONDS, Instant, NodeName
from slackwater.model.node_taints import TaintId, taint_id
from slackwater.model.nodegroups import InstanceId, NodeGroup
from slackwater.model.prices import zone_of
from slackwater.snapshot.node_facts import HOSTNAME

#: An odd number of nodes, so that one broken machine among them is outvoted.
_MOST: Final = 3
#: How many start times are remembered, and how many open requests.
_MOST_STARTS: Final = 16
_MOST_ASKED: Final = 10_000


@dataclass(slots=True)
class _Seen:
    """A node with the taints that it had when it started. Taints that came later are about this one node."""

    at: Instant
    taints: frozenset[TaintId]
    bought: BoughtNode


class BoughtNodes:
    """Remembers at most `_MOST` nodes of the last purchase of one group, also when they are gone, for a day. It forgets them if
    the provider or the configuration promises something else than when they were bought."""

    def __init__(self) -> None:
        self._seen: dict[NodeName, _Seen] = {}
        self._promised: object = None
        self._promised_at = Instant(0.0)
        #: When the first of the doubted nodes was requested; None if the last node that came was as expected.
        self._doubted_at: Instant | None = None

    def nodes(self) -> tuple[BoughtNode, ...]:
        """The nodes; those that still exist without their pods, which the cluster shows."""
        return tuple(
            replace(seen.bought, running_pods=()) if seen.bought.there else seen.bought for seen in self._seen.values()
        )

    def observe(
        self,
        group: NodeGroup,
        observations: Mapping[InstanceId, NodeObservation],
        asked_at: Mapping[InstanceId, Instant],
        *,
        arrived: Container[InstanceId],
        doubted: Container[InstanceId],
        now: Instant,
    ) -> None:
        """Updates what is known. `asked_at`: when each instance was requested, if we requested it. `arrived`: those whose nodes
        have started, or should have long since. `doubted`: those that lack a device or have a taint that no other node has.
        Their drivers may have failed, so such nodes count only if those of an earlier purchase were doubted too."""
        promised = None
        if (said := group.template) is not None:  # without its name: providers may give it a new one each time
            labels = {key: value for key, value in said.labels.items() if key != HOSTNAME}
            promised = labels, said.allocatable, said.scalars, said.taints, said.csi, said.slices
        if promised != self._promised:
            self._promised, self._promised_at, self._doubted_at, self._seen = promised, now, None, {}
        for id_, at in asked_at.items():
            observation = observations.get(id_)
            if observation is None or id_ not in arrived or at < self._promised_at:
                continue
            again = self._doubted_at is not None and self._doubted_at < at
            if id_ not in doubted:
                self._doubted_at = None if again else self._doubted_at
                self._take(observation, at)
            elif again:
                self._take(observation, at)
            elif self._doubted_at is None:
                self._doubted_at = at
        # After a day the group may try once more whether its machines are as promised: the bought one may have been broken.
        newest = max((seen.at for seen in self._seen.values()), default=now)
        last = sorted(name for name, seen in self._seen.items() if seen.at == newest and now - newest <= DAY_SECONDS)
        there = {observation.name for observation in observations.values()}
        kept = {name: self._seen[name] for name in last[:_MOST]}
        self._seen = {name: replace(seen, bought=replace(seen.bought, there=name in there)) for name, seen in kept.items()}

    def _take(self, observation: NodeObservation, at: Instant) -> None:
        node = observation.node
        if node is None or not node.ready:
            return
        before = self._seen.get(observation.name)
        first = frozenset(map(taint_id, node.taints)) if before is None else before.taints
        pods = observation.daemons if observation.daemons is not None or before is None else before.bought.running_pods
        taints = tuple(taint for taint in node.taints if taint_id(taint) in first)
        bought = BoughtNode(node=structs.replace(node, taints=taints, images=()), running_pods=pods or ())
        self._seen[observation.name] = _Seen(at, first, bought)


class ZoneBalance:
    """Judges the nodes of each purchase once, when they have come: did the cloud spread them evenly over the group's zones?

    A cloud that has no machines in one zone, or does not balance, puts a node where the group has more nodes than elsewhere.
    """

    def __init__(self) -> None:
        self._judged: frozenset[NodeName] = frozenset()
        #: The last purchase came unevenly.
        self.uneven = False

    def observe(self, bought: Collection[BoughtNode], nodes: Collection[NodeObservation], coming: int) -> None:
        """`bought`: nodes of the last purchase, none if it is forgotten. `nodes`: all of the group's. `coming`: how many more
        are on their way; they may go where the fewest are."""
        names = frozenset(each.node.name for each in bought)
        if names == self._judged:
            return
        self._judged = names
        counts = Counter(zone_of(each.node) for each in nodes if each.node is not None)
        del counts[""]
        zones = {zone_of(each.node) for each in bought if each.there}.intersection(counts)
        then = list(counts.values())
        for _ in range(coming if zones else 0):
            then[then.index(min(then))] += 1
        self.uneven = any(counts[zone] > min(then) + 1 for zone in zones)


class StartTimes:
    """Measures how long the nodes of one group take from the request until they start."""

    def __init__(self) -> None:
        self._asked: deque[Instant] = deque(maxlen=_MOST_ASKED)
        self._begun: dict[InstanceId, Instant] = {}
        #: The instances listed at the last observation; None before the first.
        self._there: frozenset[InstanceId] | None = None
        self._seconds: deque[float] = deque(maxlen=_MOST_STARTS)
        #: When each listed instance was requested, if we requested it.
        self.asked_at: dict[InstanceId, Instant] = {}

    @property
    def seconds(self) -> tuple[float, ...]:
        """How long the nodes that started last took to start, in seconds, the newest last."""
        return tuple(self._seconds)

    def restore(self, seconds: Collection[float]) -> None:
        """Adds what an earlier process measured, as older than what this process measured."""
        newer = list(self._seconds)
        self._seconds.clear()
        self._seconds.extend([*seconds, *newer])

    def asked(self, nodes: int, now: Instant) -> None:
        self._asked.extend([now] * min(nodes, _MOST_ASKED))

    def forget_open_requests(self) -> None:
        """Forgets open requests: all requested nodes have appeared, or will not."""
        self._asked.clear()

    def observe(self, there: Collection[InstanceId], started: Collection[InstanceId], now: Instant) -> None:
        """Updates the start times from the instances that are listed now and those of them that take pods."""
        if self._there is not None:
            for id_ in sorted(frozenset(there) - self._there):
                if self._asked:
                    self.asked_at[id_] = self._asked.popleft()
                self._begun[id_] = self.asked_at.get(id_, now)
        self._there = frozenset(there)
        self.asked_at = {id_: at for id_, at in self.asked_at.items() if id_ in self._there}
        for id_ in list(self._begun):
            if id_ not in self._there:
                del self._begun[id_]
            elif id_ in started:
                self._seconds.append(now - self._begun.pop(id_))


class MissingNodes:
    """When each missing node of one group was requested. It assumes that the nodes requested first appear first."""

    def __init__(self) -> None:
        self._requested_at: deque[Instant] = deque()  # the earliest first

    def __len__(self) -> int:
        return len(self._requested_at)

    def observe(self, missing: int, appeared: int, now: Instant) -> None:
        """Takes in that `missing` nodes are missing now, and that `appeared` new instances are listed since the last call."""
        for _ in range(min(len(self), max(appeared, len(self) - missing))):
            self._requested_at.popleft()
        self._requested_at.extend([now] * (missing - len(self)))

    def longer_than(self, seconds: float, now: Instant) -> int:
        """How many nodes have been missing for more than `seconds`."""
        return sum(now - requested_at > seconds for requested_at in self._requested_at)
